/** Which identities work in a project, and with which roles. */
import type { MemberActor } from "../../platform/actor.ts";
import type { Clock } from "../../platform/clock.ts";
import { isForeignKeyViolation, isUniqueViolation, type Db, type Tx } from "../../platform/db/index.ts";
import { newId } from "../../platform/ids.ts";
import { badRequest, conflict, notFound } from "../../platform/problem.ts";
import {
  addMembership,
  removeMembership,
  replaceRoles,
  toHeldRole,
  type Memberships,
  type RoleAssignment,
} from "../../memberships/index.ts";
import { accessChanged, orgOf, type Ability, type Permissions } from "../../permissions/index.ts";
import type { ProjectRow, Projects } from "../../projects/index.ts";
import { createCounts } from "../counts.ts";
import { goneMeanwhile, readable } from "../model.ts";
import { findIdentity } from "../store.ts";
import type { IdentityMembershipView } from "./contract.ts";
import {
  findMembership,
  findMembershipById,
  memberIds,
  pageOfMemberships,
  type IdentityMembershipRow,
} from "./store.ts";

interface IdentityMembershipNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly permissions: Permissions;
  readonly memberships: Memberships;
  readonly projects: Projects;
}

interface AnnouncedMembership {
  readonly project: ProjectRow;
  readonly identityId: string;
  readonly roles?: readonly RoleAssignment[];
}

export type IdentityMemberships = ReturnType<typeof createIdentityMemberships>;

const toView = (row: IdentityMembershipRow): IdentityMembershipView => ({
  id: row.id,
  projectId: row.projectId,
  identityId: row.identityId,
  createdAt: row.createdAt,
  updatedAt: row.updatedAt,
  roles: row.roles.map(toHeldRole),
  lastLoginAuthMethod: row.lastLoginMethod,
  lastLoginTime: row.lastLoginAt,
  identity: {
    id: row.identityId,
    name: row.name,
    orgId: row.orgId,
    projectId: row.ownerProjectId,
    hasDeleteProtection: row.hasDeleteProtection,
    authMethods: row.authMethods,
    activeLockoutAuthMethods: row.activeLockoutAuthMethods,
    metadata: row.metadata,
  },
  project: { id: row.projectId, name: row.projectName, type: row.projectType },
});

