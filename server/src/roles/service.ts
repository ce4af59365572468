/** Custom roles, of a project or of the organisation. Nobody can write a role that holds more than they do. */
import type { MemberActor } from "../platform/actor.ts";
import type { Clock } from "../platform/clock.ts";
import { isUniqueViolation, type Db, type Tx } from "../platform/db/index.ts";
import { newId } from "../platform/ids.ts";
import { badRequest, conflict, invalid, notFound } from "../platform/problem.ts";
import {
  accessChanged,
  builtinRules,
  builtinSlugs,
  checkRules,
  HOLDER_LIMITS,
  orgOf,
  weightOf,
  wordsOf,
  type Ability,
  type Permissions,
  type Rule,
} from "../permissions/index.ts";
import type { Projects } from "../projects/index.ts";
import type { NewRole, RoleChange, RoleView } from "./contract.ts";
import {
  deleteRole,
  findOverburdened,
  findRole,
  findRoleBySlug,
  insertRole,
  listRoles,
  lockRole,
  updateRole,
  weighRoles,
  type RoleRow,
  type RoleScope,
} from "./store.ts";

interface RoleNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly permissions: Permissions;
  readonly projects: Projects;
}

/** Where the role lives: a project by id or slug, or (undefined) the caller's organisation. */
type RolePlace = string | undefined;

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

/**
 * Denials that a change removes, as grants. Holders of the role gain what it denied, so lifting a denial
 * is granting: otherwise someone whom one role keeps from a thing, and who may edit roles, would just edit that role.
 */
function lifted(before: readonly Rule[], after: readonly Rule[]): Rule[] {
  const kept = new Set(after.filter((rule) => rule.inverted).map(wordsOf));
  return before
    .filter((rule) => rule.inverted && !kept.has(wordsOf(rule)))
    .map((rule) => ({ ...rule, inverted: false }));
}

/**
 * Grants that a change takes away. Who may weaken a role beyond their own rights could weaken its holders, take hold
 * of them while they have nothing, and wait until somebody gives them their rights back.
 */
function withdrawn(before: readonly Rule[], after: readonly Rule[]): Rule[] {
  const kept = new Set(after.map(wordsOf));
  return before.filter((rule) => !rule.inverted && !kept.has(wordsOf(rule)));
}

/** Custom roles of a project, or of the organisation itself: lists show all of them with all their rules. */
const MOST_ROLES = 500;
const MOST_BYTES = 16 * 1024 * 1024;

/** Asked after a role was written. */
async function refuseMore(tx: Tx, scope: RoleScope): Promise<void> {
  const { count, bytes } = await weighRoles(tx, scope);
  if (count > MOST_ROLES)
    throw badRequest(`There are ${MOST_ROLES} custom roles already, and no more are possible here.`);
  if (bytes > MOST_BYTES)
    throw badRequest(
      `The rules of all custom roles here would have more than ${MOST_BYTES / 1024 / 1024} MB together.`,
    );
}

/** Growing what somebody holds already is giving them more: the bound of a holder holds there, too. */
async function refuseBurden(tx: Tx, before: RoleRow, rules: readonly Rule[]): Promise<void> {
  const [was, now] = [weightOf(before.rules), weightOf(rules)];
  if (now.rules <= was.rules && now.patternCharacters <= was.patternCharacters) return;
  if (await findOverburdened(tx, before.id, now))
    throw badRequest(
      `Somebody who holds the role ${before.slug} would hold too much: at most ${HOLDER_LIMITS.rules} rules and ${HOLDER_LIMITS.patternCharacters} characters of wildcard patterns in all roles together.`,
    );
}

function parseRules(given: readonly unknown[], place: RolePlace): Rule[] {
  const checked = checkRules(given, place === undefined ? "organization" : "project");
  if (checked.ok) return [...checked.rules];
  throw invalid(
    checked.issues
      .slice(0, 50)
      .map((issue) => ({ code: "custom", path: ["permissions", ...issue.path], message: issue.message })),
  );
}

export type Roles = ReturnType<typeof createRoles>;

