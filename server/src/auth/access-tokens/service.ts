/**
 * Access tokens of machine identities. A token is a signed statement that names a row; the signature is checked
 * without the database, and the row's state is cached until a fact says that it changed. So the common request
 * costs no round trip, and a revocation is still effective on every node within the tail's freshness.
 */
import type { BlockList } from "node:net";
import type { Caller, IdentityActor } from "../../platform/actor.ts";
import type { Clock } from "../../platform/clock.ts";
import { openToken, signToken, type Claims, type Keyring } from "../../platform/crypto/index.ts";
import type { Db, WriteTx } from "../../platform/db/index.ts";
import { newId } from "../../platform/ids.ts";
import { inBatches } from "../../platform/jobs/index.ts";
import type { Log } from "../../platform/log.ts";
import { oneAtATime } from "../../platform/one-at-a-time.ts";
import { createFactCache, type Tail } from "../../platform/outbox/index.ts";
import { addressForbidden } from "../../platform/problem.ts";
import { identityChanged, identityDeleted } from "../../identities/index.ts";
import { projectDeleted } from "../../projects/index.ts";
import { tokensChanged } from "../events.ts";
import {
  addressList,
  isTrusted,
  lifetimeOf,
  tokenExpired,
  tokenInvalid,
  tokenRevoked,
  type TokenSettings,
} from "../model.ts";
import type { GrantedToken } from "./contract.ts";
import {
  findToken,
  findTokenState,
  insertToken,
  renewTokenUntil,
  revokeToken,
  sweepTokens,
  touchTokens,
  useToken,
  type TokenState,
} from "./store.ts";

interface AccessTokenNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly log: Log;
  readonly tail: Tail;
  readonly keyring: Keyring;
}

interface LiveToken extends TokenState {
  readonly addresses: BlockList | undefined;
  /** When its use was last noted here. */
  notedAt: number;
}

interface TokenBearer {
  readonly identityId: string;
  readonly identityName: string;
  readonly orgId: string;
}

interface IssueOrder {
  readonly bearer: TokenBearer;
  readonly method: string;
  readonly settings: TokenSettings;
  readonly name?: string | null;
  readonly clientSecretId?: string;
}

const CACHED_TOKENS = 100_000;
/** How exact a last use is. */
const USE_STEP_MS = 60_000;
const KEEP_EXPIRED_MS = 7 * 86_400_000;

export type AccessTokens = ReturnType<typeof createAccessTokens>;

