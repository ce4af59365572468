/**
 * Universal auth: client id and client secret. A client secret is 256 random bits, so a keyed fast hash protects it
 * as well as a slow one would, and a login costs one read and one write.
 */
import { createHmac, randomBytes } from "node:crypto";
import { newId } from "../../platform/ids.ts";
import type { MemberActor } from "../../platform/actor.ts";
import { createBound } from "../../platform/bound.ts";
import type { Clock } from "../../platform/clock.ts";
import type { Keyring } from "../../platform/crypto/index.ts";
import { isForeignKeyViolation, isUniqueViolation, type Db } from "../../platform/db/index.ts";
import { badRequest, conflict, notFound } from "../../platform/problem.ts";
import type { ImpersonationGuard } from "../../identities/index.ts";
import { dropTokensOfMethod } from "../access-tokens/store.ts";
import { tokensChanged } from "../events.ts";
import { forgetFailures } from "../lockouts.store.ts";
import { describeCidr } from "../model.ts";
import type {
  NewClientSecret,
  UniversalAuthChange,
  UniversalAuthSettings,
  UniversalAuthView,
} from "./contract.ts";
import {
  countClientSecrets,
  forgetOldSecrets,
  addAuthMethod,
  deleteUniversalAuth,
  dropAuthMethod,
  findClientSecret,
  findUniversalAuth,
  insertClientSecret,
  insertUniversalAuth,
  listClientSecrets,
  revokeClientSecret,
  lockUniversalAuth,
  updateUniversalAuth,
  type ClientSecretRow,
  type UniversalAuthRow,
} from "./store.ts";

export const METHOD = "universal-auth";

interface UniversalAuthNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly keyring: Keyring;
  readonly control: ImpersonationGuard;
}

const toView = (row: UniversalAuthRow): UniversalAuthView => ({
  ...row,
  accessTokenTrustedIps: row.accessTokenTrustedIps.map(describeCidr),
  clientSecretTrustedIps: row.clientSecretTrustedIps.map(describeCidr),
});

export const digestOf = (keyring: Keyring, secret: string): Buffer =>
  createHmac("sha256", keyring.instanceKey("credential-lookup")).update(`client-secret:${secret}`).digest();

export function checkLifetimes(settings: {
  readonly accessTokenTTL: number;
  readonly accessTokenMaxTTL: number;
}): void {
  if (settings.accessTokenMaxTTL > 0 && settings.accessTokenTTL > settings.accessTokenMaxTTL)
    throw badRequest("accessTokenTTL cannot be greater than accessTokenMaxTTL.");
}

const MOST_SECRETS = 1000;
export type UniversalAuths = ReturnType<typeof createUniversalAuths>;