export function createRoles({ db, clock, permissions, projects }: RoleNeeds) {
  const locate = async (actor: MemberActor, place: RolePlace): Promise<RoleScope> => {
    if (place === undefined) return { orgId: orgOf(actor), projectId: null };
    const project = await projects.resolve(actor, place);
    return { orgId: project.orgId, projectId: project.id };
  };

  const require = (actor: MemberActor, { projectId }: RoleScope, action: string): Promise<Ability> => {
    const wanted = { action, subject: "role" };
    return projectId === null
      ? permissions.requireInOrganization(actor, wanted)
      : permissions.requireInProject(actor, projectId, wanted);
  };

  const find = async (scope: RoleScope, roleId: string): Promise<RoleRow> => {
    const row = await db.read((q) => findRole(q, scope, roleId));
    if (!row) throw notFound("The role", roleId);
    return row;
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
    /** For a caller that creates many of a project, one after the other. */
    async requireRoom(scope: RoleScope, more: number): Promise<void> {
      const { count } = await db.read((q) => weighRoles(q, scope));
      if (count + more > MOST_ROLES)
        throw badRequest(`More than ${MOST_ROLES} custom roles are not possible here.`);
    },

    async create(actor: MemberActor, place: RolePlace, input: NewRole): Promise<RoleView> {
      const rules = parseRules(input.permissions, place);
      const scope = await locate(actor, place);
      const ability = await require(actor, scope, "create");
      refuseBuiltin(scope, input.slug);
      await permissions.requireHolds(ability, rules, `the role ${input.slug}`);
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
          await refuseMore(tx, scope);
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
      const scope = await locate(actor, place);
      await require(actor, scope, "read");
      const custom = await db.read((q) => listRoles(q, scope));
      return [...builtinSlugs(kindOf(scope)).map((slug) => builtinView(scope, slug)), ...custom.map(toView)];
    },

    async get(actor: MemberActor, place: RolePlace, slug: string): Promise<RoleView> {
      const scope = await locate(actor, place);
      await require(actor, scope, "read");
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
      const given = change.permissions === undefined ? undefined : parseRules(change.permissions, place);
      const scope = await locate(actor, place);
      const seen = await find(scope, roleId);
      const ability = await require(actor, scope, "edit");
      if (change.slug !== undefined && change.slug !== seen.slug) refuseBuiltin(scope, change.slug);
      return orConflict(change.slug ?? seen.slug, () =>
        db.write(async (tx) => {
          // Decided on the row as it is under the lock: someone else's change in between must not be undone.
          const before = await lockRole(tx, scope, roleId);
          if (!before) throw notFound("The role", roleId);
          const slug = change.slug ?? before.slug;
          // Invitations name a role by its slug: another slug may give a role to whom it was not meant for.
          const renamed = slug === before.slug ? [] : before.rules.filter((rule) => !rule.inverted);
          const changed = given
            ? [...given, ...lifted(before.rules, given), ...withdrawn(before.rules, given)]
            : [];
          await permissions.requireHolds(ability, [...changed, ...renamed], `the role ${slug}`);
          if (given) await refuseBurden(tx, before, given);
          const description = change.description === undefined ? before.description : change.description;
          const after = {
            ...before,
            slug,
            name: change.name ?? before.name,
            description,
            rules: given ?? before.rules,
          };
          const row = (await updateRole(tx, after, clock.now())) as RoleRow;
          if (given) await refuseMore(tx, scope);
          tx.audit(actor, {
            event: "update-role",
            ...scope,
            metadata: {
              roleId,
              slug,
              changed: Object.keys(change),
              ...(given ? { permissionsBefore: before.rules, permissions: given } : {}),
            },
          });
          tx.emit(accessChanged({ ...scope, actorId: null }));
          return toView(row);
        }),
      );
    },

    async delete(actor: MemberActor, place: RolePlace, roleId: string): Promise<RoleView> {
      const scope = await locate(actor, place);
      await find(scope, roleId);
      const ability = await require(actor, scope, "delete");
      return db.write(async (tx) => {
        // As it is under the lock: it may hold more since it was read.
        const before = await lockRole(tx, scope, roleId);
        if (!before) throw notFound("The role", roleId);
        await permissions.requireHolds(
          ability,
          [...lifted(before.rules, []), ...withdrawn(before.rules, [])],
          `what the role ${before.slug} says`,
        );
        await deleteRole(tx, roleId);
        const metadata = { roleId, slug: before.slug, permissionsBefore: before.rules };
        tx.audit(actor, { event: "delete-role", ...scope, metadata });
        tx.emit(accessChanged({ ...scope, actorId: null }));
        return toView(before);
      });
    },
  };
}
