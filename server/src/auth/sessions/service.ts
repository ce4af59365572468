/** People's sessions: a password gets one, it names an organisation once one is selected, and it can be ended. */
import type { Caller, MemberActor, UserActor } from "../../platform/actor.ts";
import type { Clock } from "../../platform/clock.ts";
import { hashPassword, signToken, type Claims, type Keyring } from "../../platform/crypto/index.ts";
import type { Db, Tx } from "../../platform/db/index.ts";
import { networkOf } from "../../platform/http/index.ts";
import { newId } from "../../platform/ids.ts";
import { inBatches } from "../../platform/jobs/index.ts";
import { createFactCache, type Tail } from "../../platform/outbox/index.ts";
import { badRequest, notFound } from "../../platform/problem.ts";
import type { Redacted } from "../../platform/redacted.ts";
import { isOrgMember } from "../../memberships/index.ts";
import { accessChanged } from "../../permissions/index.ts";
import {
  findUser,
  findUserByEmail,
  setPasswordHash,
  type UserRow,
  type UserView,
} from "../../users/index.ts";
import { sessionsChanged } from "../events.ts";
import { forgetFailures, sweepLockouts } from "../lockouts.store.ts";
import { credentialsWrong, tokenExpired, tokenInvalid, tokenRevoked } from "../model.ts";
import { dropResetsOf } from "../resets/store.ts";
import { auditAccount } from "../trail.ts";
import { createPasswordAttempts, PASSWORD_METHOD } from "./attempts.ts";
import { noteNetwork, sweepNetworks } from "./attempts.store.ts";
import {
  findSession,
  insertBranchSession,
  insertRootSession,
  revokeSession,
  revokeSessions,
  sweepSessions,
  type SessionState,
} from "./store.ts";

interface SessionNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly tail: Tail;
  readonly keyring: Keyring;
}

const SESSION_SECONDS = 12 * 3600;
const CACHED_SESSIONS = 20_000;
const KEEP_LOCKOUTS_MS = 86_400_000;

export const toUserView = (row: UserRow): UserView => ({
  ...row,
  username: row.email,
  superAdmin: row.isInstanceAdmin,
});

interface OpenedSession {
  readonly token: string;
  readonly expiresIn: number;
}

export type Sessions = ReturnType<typeof createSessions>;