export function createUniversalAuths({ db, clock, keyring, control }: UniversalAuthNeeds) {
  /** They are listed in one answer. */
  const room = createBound({
    most: MOST_SECRETS,
    words: ["An identity has at most", "client secrets that can be used"],
    count: (q, authId, most) => countClientSecrets(q, authId, most, clock.now()),
  });

  const find = async (identityId: string): Promise<UniversalAuthRow> => {
    const row = await db.read((q) => findUniversalAuth(q, identityId));
    if (!row) throw notFound("Universal auth of the identity", identityId);
    return row;
  };

  return {
    judge: control.require,

    async attach(
      actor: MemberActor,
      identityId: string,
      settings: UniversalAuthSettings,
    ): Promise<UniversalAuthView> {
      const identity = await control.require(actor, identityId, "edit-auth");
      checkLifetimes(settings);
      try {
        return await db.write(async (tx) => {
          const row = await insertUniversalAuth(
            tx,
            { id: newId(), identityId, clientId: newId() },
            settings,
            clock.now(),
          );
          await addAuthMethod(tx, identityId, METHOD, clock.now());
          tx.audit(actor, {
            event: "attach-universal-auth",
            orgId: identity.orgId,
            projectId: identity.projectId,
            metadata: { identityId },
          });
          return toView(row as UniversalAuthRow);
        });
      } catch (error) {
        if (isUniqueViolation(error, "universal_auths_identity_unique"))
          throw conflict("This identity has universal auth already.");
        throw isForeignKeyViolation(error) ? notFound("The identity", identityId) : error;
      }
    },

    async get(actor: MemberActor, identityId: string): Promise<UniversalAuthView> {
      await control.require(actor, identityId, "read");
      return toView(await find(identityId));
    },

    async update(
      actor: MemberActor,
      identityId: string,
      change: UniversalAuthChange,
    ): Promise<UniversalAuthView> {
      const identity = await control.require(actor, identityId, "edit-auth");
      const given = Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined));
      return db.write(async (tx) => {
        // Merged under the lock: two changes at once must not undo each other.
        const before = await lockUniversalAuth(tx, identityId);
        if (!before) throw notFound("Universal auth of the identity", identityId);
        const settings = { ...before, ...given } as UniversalAuthRow;
        checkLifetimes(settings);
        const row = (await updateUniversalAuth(tx, identityId, settings, clock.now())) as UniversalAuthRow;
        if (!row.lockoutEnabled) await forgetFailures(tx, identityId, METHOD, null);
        tx.audit(actor, {
          event: "update-universal-auth",
          orgId: identity.orgId,
          projectId: identity.projectId,
          metadata: { identityId, changed: Object.keys(given) },
        });
        tx.emit(tokensChanged({ identityId, tokenId: null }));
        return toView(row);
      });
    },

    async detach(actor: MemberActor, identityId: string): Promise<UniversalAuthView> {
      const identity = await control.require(actor, identityId, "revoke-auth");
      return db.write(async (tx) => {
        await dropTokensOfMethod(tx, identityId, METHOD);
        const row = await deleteUniversalAuth(tx, identityId);
        if (!row) throw notFound("Universal auth of the identity", identityId);
        await dropAuthMethod(tx, identityId, METHOD, clock.now());
        await forgetFailures(tx, identityId, METHOD, null);
        tx.audit(actor, {
          event: "detach-universal-auth",
          orgId: identity.orgId,
          projectId: identity.projectId,
          metadata: { identityId },
        });
        tx.emit(tokensChanged({ identityId, tokenId: null }));
        return toView(row);
      });
    },

    async clearLockouts(actor: MemberActor, identityId: string): Promise<number> {
      const identity = await control.require(actor, identityId, "edit-auth");
      return db.write(async (tx) => {
        const deleted = await forgetFailures(tx, identityId, METHOD, null);
        tx.audit(actor, {
          event: "clear-lockouts",
          orgId: identity.orgId,
          projectId: identity.projectId,
          metadata: { identityId, deleted },
        });
        return deleted;
      });
    },

    async createSecret(
      actor: MemberActor,
      identityId: string,
      input: NewClientSecret,
    ): Promise<{ clientSecret: string; clientSecretData: ClientSecretRow }> {
      const identity = await control.require(actor, identityId, "create-token");
      const auth = await find(identityId);
      const secret = randomBytes(32).toString("hex");
      const at = clock.now();
      const expiresAt = input.ttl === 0 ? null : new Date(at.getTime() + input.ttl * 1000);
      const write = db.write(async (tx) => {
        await room.leaveRoom(tx, auth.id);
        forgetOldSecrets(tx, auth.id, MOST_SECRETS, at);
        const row = await insertClientSecret(tx, {
          id: newId(),
          universalAuthId: auth.id,
          digest: digestOf(keyring, secret),
          prefix: secret.slice(0, 4),
          description: input.description,
          usesLimit: input.numUsesLimit,
          ttl: input.ttl,
          expiresAt,
          at,
        });
        tx.audit(actor, {
          event: "create-client-secret",
          orgId: identity.orgId,
          projectId: identity.projectId,
          metadata: { identityId, clientSecretId: row?.id },
        });
        return row as ClientSecretRow;
      });
      const clientSecretData = await write.catch((error: unknown) => {
        throw isForeignKeyViolation(error) ? notFound("Universal auth of the identity", identityId) : error;
      });
      return { clientSecret: secret, clientSecretData };
    },

    async listSecrets(actor: MemberActor, identityId: string): Promise<ClientSecretRow[]> {
      await control.require(actor, identityId, "get-token");
      const auth = await find(identityId);
      return db.read((q) => listClientSecrets(q, auth.id));
    },

    async getSecret(actor: MemberActor, identityId: string, id: string): Promise<ClientSecretRow> {
      await control.require(actor, identityId, "get-token");
      const auth = await find(identityId);
      const row = await db.read((q) => findClientSecret(q, auth.id, id));
      if (!row) throw notFound("The client secret", id);
      return row;
    },

    async revokeSecret(actor: MemberActor, identityId: string, id: string): Promise<ClientSecretRow> {
      const identity = await control.require(actor, identityId, "delete-token");
      const auth = await find(identityId);
      return db.write(async (tx) => {
        const row = await revokeClientSecret(tx, auth.id, id, clock.now());
        if (!row) throw notFound("The client secret", id);
        tx.audit(actor, {
          event: "revoke-client-secret",
          orgId: identity.orgId,
          projectId: identity.projectId,
          metadata: { identityId, clientSecretId: id },
        });
        tx.emit(tokensChanged({ identityId, tokenId: null }));
        return row;
      });
    },
  };
}