export function createIdentityMemberships({
  db,
  clock,
  permissions,
  memberships,
  projects,
}: IdentityMembershipNeeds) {
  const counts = createCounts(db);
  const requireOne = (actor: MemberActor, project: ProjectRow, action: string, identityId: string) =>
    permissions.requireInProject(actor, project.id, {
      action,
      subject: "identity",
      attributes: { identityId },
    });

  /**
   * Who may weaken somebody stronger could take hold of them while they have nothing, and wait until their rights are
   * given back.
   */
  const requireAbove = async (granter: Ability, project: ProjectRow, identityId: string): Promise<void> =>
    permissions.requireHolds(
      granter,
      await permissions.rulesOf({ id: identityId, orgId: project.orgId }, project.id),
      "other rights to this identity",
    );

  const find = async (project: ProjectRow, identityId: string): Promise<IdentityMembershipRow> => {
    const row = await db.read((q) => findMembership(q, project.id, identityId, clock.now()));
    if (!row) throw notFound("The membership of the identity", identityId);
    return row;
  };

  const reread = async (tx: Tx, project: ProjectRow, identityId: string): Promise<IdentityMembershipView> => {
    const row = await findMembership(tx, project.id, identityId, clock.now());
    if (!row) throw notFound("The membership of the identity", identityId);
    return toView(row);
  };

  const announce = (
    tx: Tx,
    actor: MemberActor,
    event: string,
    { project, identityId, roles }: AnnouncedMembership,
  ): void => {
    tx.audit(actor, {
      event,
      orgId: project.orgId,
      projectId: project.id,
      metadata: { identityId, ...(roles ? { roles: roles.map((r) => r.role) } : {}) },
    });
    tx.emit(accessChanged({ orgId: project.orgId, projectId: project.id, actorId: identityId }));
  };

  return {
    async add(
      actor: MemberActor,
      ref: string,
      identityId: string,
      wanted: readonly RoleAssignment[],
    ): Promise<IdentityMembershipView> {
      const project = await projects.resolve(actor, ref);
      const identity = await db.read((q) => findIdentity(q, project.orgId, identityId, clock.now()));
      // An identity that belongs to another project is that project's business alone.
      if (!identity || (identity.projectId !== null && identity.projectId !== project.id))
        throw notFound("The identity", identityId);
      const granter = await requireOne(actor, project, "create", identityId);
      const roles = await memberships.prepareRoles(
        { orgId: project.orgId, projectId: project.id, granter, subject: "identity" },
        wanted,
      );
      try {
        return await db.write(async (tx) => {
          await addMembership(
            tx,
            { id: newId(), orgId: project.orgId, projectId: project.id, identityId, at: clock.now() },
            roles,
          );
          announce(tx, actor, "create-identity-membership", { project, identityId, roles: wanted });
          return reread(tx, project, identityId);
        });
      } catch (error) {
        if (isUniqueViolation(error, "memberships_project_identity"))
          throw conflict("This identity is a member of the project already.");
        if (isForeignKeyViolation(error)) throw goneMeanwhile();
        throw error;
      }
    },

    async get(actor: MemberActor, ref: string, identityId: string): Promise<IdentityMembershipView> {
      const project = await projects.resolve(actor, ref);
      const row = await find(project, identityId);
      await requireOne(actor, project, "read", identityId);
      return toView(row);
    },

    async getById(actor: MemberActor, membershipId: string): Promise<IdentityMembershipView> {
      const orgId = orgOf(actor);
      const row = await db.read((q) => findMembershipById(q, orgId, membershipId, clock.now()));
      if (!row) throw notFound("The membership", membershipId);
      await permissions.requireInProject(actor, row.projectId, {
        action: "read",
        subject: "identity",
        attributes: { identityId: row.identityId },
      });
      return toView(row);
    },

    async list(
      actor: MemberActor,
      ref: string,
      page: { offset: number; limit: number; identityName?: string | undefined },
    ) {
      const project = await projects.resolve(actor, ref);
      const ability = await permissions.requireInProject(actor, project.id, {
        action: "read",
        subject: "identity",
      });
      const only = await readable(ability, () => db.read((q) => memberIds(q, project.id)));
      const { rows, total } = await db.read(
        (q) => pageOfMemberships(q, project.id, { ...page, search: page.identityName, only }, clock.now()),
        { tenant: project.orgId },
      );
      return {
        identityMemberships: rows.map(toView),
        totalCount: counts.sum("projectMembers", project.id, total),
      };
    },

    async update(
      actor: MemberActor,
      ref: string,
      identityId: string,
      wanted: readonly RoleAssignment[],
    ): Promise<IdentityMembershipView> {
      const project = await projects.resolve(actor, ref);
      const row = await find(project, identityId);
      const granter = await requireOne(actor, project, "edit", identityId);
      await requireAbove(granter, project, identityId);
      const roles = await memberships.prepareRoles(
        { orgId: project.orgId, projectId: project.id, granter, subject: "identity" },
        wanted,
      );
      return db
        .write(async (tx) => {
          await replaceRoles(tx, row.id, roles, clock.now());
          announce(tx, actor, "update-identity-membership", { project, identityId, roles: wanted });
          return reread(tx, project, identityId);
        })
        .catch((error: unknown) => {
          throw isForeignKeyViolation(error) ? goneMeanwhile() : error;
        });
    },

    async remove(actor: MemberActor, ref: string, identityId: string): Promise<IdentityMembershipView> {
      const project = await projects.resolve(actor, ref);
      const row = await find(project, identityId);
      await requireAbove(await requireOne(actor, project, "delete", identityId), project, identityId);
      if (row.ownerProjectId === project.id)
        throw badRequest(
          "This identity belongs to the project: delete the identity instead of its membership.",
        );
      await db.write(async (tx) => {
        await removeMembership(tx, row.id);
        announce(tx, actor, "delete-identity-membership", { project, identityId });
      });
      return toView(row);
    },
  };
}
