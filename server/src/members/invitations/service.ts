/**
 * Invitations. The answer to an invitation never depends on whether the address has an account anywhere in the
 * instance; nothing looks that up before the token comes back with a password.
 *
 * What an invitation grants is checked twice: when it is written, and again by the inviter's rights at the moment
 * of acceptance. Otherwise an admin could leave invitations behind and come back through one after being dismissed.
 */
import { createHmac, randomBytes } from "node:crypto";
import type { MemberActor } from "../../platform/actor.ts";
import { createBound } from "../../platform/bound.ts";
import type { Clock } from "../../platform/clock.ts";
import type { Keyring } from "../../platform/crypto/index.ts";
import type { Db } from "../../platform/db/index.ts";
import { newId } from "../../platform/ids.ts";
import { badRequest, notFound, Problem } from "../../platform/problem.ts";
import { renderMail, type Mailer } from "../../notifications/index.ts";
import { findOrganization } from "../../organizations/index.ts";
import { orgOf, type Permissions, visiblePart } from "../../permissions/index.ts";
import type { Projects } from "../../projects/index.ts";
import { maySee, MOST_LOOKED_THROUGH, type MemberPage } from "../model.ts";
import type { InvitationView, NewInvitation } from "./contract.ts";
import { createMailBudget, type MailBudget } from "./budget.ts";
import type { InvitationGrants } from "./grants.ts";
import {
  countInvitations,
  countMembers,
  findInvitationById,
  hasInvitation,
  listInvitations,
  putInvitation,
  sweepInvitations,
  takeInvitation,
  type InvitationRow,
  type InvitedPlace,
} from "./store.ts";

interface InvitationNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly keyring: Keyring;
  readonly permissions: Permissions;
  readonly projects: Projects;
  readonly grants: InvitationGrants;
  /** With one, an invitation goes to the address itself, and the inviter never sees its token. */
  readonly mailer: Mailer | undefined;
  /** Where people reach this server. */
  readonly publicUrl: string;
  /** So many invitations an organisation may mail in an hour; 0 = any number. */
  readonly invitationsPerHour: number;
}

const VALID_SECONDS = 7 * 86_400;
const PREFIX = "kwi_";

/** The purpose is part of what is hashed: no digest of another kind of credential can stand in for this one. */
export const digestOf = (keyring: Keyring, token: string): Buffer =>
  createHmac("sha256", keyring.instanceKey("credential-lookup")).update(`invitation:${token}`).digest();

/** They are looked through for a page. */
const roomForOpen = createBound({
  most: MOST_LOOKED_THROUGH,
  words: ["An organisation has at most", "open invitations"],
  count: countInvitations,
});

/** Asked before they are invited: those who are on their way come in. */
const roomForMembers = createBound({
  most: 100_000,
  words: ["An organisation has at most", "members"],
  count: countMembers,
});

export class Invitations {
  readonly #needs: InvitationNeeds;
  readonly #budget: MailBudget;

  constructor(needs: InvitationNeeds) {
    this.#needs = needs;
    this.#budget = createMailBudget(needs);
  }

  async create(
    actor: MemberActor,
    input: NewInvitation,
  ): Promise<{ invitation: InvitationView; inviteToken?: string }> {
    const { db, clock, keyring, grants, mailer } = this.#needs;
    const orgId = orgOf(actor);
    const createdAt = clock.now();
    const row: InvitationRow = {
      ...input,
      id: newId(),
      orgId,
      projects: await this.#resolvePlaces(actor, input.projects),
      inviterKind: actor.kind,
      inviterId: actor.id,
      createdAt,
      expiresAt: new Date(createdAt.getTime() + VALID_SECONDS * 1000),
    };
    await grants.prepare(actor, row);
    await db.read(async (q) => {
      // One that takes the place of an earlier one needs none.
      if (!(await hasInvitation(q, orgId, row.email))) await roomForOpen.check(q, orgId);
      await roomForMembers.check(q, orgId);
    });
    const inviteToken = `${PREFIX}${randomBytes(32).toString("base64url")}`;
    // First: an invitation that nobody got would be in the way of nothing but the list. A link that comes to nothing,
    // because writing failed, is harmless.
    if (mailer) {
      await this.#budget.spend(row.orgId, row.email);
      await this.#mail(mailer, actor, row, inviteToken);
    }
    await db.write(async (tx) => {
      if (!(await hasInvitation(tx, orgId, row.email))) await roomForOpen.leaveRoom(tx, orgId);
      await putInvitation(tx, row, digestOf(keyring, inviteToken));
      const { id: invitationId, email, role } = row;
      const projectIds = row.projects.map((place) => place.projectId);
      tx.audit(actor, {
        event: "create-invitation",
        orgId,
        metadata: { invitationId, email, role, projectIds },
      });
    });
    return { invitation: row, ...(mailer ? {} : { inviteToken }) };
  }

