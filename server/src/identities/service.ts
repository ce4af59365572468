/** Machine identities that belong to a project: operation 2 and its siblings. */
import type { MemberActor } from "../platform/actor.ts";
import type { Clock } from "../platform/clock.ts";
import { isForeignKeyViolation, type Db } from "../platform/db/index.ts";
import { newId } from "../platform/ids.ts";
import { notFound } from "../platform/problem.ts";
import type { Memberships, NewRoleRow } from "../memberships/index.ts";
import { accessChanged, type Permissions } from "../permissions/index.ts";
import type { ProjectRow, Projects } from "../projects/index.ts";
import type { IdentityChange, NewProjectIdentity, ProjectIdentityView } from "./contract.ts";
import { createCounts } from "./counts.ts";
import { identityChanged, identityDeleted } from "./events.ts";
import { goneMeanwhile, identityProtected, readable, withIds } from "./model.ts";
import {
  createIdentity,
  deleteIdentity,
  findIdentity,
  idsInProject,
  pageOfProject,
  updateIdentity,
  type IdentityRow,
} from "./store.ts";

interface IdentityNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly permissions: Permissions;
  readonly memberships: Memberships;
  readonly projects: Projects;
}

const noAccess = (): NewRoleRow => ({
  id: newId(),
  role: "no-access",
  roleId: null,
  isTemporary: false,
  range: null,
  startsAt: null,
  endsAt: null,
});

const toView = (row: IdentityRow, projectId: string): ProjectIdentityView => ({ ...row, projectId });

export type ProjectIdentities = ReturnType<typeof createProjectIdentities>;

export function createProjectIdentities({ db, clock, permissions, memberships, projects }: IdentityNeeds) {
  const counts = createCounts(db);
  const find = async (project: ProjectRow, identityId: string): Promise<IdentityRow> => {
    const row = await db.read((q) => findIdentity(q, project.orgId, identityId, clock.now()));
    if (!row || row.projectId !== project.id) throw notFound("The identity", identityId);
    return row;
  };

  const requireOne = (actor: MemberActor, project: ProjectRow, action: string, identityId: string) =>
    permissions.requireInProject(actor, project.id, {
      action,
      subject: "identity",
      attributes: { identityId },
    });

  return {
    async create(actor: MemberActor, ref: string, input: NewProjectIdentity): Promise<ProjectIdentityView> {
      const project = await projects.resolve(actor, ref);
      const id = newId();
      // Asked about the very identity that will be: a rule about one particular other identity does not cover it.
      const granter = await requireOne(actor, project, "create", id);
      const roles = await memberships.prepareRoles(
        { orgId: project.orgId, projectId: project.id, granter, subject: "identity" },
        input.roles,
      );
      const at = clock.now();
      const row = {
        id,
        orgId: project.orgId,
        projectId: project.id,
        name: input.name,
        hasDeleteProtection: input.hasDeleteProtection,
        isInstanceAdmin: false,
        metadata: withIds(input.metadata),
        at,
      };
      const write = db.groupCommit((tx) => {
        createIdentity(tx, row, [
          { membershipId: newId(), projectId: null, roles: [noAccess()] },
          { membershipId: newId(), projectId: project.id, roles },
        ]);
        tx.audit(actor, {
          event: "create-identity",
          orgId: project.orgId,
          projectId: project.id,
          metadata: { identityId: row.id, name: row.name, roles: input.roles.map((role) => role.role) },
        });
      });
      await write.catch((error: unknown) => {
        throw isForeignKeyViolation(error) ? goneMeanwhile() : error;
      });
      return {
        id: row.id,
        name: row.name,
        orgId: row.orgId,
        projectId: project.id,
        createdAt: at,
        updatedAt: at,
        hasDeleteProtection: row.hasDeleteProtection,
        activeLockoutAuthMethods: [],
        authMethods: [],
        metadata: row.metadata,
      };
    },

    async list(
      actor: MemberActor,
      ref: string,
      page: { offset: number; limit: number; search?: string | undefined },
    ) {
      const project = await projects.resolve(actor, ref);
      const ability = await permissions.requireInProject(actor, project.id, {
        action: "read",
        subject: "identity",
      });
      const only = await readable(ability, () => db.read((q) => idsInProject(q, project.id)));
      const { rows, total } = await db.read(
        (q) => pageOfProject(q, project.id, { ...page, search: page.search, only }, clock.now()),
        { tenant: project.orgId },
      );
      return {
        identities: rows.map((row) => toView(row, project.id)),
        totalCount: counts.sum("projectIdentities", project.id, total),
      };
    },

    async get(actor: MemberActor, ref: string, identityId: string): Promise<ProjectIdentityView> {
      const project = await projects.resolve(actor, ref);
      const row = await find(project, identityId);
      await requireOne(actor, project, "read", identityId);
      return toView(row, project.id);
    },

    async update(
      actor: MemberActor,
      ref: string,
      identityId: string,
      change: IdentityChange,
    ): Promise<ProjectIdentityView> {
      const project = await projects.resolve(actor, ref);
      await find(project, identityId);
      await requireOne(actor, project, "edit", identityId);
      return db.write(async (tx) => {
        const patch = { ...change, metadata: change.metadata && withIds(change.metadata) };
        await updateIdentity(tx, identityId, patch, clock.now());
        const row = await findIdentity(tx, project.orgId, identityId, clock.now());
        if (!row) throw notFound("The identity", identityId);
        tx.audit(actor, {
          event: "update-identity",
          orgId: project.orgId,
          projectId: project.id,
          metadata: { identityId, changed: Object.keys(change) },
        });
        tx.emit(identityChanged({ orgId: project.orgId, identityId }));
        return toView(row, project.id);
      });
    },

    async delete(actor: MemberActor, ref: string, identityId: string): Promise<ProjectIdentityView> {
      const project = await projects.resolve(actor, ref);
      const row = await find(project, identityId);
      await requireOne(actor, project, "delete", identityId);
      await db.write(async (tx) => {
        if (!(await deleteIdentity(tx, identityId)))
          throw (await findIdentity(tx, project.orgId, identityId, clock.now()))
            ? identityProtected()
            : notFound("The identity", identityId);
        tx.audit(actor, {
          event: "delete-identity",
          orgId: project.orgId,
          projectId: project.id,
          metadata: { identityId, name: row.name },
        });
        tx.emit(identityDeleted({ orgId: project.orgId, identityId }));
        tx.emit(accessChanged({ orgId: project.orgId, projectId: null, actorId: identityId }));
      });
      return toView(row, project.id);
    },
  };
}
