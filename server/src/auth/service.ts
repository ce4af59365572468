/** From an Authorization header to an actor, whichever kind of token it carries. */
import { hash } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { Caller, MemberActor } from "../platform/actor.ts";
import type { Clock } from "../platform/clock.ts";
import { openToken, type Claims, type Keyring } from "../platform/crypto/index.ts";
import type { AccessTokens } from "./access-tokens/service.ts";
import { noToken, tokenExpired, tokenInvalid, tokenRevoked } from "./model.ts";
import type { Sessions } from "./sessions/service.ts";

export interface Authentication {
  authenticate(header: string | undefined, caller: Caller): Promise<MemberActor>;
  /** When the token of an accepted header expires. */
  endOf(header: string | undefined): number;
  /** Does the actor still have access, apart from the token's expiry? */
  isLive(actor: MemberActor): Promise<boolean>;
  /** Throws the problem if a token that was accepted before would be refused now. */
  confirm(actor: MemberActor, header: string | undefined): Promise<void>;
}

interface AuthenticationNeeds {
  readonly clock: Clock;
  readonly keyring: Keyring;
  readonly accessTokens: AccessTokens;
  readonly sessions: Sessions;
}

const BEARER = /^bearer +(\S+)$/i;
const REMEMBERED = 10_000;

export function createAuthentication({
  clock,
  keyring,
  accessTokens,
  sessions,
}: AuthenticationNeeds): Authentication {
  const key = keyring.instanceKey("token-signing");
  // A valid signature stays valid; what may change (revoked, expired) is checked every time. Cached under
  // the token's digest, because a leaked digest is not a token.
  const opened = new LRUCache<string, Claims>({ max: REMEMBERED });
  const claimsOf = (header: string | undefined): Claims => {
    const text = header === undefined || header.length > 8192 ? undefined : BEARER.exec(header.trim())?.[1];
    if (text === undefined) throw noToken();
    const digest = hash("sha256", text, "base64url");
    const known = opened.get(digest);
    if (known) return known;
    const claims = openToken(key, text);
    if (!claims) throw tokenInvalid();
    opened.set(digest, claims);
    return claims;
  };
  const endOf = (header: string | undefined): number => Number(claimsOf(header)["exp"]) * 1000;
  const isLive = (actor: MemberActor): Promise<boolean> =>
    actor.kind === "identity" ? accessTokens.isLive(actor) : sessions.isLive(actor);
  return {
    async authenticate(header, caller) {
      const claims = claimsOf(header);
      return claims["authTokenType"] === "identityAccessToken"
        ? accessTokens.authenticate(claims, caller)
        : sessions.authenticate(claims, caller);
    },
    endOf,
    isLive,
    async confirm(actor, header) {
      if (endOf(header) <= clock.millis()) throw tokenExpired();
      if (!(await isLive(actor))) throw tokenRevoked();
    },
  };
}
