/** Custom roles, of a project or of the organisation. Nobody can write a role that holds more than they do. */
import type { MemberActor } from "../platform/actor.ts";
import type { Clock } from "../platform/clock.ts";
import { isUniqueViolation, type Db } from "../platform/db/index.ts";
import { newId } from "../platform/ids.ts";
import { badRequest, conflict, invalid, notFound } from "../platform/problem.ts";
import {
  accessChanged,
  builtinRules,
  builtinSlugs,
  checkRules,
  orgOf,
  type Ability,
  type Permissions,
  type Rule,
} from "../permissions/index.ts";
import type { Projects } from "../projects/index.ts";
import type { NewRole, RoleChange, RoleView } from "./contract.ts";
import {
  deleteRole,
  findRole,
  findRoleBySlug,
  insertRole,
  listRoles,
  updateRole,
  type RoleRow,
  type RoleScope,
} from "./store.ts";

export interface RoleNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly permissions: Permissions;
  readonly projects: Projects;
}

/** Where the role lives: a project by id or slug, or (undefined) the caller's organisation. */
export type RolePlace = string | undefined;

// Built-in roles have no row; a fixed id per slug keeps clients that expect one content.
const BUILTIN_ID: Record<string, string> = {
  admin: "b11b11b1-b11b-4b11-8b11-b11b11b11b10",
  member: "b11b11b1-b11b-4b11-8b11-b11b11b11b11",
  viewer: "b11b11b1-b11b-4b11-8b11-b11b11b11b12",
  "no-access": "b11b11b1-b11b-4b11-8b11-b11b11b11b13",
};
const BUILTIN_NAME: Record<string, string> = {
  admin: "Admin",
  member: "Member",
  viewer: "Viewer",
  "no-access": "No access",
};

const toView = ({ rules, projectId, ...row }: RoleRow): RoleView => ({
  ...row,
  permissions: rules,
  ...(projectId === null ? {} : { projectId }),
});
const kindOf = (scope: RoleScope) => (scope.projectId === null ? "organization" : "project");

function parseRules(given: readonly unknown[], scope: RoleScope): Rule[] {
  const checked = checkRules(given, kindOf(scope));
  if (checked.ok) return [...checked.rules];
  throw invalid(
    checked.issues
      .slice(0, 50)
      .map((issue) => ({ code: "custom", path: ["permissions", ...issue.path], message: issue.message })),
  );
}

export type Roles = ReturnType<typeof createRoles>;

export function createRoles({ db, clock, permissions, projects }: RoleNeeds) {
  const enter = async (
    actor: MemberActor,
    place: RolePlace,
    action: string,
  ): Promise<{ scope: RoleScope; ability: Ability }> => {
    const wanted = { action, subject: "role" };
    if (place === undefined)
      return {
        scope: { orgId: orgOf(actor), projectId: null },
        ability: await permissions.requireInOrganization(actor, wanted),
      };
    const project = await projects.resolve(actor, place);
    return {
      scope: { orgId: project.orgId, projectId: project.id },
      ability: await permissions.requireInProject(actor, project.id, wanted),
    };
  };

  const builtinView = (scope: RoleScope, slug: string): RoleView => ({
    id: BUILTIN_ID[slug] ?? "",
    name: BUILTIN_NAME[slug] ?? slug,
    slug,
    description: "Built in.",
    orgId: scope.orgId,
    permissions: [...(builtinRules(kindOf(scope), slug) ?? [])],
    createdAt: new Date(0),
    updatedAt: new Date(0),
    ...(scope.projectId === null ? {} : { projectId: scope.projectId }),
  });

  const orConflict = async <T>(slug: string, work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      if (isUniqueViolation(error)) throw conflict(`A role with the slug ${slug} exists already.`);
      throw error;
    }
  };

  const refuseBuiltin = (scope: RoleScope, slug: string): void => {
    if (builtinRules(kindOf(scope), slug) !== null || slug === "custom")
      throw badRequest(`The slug ${slug} belongs to a built-in role.`);
  };

  return {
    async create(actor: MemberActor, place: RolePlace, input: NewRole): Promise<RoleView> {
      const { scope, ability } = await enter(actor, place, "create");
      const rules = parseRules(input.permissions, scope);
      refuseBuiltin(scope, input.slug);
      permissions.requireHolds(ability, rules, `the role ${input.slug}`);
      return orConflict(input.slug, () =>
        db.write(async (tx) => {
          const row = await insertRole(tx, {
            id: newId(),
            scope,
            slug: input.slug,
            name: input.name,
            description: input.description ?? null,
            rules,
            at: clock.now(),
          });
          tx.audit(actor, {
            event: "create-role",
            ...scope,
            metadata: { roleId: row?.id, slug: input.slug },
          });
          return toView(row as RoleRow);
        }),
      );
    },

    async list(actor: MemberActor, place: RolePlace): Promise<RoleView[]> {
      const { scope } = await enter(actor, place, "read");
      const custom = await db.read((q) => listRoles(q, scope));
      return [...builtinSlugs(kindOf(scope)).map((slug) => builtinView(scope, slug)), ...custom.map(toView)];
    },

    async get(actor: MemberActor, place: RolePlace, slug: string): Promise<RoleView> {
      const { scope } = await enter(actor, place, "read");
      if (builtinRules(kindOf(scope), slug) !== null) return builtinView(scope, slug);
      const row = await db.read((q) => findRoleBySlug(q, scope, slug));
      if (!row) throw notFound("The role", slug);
      return toView(row);
    },

    async update(
      actor: MemberActor,
      place: RolePlace,
      roleId: string,
      change: RoleChange,
    ): Promise<RoleView> {
      const { scope, ability } = await enter(actor, place, "edit");
      const before = await db.read((q) => findRole(q, scope, roleId));
      if (!before) throw notFound("The role", roleId);
      const rules = change.permissions === undefined ? before.rules : parseRules(change.permissions, scope);
      const slug = change.slug ?? before.slug;
      if (slug !== before.slug) refuseBuiltin(scope, slug);
      if (change.permissions !== undefined) permissions.requireHolds(ability, rules, `the role ${slug}`);
      const description = change.description === undefined ? before.description : change.description;
      return orConflict(slug, () =>
        db.write(async (tx) => {
          const row = await updateRole(
            tx,
            { ...before, slug, name: change.name ?? before.name, description, rules },
            clock.now(),
          );
          if (!row) throw notFound("The role", roleId);
          tx.audit(actor, {
            event: "update-role",
            ...scope,
            metadata: { roleId, slug, changed: Object.keys(change) },
          });
          tx.emit(accessChanged({ ...scope, actorId: null }));
          return toView(row);
        }),
      );
    },

    async delete(actor: MemberActor, place: RolePlace, roleId: string): Promise<RoleView> {
      const { scope } = await enter(actor, place, "delete");
      const before = await db.read((q) => findRole(q, scope, roleId));
      if (!before) throw notFound("The role", roleId);
      await db.write(async (tx) => {
        if (!(await deleteRole(tx, roleId))) throw notFound("The role", roleId);
        tx.audit(actor, { event: "delete-role", ...scope, metadata: { roleId, slug: before.slug } });
        tx.emit(accessChanged({ ...scope, actorId: null }));
      });
      return toView(before);
    },
  };
}
