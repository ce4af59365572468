/** The people of an organisation. How they come in is the business of invitations. */
import type { MemberActor } from "../../platform/actor.ts";
import type { Clock } from "../../platform/clock.ts";
import type { Db, Tx } from "../../platform/db/index.ts";
import { notFound } from "../../platform/problem.ts";
import { replaceRoles, type Memberships } from "../../memberships/index.ts";
import { accessChanged, orgOf, type Permissions } from "../../permissions/index.ts";
import type { SearchablePage } from "../contract.ts";
import { lastAdmin, MOST_LOOKED_THROUGH, seesEverybody, visiblePart } from "../model.ts";
import type { OrgMemberView } from "./contract.ts";
import {
  findOrgMember,
  isLastAdmin,
  lockMembers,
  pageOfOrgMembers,
  removeFromOrg,
  type OrgMemberRow,
} from "./store.ts";

export interface OrgMemberNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly permissions: Permissions;
  readonly memberships: Memberships;
}

export type OrgMembers = ReturnType<typeof createOrgMembers>;

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

export function createOrgMembers({ db, clock, permissions, memberships }: OrgMemberNeeds) {
  const find = async (orgId: string, id: string): Promise<OrgMemberRow> => {
    const row = await db.read((q) => findOrgMember(q, orgId, id));
    if (!row) throw notFound("The member", id);
    return row;
  };

  const requireOne = (actor: MemberActor, action: "edit" | "delete", row: OrgMemberRow) =>
    permissions.requireInOrganization(actor, {
      action,
      subject: "member",
      attributes: { userEmail: row.email },
    });

  /** The member as they are now, with nobody else changing members of this organisation until the end. */
  const findAlone = async (tx: Tx, orgId: string, id: string): Promise<OrgMemberRow> => {
    await lockMembers(tx, orgId);
    const row = await findOrgMember(tx, orgId, id);
    if (!row) throw notFound("The member", id);
    return row;
  };

  return {
    async list(
      actor: MemberActor,
      asked: SearchablePage,
    ): Promise<{ members: OrgMemberView[]; totalCount: number }> {
      const orgId = orgOf(actor);
      const reader = await permissions.requireInOrganization(actor, { action: "read", subject: "member" });
      const all = seesEverybody(reader);
      const wanted = all ? asked : { offset: 0, limit: MOST_LOOKED_THROUGH, search: asked.search };
      const found = await db.read((q) => pageOfOrgMembers(q, orgId, wanted));
      const { rows, totalCount } = all ? found : visiblePart(reader, found.rows, asked);
      return { members: rows.map(toView), totalCount };
    },

    async update(actor: MemberActor, id: string, role: string): Promise<OrgMemberView> {
      const orgId = orgOf(actor);
      const granter = await requireOne(actor, "edit", await find(orgId, id));
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
    },

    async remove(actor: MemberActor, id: string): Promise<OrgMemberView> {
      const orgId = orgOf(actor);
      await requireOne(actor, "delete", await find(orgId, id));
      return db.write(async (tx) => {
        const row = await findAlone(tx, orgId, id);
        if (await isLastAdmin(tx, orgId, id)) throw lastAdmin();
        await removeFromOrg(tx, orgId, row.userId);
        tx.audit(actor, {
          event: "remove-member",
          orgId,
          metadata: { membershipId: id, userId: row.userId, email: row.email },
        });
        tx.emit(accessChanged({ orgId, projectId: null, actorId: row.userId }));
        return toView(row);
      });
    },
  };
}
