/**
 * Accepting an invitation. Its token alone makes nobody anyone: a new address gets the account that the given
 * password opens, and a known one has to be proved by its own password, counted like any other login.
 */
import { systemActor, type Caller, type MemberActor, type UserActor } from "../../platform/actor.ts";
import type { Clock } from "../../platform/clock.ts";
import { hashPassword, type Keyring } from "../../platform/crypto/index.ts";
import { isUniqueViolation, type Db, type Tx } from "../../platform/db/index.ts";
import { newId } from "../../platform/ids.ts";
import { conflict, Problem, unauthorized } from "../../platform/problem.ts";
import type { Redacted } from "../../platform/redacted.ts";
import { addMembership } from "../../memberships/index.ts";
import { accessChanged } from "../../permissions/index.ts";
import { findUserByEmail, insertUser, type UserRow } from "../../users/index.ts";
import type { AcceptedView } from "./contract.ts";
import type { InvitationGrants, PreparedGrants } from "./grants.ts";
import { digestOf } from "./service.ts";
import {
  existingProjects,
  findInvitation,
  holdProjects,
  takeInvitation,
  type InvitationRow,
} from "./store.ts";

interface Session {
  readonly token: string;
  readonly expiresIn: number;
}

interface AcceptanceNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly keyring: Keyring;
  readonly grants: InvitationGrants;
  /** The password login of the auth room: it proves an account and counts the failures. */
  readonly sessions: { login(email: string, password: Redacted<string>, caller: Caller): Promise<Session> };
}

interface GivenAcceptance {
  readonly token: Redacted<string>;
  readonly password: Redacted<string>;
  readonly firstName?: string | undefined;
  readonly lastName?: string | undefined;
}

/** The very words of a wrong password: which of the two was wrong is nobody's business. */
const refused = () => unauthorized("Invalid credentials.");

const asInviter = (row: InvitationRow, caller: Caller): MemberActor => ({
  kind: row.inviterKind,
  id: row.inviterId,
  name: "inviter",
  orgId: row.orgId,
  tokenId: "",
  authMethod: "",
  isInstanceAdmin: false,
  caller,
});

const asActor = (user: UserRow, orgId: string, caller: Caller): UserActor => ({
  kind: "user",
  id: user.id,
  name: user.email,
  orgId,
  tokenId: "",
  authMethod: "invitation",
  isInstanceAdmin: user.isInstanceAdmin,
  caller,
});

/** One attempt to come in. */
interface AcceptanceAttempt {
  readonly invitation: InvitationRow;
  readonly granted: PreparedGrants;
  readonly given: GivenAcceptance;
  readonly caller: Caller;
}

interface Admitted {
  readonly user: UserRow;
  readonly session: Session;
}

export class Acceptances {
  readonly #needs: AcceptanceNeeds;

  constructor(needs: AcceptanceNeeds) {
    this.#needs = needs;
  }

  async accept(given: GivenAcceptance, caller: Caller): Promise<AcceptedView> {
    const { db, clock, keyring } = this.#needs;
    const digest = digestOf(keyring, given.token.open());
    const invitation = await db.read((q) => findInvitation(q, digest, clock.now()));
    if (!invitation) throw await this.#refuse(undefined, "unknown-invitation", caller);
    const granted = await this.#prepare(invitation, caller);
    try {
      const { user, session } = await this.#admit({ invitation, granted, given, caller });
      const { id, email, firstName, lastName } = user;
      return {
        organizationId: invitation.orgId,
        user: { id, email, username: email, firstName, lastName },
        accessToken: session.token,
        expiresIn: session.expiresIn,
        tokenType: "Bearer",
      };
    } catch (error) {
      if (!isUniqueViolation(error, "memberships_org_user")) throw error;
      throw conflict("You are a member of this organisation already.");
    }
  }

