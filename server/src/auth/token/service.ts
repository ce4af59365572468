/** Token auth: tokens that an operator makes for an identity by hand, each with a name and its own end. */
import type { MemberActor } from "../../platform/actor.ts";
import type { Clock } from "../../platform/clock.ts";
import { isUniqueViolation, type Db } from "../../platform/db/index.ts";
import { newId } from "../../platform/ids.ts";
import { conflict, notFound } from "../../platform/problem.ts";
import type { ImpersonationGuard } from "../../identities/index.ts";
import { orgOf } from "../../permissions/index.ts";
import type { GrantedToken } from "../access-tokens/contract.ts";
import type { AccessTokens } from "../access-tokens/service.ts";
import {
  dropTokensOfMethod,
  findTokenInOrg,
  listTokens,
  renameToken,
  revokeToken,
  type TokenRow,
} from "../access-tokens/store.ts";
import { tokensChanged } from "../events.ts";
import { describeCidr } from "../model.ts";
import { checkLifetimes } from "../universal/service.ts";
import { addAuthMethod, dropAuthMethod } from "../universal/store.ts";
import type { TokenAuthChange, TokenAuthSettings, TokenAuthView, TokenDataView } from "./contract.ts";
import {
  deleteTokenAuth,
  findTokenAuth,
  insertTokenAuth,
  lockTokenAuth,
  updateTokenAuth,
  type TokenAuthRow,
} from "./store.ts";

const METHOD = "token-auth";

interface TokenAuthNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly control: ImpersonationGuard;
  readonly tokens: AccessTokens;
}

const toView = (row: TokenAuthRow): TokenAuthView => ({
  ...row,
  accessTokenTrustedIps: row.accessTokenTrustedIps.map(describeCidr),
});

const toTokenData = (row: TokenRow): TokenDataView => ({
  id: row.id,
  identityId: row.identityId,
  name: row.name,
  authMethod: row.authMethod,
  accessTokenTTL: row.ttl,
  accessTokenMaxTTL: row.maxTtl,
  accessTokenPeriod: row.period,
  accessTokenNumUses: row.uses,
  accessTokenNumUsesLimit: row.usesLimit,
  accessTokenLastUsedAt: row.lastUsedAt,
  accessTokenLastRenewedAt: row.lastRenewedAt,
  isAccessTokenRevoked: row.isRevoked,
  identityUAClientSecretId: row.clientSecretId,
  createdAt: row.createdAt,
  updatedAt: row.updatedAt,
});

export type TokenAuths = ReturnType<typeof createTokenAuths>;

