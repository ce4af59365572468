/** Which people work in a project, and with which roles. They come from the organisation, by address. */
import type { MemberActor } from "../../platform/actor.ts";
import type { Clock } from "../../platform/clock.ts";
import { isUniqueViolation, type Db, type Tx } from "../../platform/db/index.ts";
import { newId } from "../../platform/ids.ts";
import { conflict, notFound } from "../../platform/problem.ts";
import {
  addMembership,
  removeMembership,
  replaceRoles,
  toHeldRole,
  type Memberships,
  type NewRoleRow,
  type RoleAssignment,
} from "../../memberships/index.ts";
import { accessChanged, type Ability, type Permissions, visiblePart } from "../../permissions/index.ts";
import type { ProjectRow, Projects } from "../../projects/index.ts";
import type { SearchablePage } from "../contract.ts";
import { MOST_LOOKED_THROUGH, seesEverybody, maySee } from "../model.ts";
import type { ProjectMembershipView, ProjectMemberView } from "./contract.ts";
import {
  findProjectMember,
  holdColleagues,
  lockMembership,
  pageOfProjectMembers,
  type ProjectMemberRow,
} from "./store.ts";

interface ProjectMemberNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly permissions: Permissions;
  readonly memberships: Memberships;
  readonly projects: Projects;
}

interface NewProjectMembers {
  readonly emails: readonly string[];
  readonly roleSlugs: readonly string[];
}

const toView = (row: ProjectMemberRow): ProjectMemberView => ({
  id: row.id,
  userId: row.userId,
  projectId: row.projectId,
  createdAt: row.createdAt,
  updatedAt: row.updatedAt,
  user: {
    id: row.userId,
    email: row.email,
    username: row.email,
    firstName: row.firstName,
    lastName: row.lastName,
  },
  roles: row.roles.map(toHeldRole),
  project: { id: row.projectId, name: row.projectName, type: row.projectType },
});

type Action = "read" | "create" | "edit" | "delete";

export class ProjectMembers {
  readonly #needs: ProjectMemberNeeds;

  constructor(needs: ProjectMemberNeeds) {
    this.#needs = needs;
  }

  async add(actor: MemberActor, ref: string, input: NewProjectMembers): Promise<ProjectMembershipView[]> {
    const { db, permissions, projects } = this.#needs;
    const project = await projects.resolve(actor, ref);
    const emails = [...new Set(input.emails)];
    for (const email of emails) await this.#require(actor, project, "create", email);
    const granter = await permissions.inProject(actor, project.id);
    const slugs = [...new Set(input.roleSlugs)];
    const wanted = slugs.map((role) => ({ role, isTemporary: false as const }));
    const roles = await this.#prepare(project, granter, wanted);
    try {
      return await db.write(async (tx) => {
        const userIds = await holdColleagues(tx, project.orgId, emails);
        // Which one is missing stays unsaid: it would tell addresses of the organisation from others.
        if (userIds.length < emails.length) throw notFound("The member");
        const added = await this.#insert(tx, project, userIds, roles);
        const metadata = { userIds, roles: slugs };
        tx.audit(actor, { event: "create-project-membership", ...scopeOf(project), metadata });
        return added;
      });
    } catch (error) {
      if (!isUniqueViolation(error, "memberships_project_user")) throw error;
      throw conflict("One of these people is a member of the project already. Nobody was added.");
    }
  }

  async list(
    actor: MemberActor,
    ref: string,
    asked: SearchablePage,
  ): Promise<{ memberships: ProjectMemberView[]; totalCount: number }> {
    const { db, permissions, projects } = this.#needs;
    const { id, orgId } = await projects.resolve(actor, ref);
    const reader = await permissions.requireInProject(actor, id, { action: "read", subject: "member" });
    const all = seesEverybody(reader);
    const wanted = all ? asked : { offset: 0, limit: MOST_LOOKED_THROUGH, search: asked.search };
    const found = await db.read((q) => pageOfProjectMembers(q, id, wanted), { tenant: orgId });
    const { rows, total } = all
      ? { rows: found.rows, total: found.totalCount }
      : await visiblePart(found.rows, maySee(reader), asked);
    return { memberships: rows.map(toView), totalCount: total };
  }

  async get(actor: MemberActor, ref: string, id: string): Promise<ProjectMemberView> {
    return toView((await this.#open(actor, ref, id, "read")).row);
  }

  async update(
    actor: MemberActor,
    ref: string,
    id: string,
    wanted: readonly RoleAssignment[],
  ): Promise<ProjectMemberView> {
    const { db, clock } = this.#needs;
    const { project, row, ability } = await this.#open(actor, ref, id, "edit");
    const roles = await this.#prepare(project, ability, wanted);
    return db.write(async (tx) => {
      if (!(await lockMembership(tx, id))) throw notFound("The membership", id);
      await replaceRoles(tx, id, roles, clock.now());
      const metadata = { membershipId: id, userId: row.userId, roles: wanted.map((given) => given.role) };
      tx.audit(actor, { event: "update-project-membership", ...scopeOf(project), metadata });
      tx.emit(accessChanged({ ...scopeOf(project), actorId: row.userId }));
      return toView((await findProjectMember(tx, project.id, id)) as ProjectMemberRow);
    });
  }

  async remove(actor: MemberActor, ref: string, id: string): Promise<ProjectMemberView> {
    const { project, row } = await this.#open(actor, ref, id, "delete");
    await this.#needs.db.write(async (tx) => {
      if (!(await lockMembership(tx, id))) throw notFound("The membership", id);
      await removeMembership(tx, id);
      const metadata = { membershipId: id, userId: row.userId };
      tx.audit(actor, { event: "delete-project-membership", ...scopeOf(project), metadata });
      tx.emit(accessChanged({ ...scopeOf(project), actorId: row.userId }));
    });
    return toView(row);
  }

  #require(actor: MemberActor, project: ProjectRow, action: Action, userEmail: string): Promise<Ability> {
    const wanted = { action, subject: "member", attributes: { userEmail } };
    return this.#needs.permissions.requireInProject(actor, project.id, wanted);
  }

  /** The project and one of its people, if the actor may do this to them. */
  async #open(actor: MemberActor, ref: string, id: string, action: Action) {
    const { db, projects } = this.#needs;
    const project = await projects.resolve(actor, ref);
    const row = await db.read((q) => findProjectMember(q, project.id, id));
    if (!row) throw notFound("The membership", id);
    return { project, row, ability: await this.#require(actor, project, action, row.email) };
  }

  #prepare(project: ProjectRow, granter: Ability, wanted: readonly RoleAssignment[]): Promise<NewRoleRow[]> {
    const scope = { ...scopeOf(project), granter, subject: "member" as const };
    return this.#needs.memberships.prepareRoles(scope, wanted);
  }

  async #insert(tx: Tx, project: ProjectRow, userIds: readonly string[], roles: readonly NewRoleRow[]) {
    const at = this.#needs.clock.now();
    const added = userIds.map((userId) => ({ id: newId(), userId, ...scopeOf(project), at }));
    await Promise.all(
      added.map((place) => {
        const own = roles.map((role) => ({ ...role, id: newId() }));
        return addMembership(tx, place, own);
      }),
    );
    for (const { userId } of added) tx.emit(accessChanged({ ...scopeOf(project), actorId: userId }));
    return added.map((place) => ({ ...place, createdAt: at, updatedAt: at }));
  }
}

const scopeOf = (project: ProjectRow) => ({ orgId: project.orgId, projectId: project.id });

export const createProjectMembers = (needs: ProjectMemberNeeds): ProjectMembers => new ProjectMembers(needs);
