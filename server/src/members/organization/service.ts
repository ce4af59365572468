/** The people of an organisation. How they come in is the business of invitations. */
import type { MemberActor } from "../../platform/actor.ts";
import type { Clock } from "../../platform/clock.ts";
import type { Db, Tx } from "../../platform/db/index.ts";
import { notFound } from "../../platform/problem.ts";
import { replaceRoles, type Memberships } from "../../memberships/index.ts";
import {
  accessChanged,
  orgOf,
  type Ability,
  type Permissions,
  visiblePart,
} from "../../permissions/index.ts";
import type { SearchablePage } from "../contract.ts";
import { lastAdmin, MOST_LOOKED_THROUGH, seesEverybody, maySee } from "../model.ts";
import type { OrgMemberView } from "./contract.ts";
import {
  findOrgMember,
  isLastAdmin,
  lockMember,
  pageOfOrgMembers,
  removeFromOrg,
  type OrgMemberRow,
} from "./store.ts";

interface OrgMemberNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly permissions: Permissions;
  readonly memberships: Memberships;
}

const toView = (row: OrgMemberRow): OrgMemberView => ({
  id: row.id,
  role: row.role,
  ...(row.roleId === null
    ? {}
    : { customRole: { id: row.roleId, name: row.roleName ?? "", slug: row.roleSlug ?? "" } }),
  createdAt: row.createdAt,
  user: {
    id: row.userId,
    email: row.email,
    username: row.email,
    firstName: row.firstName,
    lastName: row.lastName,
  },
});

export class OrgMembers {
  readonly #needs: OrgMemberNeeds;

  constructor(needs: OrgMemberNeeds) {
    this.#needs = needs;
  }

  async list(
    actor: MemberActor,
    asked: SearchablePage,
  ): Promise<{ members: OrgMemberView[]; totalCount: number }> {
    const { db, permissions } = this.#needs;
    const orgId = orgOf(actor);
    const reader = await permissions.requireInOrganization(actor, { action: "read", subject: "member" });
    const all = seesEverybody(reader);
    const wanted = all ? asked : { offset: 0, limit: MOST_LOOKED_THROUGH, search: asked.search };
    const found = await db.read((q) => pageOfOrgMembers(q, orgId, wanted), { tenant: orgId });
    const { rows, total } = all
      ? { rows: found.rows, total: found.totalCount }
      : await visiblePart(found.rows, maySee(reader), asked);
    return { members: rows.map(toView), totalCount: total };
  }

  async update(actor: MemberActor, id: string, role: string): Promise<OrgMemberView> {
    const { db, clock, memberships } = this.#needs;
    const orgId = orgOf(actor);
    const granter = await this.#require(actor, id, "edit");
    const scope = { orgId, projectId: null, granter, subject: "member" as const };
    const roles = await memberships.prepareRoles(scope, [{ role, isTemporary: false }]);
    return db.write(async (tx) => {
      const { userId } = await findAlone(tx, orgId, id);
      if (role !== "admin" && (await isLastAdmin(tx, orgId, id))) throw lastAdmin();
      await replaceRoles(tx, id, roles, clock.now());
      tx.audit(actor, { event: "update-member", orgId, metadata: { membershipId: id, userId, role } });
      tx.emit(accessChanged({ orgId, projectId: null, actorId: userId }));
      return toView((await findOrgMember(tx, orgId, id)) as OrgMemberRow);
    });
  }

  async remove(actor: MemberActor, id: string): Promise<OrgMemberView> {
    const orgId = orgOf(actor);
    await this.#require(actor, id, "delete");
    return this.#needs.db.write(async (tx) => {
      const row = await findAlone(tx, orgId, id);
      const { userId, email } = row;
      if (await isLastAdmin(tx, orgId, id)) throw lastAdmin();
      await removeFromOrg(tx, orgId, userId);
      tx.audit(actor, { event: "remove-member", orgId, metadata: { membershipId: id, userId, email } });
      tx.emit(accessChanged({ orgId, projectId: null, actorId: userId }));
      return toView(row);
    });
  }

  /** The actor's rights, if one of them is to do this to that member. */
  async #require(actor: MemberActor, id: string, action: "edit" | "delete"): Promise<Ability> {
    const { db, permissions } = this.#needs;
    const row = await db.read((q) => findOrgMember(q, orgOf(actor), id));
    if (!row) throw notFound("The member", id);
    const attributes = { userEmail: row.email };
    return permissions.requireInOrganization(actor, { action, subject: "member", attributes });
  }
}

/** The member as they are now, with nobody else changing members of this organisation until the end. */
async function findAlone(tx: Tx, orgId: string, id: string): Promise<OrgMemberRow> {
  await lockMember(tx, orgId, id);
  const row = await findOrgMember(tx, orgId, id);
  if (!row) throw notFound("The member", id);
  return row;
}

export const createOrgMembers = (needs: OrgMemberNeeds): OrgMembers => new OrgMembers(needs);
