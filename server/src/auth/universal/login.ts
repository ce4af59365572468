/** The hottest path: one query that reads everything, a decision, one write. */
import { isUuid, newId } from "../../platform/ids.ts";
import { systemActor, type Caller, type IdentityActor } from "../../platform/actor.ts";
import type { Clock } from "../../platform/clock.ts";
import type { Keyring } from "../../platform/crypto/index.ts";
import { isForeignKeyViolation, unlessMade, type Db, type WriteTx } from "../../platform/db/index.ts";
import { oneAtATime } from "../../platform/one-at-a-time.ts";
import { networkOf } from "../../platform/http/index.ts";
import { addressForbidden, type Problem } from "../../platform/problem.ts";
import type { Redacted } from "../../platform/redacted.ts";
import type { GrantedToken } from "../access-tokens/contract.ts";
import type { AccessTokens } from "../access-tokens/service.ts";
import { countFailure, forgetFailures } from "../lockouts.store.ts";
import { addressList, credentialsWrong, isTrusted, lockedOut } from "../model.ts";
import { digestOf, METHOD } from "./service.ts";
import { findLogin, noteClientSecretUses, useClientSecret, type LoginState, type NotedUse } from "./store.ts";

interface UniversalLoginNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly keyring: Keyring;
  readonly tokens: AccessTokens;
}

export interface UniversalLogin {
  login(
    given: {
      readonly clientId: string;
      readonly clientSecret: Redacted<string>;
      readonly organizationSlug: string | undefined;
    },
    caller: Caller,
  ): Promise<GrantedToken>;
  flushUses(): Promise<void>;
}

interface NewUse extends NotedUse {
  readonly secretId: string;
}