  async list(
    actor: MemberActor,
    asked: MemberPage,
  ): Promise<{ invitations: InvitationView[]; totalCount: number }> {
    const { db, clock, permissions } = this.#needs;
    const orgId = orgOf(actor);
    const reader = await permissions.requireInOrganization(actor, { action: "read", subject: "member" });
    const found = await db.read((q) => listInvitations(q, orgId, clock.now(), MOST_LOOKED_THROUGH), {
      tenant: orgId,
    });
    const { rows, total } = await visiblePart(found, maySee(reader), asked);
    return { invitations: rows, totalCount: total };
  }

  async delete(actor: MemberActor, id: string): Promise<InvitationView> {
    const { db, clock, permissions } = this.#needs;
    const orgId = orgOf(actor);
    const row = await db.read((q) => findInvitationById(q, orgId, id, clock.now()));
    if (!row) throw notFound("The invitation", id);
    const attributes = { userEmail: row.email };
    await permissions.requireInOrganization(actor, { action: "delete", subject: "member", attributes });
    await db.write(async (tx) => {
      if (!(await takeInvitation(tx, id, clock.now()))) throw notFound("The invitation", id);
      const metadata = { invitationId: id, email: row.email };
      tx.audit(actor, { event: "delete-invitation", orgId, metadata });
    });
    return row;
  }

  async sweep(): Promise<void> {
    const { db, clock } = this.#needs;
    await db.write((tx) => sweepInvitations(tx, clock.now()), { audited: false });
    await this.#budget.sweep();
  }

  async #mail(mailer: Mailer, actor: MemberActor, row: InvitationRow, token: string): Promise<void> {
    const { db, publicUrl } = this.#needs;
    const organization = await db.read((q) => findOrganization(q, row.orgId));
    const letter = renderMail({
      subject: `You are invited to ${organization?.name ?? "an organisation"}`,
      sentences: [
        `${actor.name} invites you to the organisation "${organization?.name ?? ""}" at ${publicUrl}.`,
      ],
      link: { words: "Accept the invitation", url: `${publicUrl}/accept-invitation#${token}` },
      after: ["The link works once, within seven days. If you do not know who this is, do nothing."],
    });
    const outcome = await mailer.send({ id: row.id, sender: row.orgId, to: [row.email], ...letter });
    if (outcome.kind === "taken") return;
    const words = `Nobody was invited: the mail server did not take the mail (${outcome.reason}).`;
    if (outcome.kind === "refused") throw badRequest(words);
    throw new Problem(503, "ServiceUnavailable", words, { retryAfterSeconds: 60 });
  }

  async #resolvePlaces(actor: MemberActor, named: NewInvitation["projects"]): Promise<InvitedPlace[]> {
    const places: InvitedPlace[] = [];
    for (const { projectId: ref, roles } of named) {
      const { id } = await this.#needs.projects.resolve(actor, ref);
      if (places.some((place) => place.projectId === id)) throw badRequest("A project is named twice.");
      places.push({ projectId: id, roles });
    }
    return places;
  }
}

export const createInvitations = (needs: InvitationNeeds): Invitations => new Invitations(needs);
