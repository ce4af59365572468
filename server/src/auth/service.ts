/** From an Authorization header to an actor, whichever kind of token it carries. */
import type { Caller, MemberActor } from "../platform/actor.ts";
import { openToken, type Keyring } from "../platform/crypto/index.ts";
import type { AccessTokens } from "./access-tokens/service.ts";
import { noToken, tokenInvalid } from "./model.ts";
import type { Sessions } from "./sessions/service.ts";

export interface Authentication {
  authenticate(header: string | undefined, caller: Caller): Promise<MemberActor>;
}

export interface AuthenticationNeeds {
  readonly keyring: Keyring;
  readonly accessTokens: AccessTokens;
  readonly sessions: Sessions;
}

const BEARER = /^bearer +(\S+)$/i;

export function createAuthentication({ keyring, accessTokens, sessions }: AuthenticationNeeds): Authentication {
  const key = keyring.instanceKey("token-signing");
  return {
    async authenticate(header, caller) {
      const text = header === undefined || header.length > 8192 ? undefined : BEARER.exec(header.trim())?.[1];
      if (text === undefined) throw noToken();
      const claims = openToken(key, text);
      if (!claims) throw tokenInvalid();
      return claims["authTokenType"] === "identityAccessToken" ? accessTokens.authenticate(claims, caller) : sessions.authenticate(claims, caller);
    },
  };
}