export function createTokenAuths({ db, clock, control, tokens }: TokenAuthNeeds) {
  const find = async (identityId: string): Promise<TokenAuthRow> => {
    const row = await db.read((q) => findTokenAuth(q, identityId));
    if (!row) throw notFound("Token auth of the identity", identityId);
    return row;
  };

  /** A token made by token auth, in the caller's organisation. */
  const findToken = async (actor: MemberActor, tokenId: string): Promise<TokenRow> => {
    const orgId = orgOf(actor);
    const row = await db.read((q) => findTokenInOrg(q, tokenId, orgId));
    if (!row || row.authMethod !== METHOD) throw notFound("The token", tokenId);
    return row;
  };

  return {
    async attach(
      actor: MemberActor,
      identityId: string,
      settings: TokenAuthSettings,
    ): Promise<TokenAuthView> {
      const identity = await control.require(actor, identityId, "edit-auth");
      checkLifetimes(settings);
      try {
        return await db.write(async (tx) => {
          const row = await insertTokenAuth(tx, { id: newId(), identityId }, settings, clock.now());
          await addAuthMethod(tx, identityId, METHOD, clock.now());
          tx.audit(actor, {
            event: "attach-token-auth",
            orgId: identity.orgId,
            projectId: identity.projectId,
            metadata: { identityId },
          });
          return toView(row as TokenAuthRow);
        });
      } catch (error) {
        if (isUniqueViolation(error, "token_auths_identity_unique"))
          throw conflict("This identity has token auth already.");
        throw error;
      }
    },

    async get(actor: MemberActor, identityId: string): Promise<TokenAuthView> {
      await control.require(actor, identityId, "read");
      return toView(await find(identityId));
    },

    async update(actor: MemberActor, identityId: string, change: TokenAuthChange): Promise<TokenAuthView> {
      const identity = await control.require(actor, identityId, "edit-auth");
      const given = Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined));
      return db.write(async (tx) => {
        // Merged under the lock: two changes at once must not undo each other.
        const before = await lockTokenAuth(tx, identityId);
        if (!before) throw notFound("Token auth of the identity", identityId);
        const settings = { ...before, ...given } as TokenAuthRow;
        checkLifetimes(settings);
        const row = (await updateTokenAuth(tx, identityId, settings, clock.now())) as TokenAuthRow;
        tx.audit(actor, {
          event: "update-token-auth",
          orgId: identity.orgId,
          projectId: identity.projectId,
          metadata: { identityId, changed: Object.keys(given) },
        });
        tx.emit(tokensChanged({ identityId, tokenId: null }));
        return toView(row);
      });
    },

    async detach(actor: MemberActor, identityId: string): Promise<TokenAuthView> {
      const identity = await control.require(actor, identityId, "revoke-auth");
      return db.write(async (tx) => {
        await dropTokensOfMethod(tx, identityId, METHOD);
        const row = await deleteTokenAuth(tx, identityId);
        if (!row) throw notFound("Token auth of the identity", identityId);
        await dropAuthMethod(tx, identityId, METHOD, clock.now());
        tx.audit(actor, {
          event: "detach-token-auth",
          orgId: identity.orgId,
          projectId: identity.projectId,
          metadata: { identityId },
        });
        tx.emit(tokensChanged({ identityId, tokenId: null }));
        return toView(row);
      });
    },

    judge: control.require,
    judgeToken: async (actor: MemberActor, tokenId: string, action: "create-token" | "delete-token") =>
      control.require(actor, (await findToken(actor, tokenId)).identityId, action),

    async createToken(
      actor: MemberActor,
      identityId: string,
      name: string | undefined,
    ): Promise<GrantedToken & { tokenData: TokenDataView }> {
      const identity = await control.require(actor, identityId, "create-token");
      const auth = await find(identityId);
      const settings = {
        ttl: auth.accessTokenTTL,
        maxTtl: auth.accessTokenMaxTTL,
        period: auth.accessTokenPeriod,
        usesLimit: auth.accessTokenNumUsesLimit,
      };
      const bearer = { identityId, identityName: identity.name, orgId: identity.orgId };
      const granted = await db.write(async (tx) => {
        const token = tokens.issue(tx, { bearer, method: METHOD, settings, name: name ?? null });
        tx.audit(actor, {
          event: "create-token",
          orgId: identity.orgId,
          projectId: identity.projectId,
          metadata: { identityId, tokenId: token.tokenId, name },
        });
        return token;
      });
      return { ...granted, tokenData: toTokenData(await findToken(actor, granted.tokenId)) };
    },

    async listTokens(
      actor: MemberActor,
      identityId: string,
      page: { offset: number; limit: number },
    ): Promise<TokenDataView[]> {
      await control.require(actor, identityId, "get-token");
      return (await db.read((q) => listTokens(q, identityId, METHOD, page), { tenant: orgOf(actor) })).map(
        toTokenData,
      );
    },

    async getToken(actor: MemberActor, tokenId: string): Promise<TokenDataView> {
      const row = await findToken(actor, tokenId);
      await control.require(actor, row.identityId, "get-token");
      return toTokenData(row);
    },

    async renameToken(actor: MemberActor, tokenId: string, name: string | undefined): Promise<TokenDataView> {
      const row = await findToken(actor, tokenId);
      const identity = await control.require(actor, row.identityId, "create-token");
      return db.write(async (tx) => {
        const renamed = await renameToken(tx, tokenId, name ?? row.name, clock.now());
        if (!renamed) throw notFound("The token", tokenId);
        tx.audit(actor, {
          event: "update-token",
          orgId: identity.orgId,
          projectId: identity.projectId,
          metadata: { identityId: row.identityId, tokenId },
        });
        return toTokenData(renamed);
      });
    },

    async revokeToken(actor: MemberActor, tokenId: string): Promise<void> {
      const row = await findToken(actor, tokenId);
      const identity = await control.require(actor, row.identityId, "delete-token");
      await db.write(async (tx) => {
        await revokeToken(tx, tokenId, clock.now());
        tx.audit(actor, {
          event: "revoke-token",
          orgId: identity.orgId,
          projectId: identity.projectId,
          metadata: { identityId: row.identityId, tokenId },
        });
        tx.emit(tokensChanged({ identityId: row.identityId, tokenId }));
      });
    },
  };
}