export function createUniversalLogin({ db, clock, keyring, tokens }: UniversalLoginNeeds): UniversalLogin {
  let noted = new Map<string, NotedUse>();

  const note = ({ secretId, identityId, uses, at }: NewUse): void => {
    const known = noted.get(secretId);
    if (known) {
      known.uses += uses;
      if (at > known.at) known.at = at;
    } else noted.set(secretId, { uses, at, identityId });
  };

  const refuse = async (
    state: LoginState | undefined,
    caller: Caller,
    clientId: string,
    reason: string,
  ): Promise<Problem> => {
    return db.write(async (tx) => {
      const actor = state ? asActor(state, caller) : systemActor("login", caller);
      tx.audit(actor, {
        event: "login-refused",
        orgId: state?.orgId ?? null,
        projectId: state?.projectId ?? null,
        metadata: {
          method: METHOD,
          reason,
          // People mix the two up: what is no id may be a secret, and is not kept.
          clientId: isUuid(clientId) ? clientId : null,
        },
      });
      if (!state?.lockoutEnabled || reason !== "wrong-secret") return credentialsWrong();
      const policy = {
        threshold: state.lockoutThreshold,
        lockSeconds: state.lockoutDurationSeconds,
        resetSeconds: state.lockoutCounterResetSeconds,
      };
      await countFailure(
        tx,
        { subjectId: state.identityId, method: METHOD, address: networkOf(caller.ip) },
        policy,
        clock.now(),
      );
      return credentialsWrong();
    });
  };

  /** Undefined = may log in; otherwise why not, for the audit log. */
  const objection = (
    state: LoginState,
    organizationSlug: string | undefined,
    now: Date,
  ): string | undefined => {
    if (state.secretId === null) return "wrong-secret";
    if (state.secretIsRevoked) return "revoked-secret";
    if (state.secretExpiresAt !== null && state.secretExpiresAt <= now) return "expired-secret";
    if (state.secretUsesLimit && (state.secretUses ?? 0) >= state.secretUsesLimit) return "used-up-secret";
    return organizationSlug !== undefined && organizationSlug !== "" && organizationSlug !== state.orgSlug
      ? "other-organisation"
      : undefined;
  };

  const grant = (tx: WriteTx, state: LoginState, caller: Caller): GrantedToken => {
    const settings = {
      ttl: state.accessTokenTTL,
      maxTtl: state.accessTokenMaxTTL,
      period: state.accessTokenPeriod,
      usesLimit: state.accessTokenNumUsesLimit,
    };
    const clientSecretId = secretOf(state);
    const token = tokens.issue(tx, { bearer: state, method: METHOD, settings, clientSecretId });
    const metadata = { method: METHOD, clientSecretId };
    const { orgId, projectId } = state;
    tx.audit(asActor(state, caller), { event: "login", orgId, projectId, metadata });
    return token;
  };

  /** Nothing to count and nothing to clear: only new rows. */
  const grantAtOnce = async (state: LoginState, caller: Caller): Promise<GrantedToken | undefined> => {
    let token: GrantedToken | undefined;
    await db.groupCommit((tx) => {
      token = grant(tx, state, caller);
    });
    return token;
  };

  const grantWithCare = (
    state: LoginState,
    caller: Caller,
    { clientId, now, isCounted }: { clientId: string; now: Date; isCounted: boolean },
  ): Promise<GrantedToken | undefined> =>
    db.write(async (tx) => {
      if (isCounted && !(await useClientSecret(tx, secretOf(state), now))) {
        // Another login took the last use since we read it.
        tx.audit(asActor(state, caller), {
          event: "login-refused",
          orgId: state.orgId,
          projectId: state.projectId,
          metadata: { method: METHOD, reason: "used-up-secret", clientId },
        });
        return undefined;
      }
      if (state.hasFailures) await forgetFailures(tx, state.identityId, METHOD, networkOf(caller.ip));
      return grant(tx, state, caller);
    });

  return {
    async login({ clientId, clientSecret, organizationSlug }, caller) {
      const digest = digestOf(keyring, clientSecret.open());
      // An unknown id takes the same query as a known one.
      const state = await db.read((q) =>
        findLogin(q, isUuid(clientId) ? clientId : newId(), digest, networkOf(caller.ip)),
      );
      if (!state) throw await refuse(undefined, caller, clientId, "unknown-client");
      const now = clock.now();
      const reason = objection(state, organizationSlug, now);
      if (state.lockedUntil !== null && state.lockedUntil > now) {
        const words = await refuse(state, caller, clientId, "locked-out");
        // Only a caller with the right secret learns of the lockout. To everyone else a locked client looks like an unknown one.
        throw reason === undefined
          ? lockedOut(Math.ceil((state.lockedUntil.getTime() - now.getTime()) / 1000))
          : words;
      }
      if (reason !== undefined) throw await refuse(state, caller, clientId, reason);
      if (!isTrusted(addressList(state.clientSecretTrustedIps), caller.ip)) {
        await refuse(state, caller, clientId, "untrusted-address");
        throw addressForbidden(
          "Your address is not among the trusted addresses of this identity's client secrets.",
        );
      }
      const isCounted = (state.secretUsesLimit ?? 0) > 0;
      const granted = await (
        isCounted || state.hasFailures
          ? grantWithCare(state, caller, { clientId, now, isCounted })
          : grantAtOnce(state, caller)
      ).catch(async (error: unknown) => {
        // The identity, or this auth method, was removed since we read it.
        throw isForeignKeyViolation(error)
          ? await refuse(undefined, caller, clientId, "unknown-client")
          : error;
      });
      if (!granted) throw credentialsWrong();
      // Counting every login on one row would line all logins of an identity up behind each other's commits.
      note({ secretId: secretOf(state), identityId: state.identityId, uses: isCounted ? 0 : 1, at: now });
      return granted;
    },

    flushUses: oneAtATime(async () => {
      if (noted.size === 0) return;
      const batch = noted;
      noted = new Map();
      const flush = db.write((tx) => noteClientSecretUses(tx, batch), {
        audited: false,
        isChore: true,
        isTraced: true,
      });
      const { heldSecrets, heldIdentities } = await flush.catch((error: unknown) => {
        void unlessMade(error, () => {
          for (const [secretId, use] of batch) note({ secretId, ...use });
        });
        throw error;
      });
      for (const [secretId, use] of batch) {
        if (heldSecrets.has(secretId)) note({ secretId, ...use });
        else if (heldIdentities.has(use.identityId)) note({ secretId, ...use, uses: 0 });
      }
    }),
  };
}

/** Known to be there once nothing spoke against the login. */
const secretOf = (state: LoginState): string => state.secretId as string;

function asActor(state: LoginState, caller: Caller): IdentityActor {
  return {
    kind: "identity",
    id: state.identityId,
    name: state.identityName,
    orgId: state.orgId,
    tokenId: "",
    authMethod: METHOD,
    isInstanceAdmin: false,
    caller,
  };
}