export function createAccessTokens({ db, clock, log, tail, keyring }: AccessTokenNeeds) {
  const key = keyring.instanceKey("token-signing");
  const live = createFactCache<LiveToken>(tail, CACHED_TOKENS, (token) => [
    token.identityId,
    token.projectId ?? "",
  ]);
  let used = new Map<string, Date>();

  tail.onInvalidate((fact) => {
    if (tokensChanged.is(fact)) {
      const { identityId, tokenId } = fact.data;
      if (tokenId === null) live.dropGroup(identityId);
      else live.drop(tokenId);
    } else if (identityDeleted.is(fact) || identityChanged.is(fact)) {
      live.dropGroup(fact.data.identityId);
    } else if (projectDeleted.is(fact)) {
      live.dropGroup(fact.data.projectId);
    }
  });

  const sign = (bearer: TokenBearer, method: string, tokenId: string, expiresAt: Date): string =>
    signToken(key, {
      authTokenType: "identityAccessToken",
      identityId: bearer.identityId,
      identityName: bearer.identityName,
      identityAccessTokenId: tokenId,
      authMethod: method,
      orgId: bearer.orgId,
      iat: Math.floor(clock.millis() / 1000),
      exp: Math.ceil(expiresAt.getTime() / 1000),
    });

  /** The token's id if it is one of an identity and in time. */
  const idOf = (claims: Claims | undefined): string => {
    const tokenId = claims?.["identityAccessTokenId"];
    if (!claims || claims["authTokenType"] !== "identityAccessToken" || typeof tokenId !== "string")
      throw tokenInvalid();
    if (typeof claims["exp"] !== "number" || claims["exp"] * 1000 <= clock.millis()) throw tokenExpired();
    return tokenId;
  };

  const load = async (tokenId: string): Promise<LiveToken | undefined> => {
    const state = await db.read((q) => findTokenState(q, tokenId));
    return (
      state && { ...state, addresses: addressList(state.trustedIps ?? []), notedAt: Number.NEGATIVE_INFINITY }
    );
  };

  const noteUse = (token: LiveToken): void => {
    const now = clock.millis();
    if (now - token.notedAt < USE_STEP_MS) return;
    token.notedAt = now;
    used.set(token.id, new Date(now));
  };

  /** Later uses stand. What there is no room for is lost, and said so. */
  const putBack = (batch: ReadonlyMap<string, Date>, ids: Iterable<string>): void => {
    for (const id of ids) {
      const at = batch.get(id);
      if (at && !used.has(id)) used.set(id, at);
    }
    if (used.size <= CACHED_TOKENS) return;
    const excess = used.size - CACHED_TOKENS;
    log.warn({ tokens: excess }, "too many last uses wait to be written down; the oldest are dropped");
    for (const id of [...used.keys()].slice(0, excess)) used.delete(id);
  };

  const countUse = async (tokenId: string): Promise<void> => {
    const counted = await db.write((tx) => useToken(tx, tokenId, clock.now()), { audited: false });
    if (!counted) throw tokenRevoked();
  };

  const admit = (token: LiveToken, caller: Caller): IdentityActor => {
    if (!isTrusted(token.addresses, caller.ip))
      throw addressForbidden("Your address is not among the trusted addresses of this token.");
    return {
      kind: "identity",
      id: token.identityId,
      name: token.identityName,
      orgId: token.orgId,
      tokenId: token.id,
      authMethod: token.authMethod,
      isInstanceAdmin: token.isInstanceAdmin,
      caller,
    };
  };

  return {
    /** Writes the token's row with the transaction and answers what the client gets. */
    issue(
      tx: WriteTx,
      { bearer, method, settings, name, clientSecretId }: IssueOrder,
    ): GrantedToken & { readonly tokenId: string } {
      const { expiresIn, maxTtl } = lifetimeOf(settings, 0);
      const at = clock.now();
      const expiresAt = new Date(at.getTime() + expiresIn * 1000);
      const tokenId = newId(at.getTime());
      insertToken(tx, {
        id: tokenId,
        identityId: bearer.identityId,
        authMethod: method,
        name: name ?? null,
        clientSecretId: clientSecretId ?? null,
        ...settings,
        expiresAt,
        at,
      });
      return {
        tokenId,
        accessToken: sign(bearer, method, tokenId, expiresAt),
        expiresIn,
        accessTokenMaxTTL: maxTtl,
        tokenType: "Bearer",
      };
    },

    /** `claims` are of a token whose signature was found good. */
    async authenticate(claims: Claims, caller: Caller): Promise<IdentityActor> {
      const tokenId = idOf(claims);
      const token = live.peek(tokenId) ?? (await live.get(tokenId, () => load(tokenId)));
      if (!token) throw tokenRevoked();
      const actor = admit(token, caller);
      if (token.usesLimit > 0) await countUse(tokenId);
      else noteUse(token);
      return actor;
    },

    /** Is it still valid? For what outlasts a request; no use is counted. */
    async isLive(actor: IdentityActor): Promise<boolean> {
      const token = live.peek(actor.tokenId) ?? (await live.get(actor.tokenId, () => load(actor.tokenId)));
      return token !== undefined && isTrusted(token.addresses, actor.caller.ip);
    },

    async renew(text: string, caller: Caller): Promise<GrantedToken> {
      const tokenId = idOf(openToken(key, text));
      const state = await load(tokenId);
      const row = await db.read((q) => findToken(q, tokenId));
      if (!state || !row) throw tokenRevoked();
      const actor = admit(state, caller);
      const now = clock.now();
      const { expiresIn, maxTtl } = lifetimeOf(row, (now.getTime() - row.createdAt.getTime()) / 1000);
      if (expiresIn <= 0) throw tokenRevoked();
      const expiresAt = new Date(now.getTime() + expiresIn * 1000);
      await db.write(async (tx) => {
        if (!(await renewTokenUntil(tx, tokenId, expiresAt, now))) throw tokenRevoked();
        const { orgId, projectId } = state;
        tx.audit(actor, { event: "renew-access-token", orgId, projectId, metadata: { tokenId } });
      });
      return {
        accessToken: sign(state, state.authMethod, tokenId, expiresAt),
        expiresIn,
        accessTokenMaxTTL: maxTtl,
        tokenType: "Bearer",
      };
    },

    async revoke(text: string, caller: Caller): Promise<void> {
      const tokenId = idOf(openToken(key, text));
      const state = await load(tokenId);
      if (!state) throw tokenRevoked();
      const actor = { ...admit({ ...state, addresses: undefined }, caller) };
      await db.write(async (tx) => {
        await revokeToken(tx, tokenId, clock.now());
        const { orgId, projectId } = state;
        tx.audit(actor, { event: "revoke-access-token", orgId, projectId, metadata: { tokenId } });
        tx.emit(tokensChanged({ identityId: state.identityId, tokenId }));
      });
    },

    /** When each token was last used is worth knowing to the minute, not worth a write per request. */
    flushUses: oneAtATime(async () => {
      if (used.size === 0) return;
      const batch = used;
      used = new Map();
      try {
        const held = await db.write((tx) => touchTokens(tx, batch), { audited: false, isChore: true });
        putBack(batch, held);
      } catch (error) {
        putBack(batch, batch.keys());
        throw error;
      }
    }),

    sweep: () =>
      inBatches((batch) =>
        db.write((tx) => sweepTokens(tx, new Date(clock.millis() - KEEP_EXPIRED_MS), batch), {
          audited: false,
        }),
      ),
  };
}