  async #refuse(row: InvitationRow | undefined, reason: string, caller: Caller): Promise<Problem> {
    const metadata = { method: "invitation", reason, ...(row ? { invitationId: row.id } : {}) };
    const entry = { event: "login-refused", orgId: row?.orgId ?? null, metadata };
    await this.#needs.db.write(async (tx) => tx.audit(systemActor("login", caller), entry));
    return refused();
  }

  async #prepare(row: InvitationRow, caller: Caller): Promise<PreparedGrants> {
    const { db, grants } = this.#needs;
    const wanted = row.projects.map((place) => place.projectId);
    // A project that is gone takes its part of the promise with it; the rest still stands.
    const left = await db.read((q) => existingProjects(q, row.orgId, wanted));
    const projects = row.projects.filter((place) => left.has(place.projectId));
    try {
      return await grants.prepare(asInviter(row, caller), { email: row.email, role: row.role, projects });
    } catch (error) {
      const isLost = error instanceof Problem && (error.status === 403 || error.status === 404);
      throw isLost ? await this.#refuse(row, "inviter-lost-rights", caller) : error;
    }
  }

  async #admit(attempt: AcceptanceAttempt): Promise<Admitted> {
    const { email } = attempt.invitation;
    const look = () => this.#needs.db.read((q) => findUserByEmail(q, email));
    const user = await look();
    if (user) return this.#admitKnown(attempt, user);
    try {
      return await this.#admitNew(attempt);
    } catch (error) {
      // Two organisations invited the same new person, and the other one was accepted a moment ago.
      const other = isUniqueViolation(error, "users_email_unique") ? await look() : undefined;
      if (!other) throw error;
      return this.#admitKnown(attempt, other);
    }
  }

  async #admitKnown(attempt: AcceptanceAttempt, user: UserRow): Promise<Admitted> {
    const session = await this.#needs.sessions.login(user.email, attempt.given.password, attempt.caller);
    await this.#enter(attempt, user, false);
    return { user, session };
  }

  async #admitNew(attempt: AcceptanceAttempt): Promise<Admitted> {
    const { invitation, given, caller } = attempt;
    const user: UserRow = {
      id: newId(),
      email: invitation.email,
      firstName: given.firstName ?? invitation.firstName,
      lastName: given.lastName ?? invitation.lastName,
      passwordHash: await hashPassword(given.password, invitation.id),
      isInstanceAdmin: false,
    };
    await this.#enter(attempt, user, true);
    return { user, session: await this.#needs.sessions.login(user.email, given.password, caller) };
  }

  /** Everything that becomes true with an acceptance, or nothing of it. */
  #enter({ invitation, granted, caller }: AcceptanceAttempt, user: UserRow, isNew: boolean): Promise<void> {
    const { db, clock } = this.#needs;
    const { id: invitationId, orgId, role } = invitation;
    const actor = asActor(user, orgId, caller);
    return db.write(async (tx) => {
      const at = clock.now();
      if (!(await takeInvitation(tx, invitationId, at))) throw refused();
      if (isNew) {
        await insertUser(tx, user, at);
        tx.audit(actor, { event: "create-user", orgId, metadata: { userId: user.id } });
      }
      const member = { orgId, userId: user.id, at };
      await addMembership(tx, { id: newId(), projectId: null, ...member }, granted.roles);
      tx.emit(accessChanged({ orgId, projectId: null, actorId: user.id }));
      const projectIds = await addToProjects(tx, member, granted.places);
      tx.audit(actor, { event: "accept-invitation", orgId, metadata: { invitationId, role, projectIds } });
    });
  }
}

async function addToProjects(
  tx: Tx,
  member: { readonly orgId: string; readonly userId: string; readonly at: Date },
  places: PreparedGrants["places"],
): Promise<string[]> {
  const { orgId, userId } = member;
  const ids = places.map((place) => place.projectId);
  const held = await holdProjects(tx, orgId, ids);
  for (const { projectId, roles } of places) {
    if (!held.has(projectId)) continue;
    await addMembership(tx, { id: newId(), projectId, ...member }, roles);
    tx.emit(accessChanged({ orgId, projectId, actorId: userId }));
  }
  return [...held];
}

export const createAcceptances = (needs: AcceptanceNeeds): Acceptances => new Acceptances(needs);