export function createSessions({ db, clock, tail, keyring }: SessionNeeds) {
  const key = keyring.instanceKey("token-signing");
  const attempts = createPasswordAttempts({ db, clock, keyring });
  const live = createFactCache<SessionState>(tail, CACHED_SESSIONS, (session) => [
    session.userId,
    session.orgId ?? "",
  ]);
  tail.onInvalidate((fact) => {
    if (sessionsChanged.is(fact)) {
      const { userId, sessionId } = fact.data;
      if (sessionId === null) live.dropGroup(userId);
      else live.drop(sessionId);
    } else if (accessChanged.is(fact) && fact.data.projectId === null) {
      live.dropGroup(fact.data.actorId ?? fact.data.orgId);
    }
  });

  const sign = (session: {
    id: string;
    userId: string;
    orgId: string | null;
    expiresAt: Date;
  }): OpenedSession => {
    const now = clock.millis();
    const token = signToken(key, {
      authTokenType: "accessToken",
      userId: session.userId,
      tokenVersionId: session.id,
      authMethod: PASSWORD_METHOD,
      organizationId: session.orgId,
      subOrganizationId: session.orgId,
      iat: Math.floor(now / 1000),
      exp: Math.ceil(session.expiresAt.getTime() / 1000),
    });
    return { token, expiresIn: Math.ceil((session.expiresAt.getTime() - now) / 1000) };
  };

  const openRoot = async (tx: Tx, user: UserRow): Promise<OpenedSession> => {
    const at = clock.now();
    const session = {
      id: newId(),
      userId: user.id,
      orgId: null,
      expiresAt: new Date(at.getTime() + SESSION_SECONDS * 1000),
    };
    const opened = await insertRootSession(tx, { ...session, passwordHash: user.passwordHash ?? "", at });
    if (!opened) throw credentialsWrong();
    return sign(session);
  };

  const asActor = (session: SessionState, caller: Caller): UserActor => ({
    kind: "user",
    id: session.userId,
    name: session.email,
    orgId: session.orgId,
    tokenId: session.id,
    authMethod: PASSWORD_METHOD,
    isInstanceAdmin: session.isInstanceAdmin,
    caller,
  });

  const requireUser = (actor: MemberActor): UserActor => {
    if (actor.kind !== "user")
      throw badRequest("This is for people's sessions; the caller is a machine identity.");
    return actor;
  };

  return {
    async login(email: string, password: Redacted<string>, caller: Caller): Promise<OpenedSession> {
      const user = await db.read((q) => findUserByEmail(q, email));
      return attempts.attempt({ email, user, password, caller }, (known) =>
        db.write(async (tx) => {
          await forgetFailures(tx, known.id, PASSWORD_METHOD, networkOf(caller.ip));
          const { id: userId, email: knownEmail, isInstanceAdmin } = known;
          const actor = asActor({ id: "", userId, email: knownEmail, orgId: null, isInstanceAdmin }, caller);
          const metadata = { method: PASSWORD_METHOD };
          await auditAccount(tx, actor, userId, { event: "login", metadata });
          noteNetwork(tx, userId, networkOf(caller.ip), clock.now());
          return openRoot(tx, known);
        }),
      );
    },

    async selectOrganization(actor: MemberActor, orgId: string): Promise<OpenedSession> {
      const user = requireUser(actor);
      if (!(await db.read((q) => isOrgMember(q, orgId, user.id)))) throw notFound("The organisation", orgId);
      return db.write(async (tx) => {
        tx.audit(actor, { event: "select-organization", orgId, metadata: {} });
        const id = newId();
        const opened = await insertBranchSession(tx, { id, parentId: user.tokenId, orgId, at: clock.now() });
        if (!opened) throw tokenRevoked();
        return sign({ id, userId: user.id, orgId, expiresAt: opened.expiresAt });
      });
    },

    /** `claims` are of a token whose signature was found good. */
    async authenticate(claims: Claims, caller: Caller): Promise<UserActor> {
      const sessionId = claims["tokenVersionId"];
      if (typeof sessionId !== "string") throw tokenInvalid();
      if (typeof claims["exp"] !== "number" || claims["exp"] * 1000 <= clock.millis()) throw tokenExpired();
      const session =
        live.peek(sessionId) ?? (await live.get(sessionId, () => db.read((q) => findSession(q, sessionId))));
      if (!session) throw tokenRevoked();
      return asActor(session, caller);
    },

    /** Is it still valid? For what outlasts a request. */
    async isLive({ tokenId }: UserActor): Promise<boolean> {
      return (
        (live.peek(tokenId) ?? (await live.get(tokenId, () => db.read((q) => findSession(q, tokenId))))) !==
        undefined
      );
    },

    async logout(actor: MemberActor): Promise<void> {
      const user = requireUser(actor);
      await db.write(async (tx) => {
        await revokeSession(tx, user.tokenId);
        tx.audit(user, { event: "logout", orgId: user.orgId, metadata: {} });
        // The branches of this login are many sessions: all of the person's are looked at anew.
        tx.emit(sessionsChanged({ userId: user.id, sessionId: null }));
      });
    },

    async changePassword(
      actor: MemberActor,
      current: Redacted<string>,
      next: Redacted<string>,
    ): Promise<void> {
      const actingUser = requireUser(actor);
      const { caller } = actor;
      const user = await db.read((q) => findUser(q, actingUser.id));
      await attempts.attempt({ email: actingUser.name, user, password: current, caller }, async ({ id }) => {
        const hash = await hashPassword(next, id);
        await db.write(async (tx) => {
          await forgetFailures(tx, id, PASSWORD_METHOD, networkOf(caller.ip));
          await setPasswordHash(tx, id, hash, clock.now());
          await revokeSessions(tx, id);
          // A link that was mailed for the password before is for nobody any more.
          await dropResetsOf(tx, id);
          await auditAccount(tx, actingUser, id, { event: "change-password", metadata: {} });
          tx.emit(sessionsChanged({ userId: id, sessionId: null }));
        });
      });
    },

    async whoAmI(actor: MemberActor): Promise<UserView> {
      const row = await db.read((q) => findUser(q, requireUser(actor).id));
      if (!row) throw notFound("The user");
      return toUserView(row);
    },

    async sweep(): Promise<void> {
      await inBatches((batch) => db.write((tx) => sweepSessions(tx, clock.now(), batch), { audited: false }));
      await db.write((tx) => sweepNetworks(tx, clock.now()), { audited: false });
      await db.write((tx) => sweepLockouts(tx, new Date(clock.millis() - KEEP_LOCKOUTS_MS)), {
        audited: false,
      });
    },
  };
}
