/** Turning "give them these roles" into rows, after asking whether the giver may. Used by every room that assigns roles. */
import type { Clock } from "../platform/clock.ts";
import type { Db } from "../platform/db/index.ts";
import { newId } from "../platform/ids.ts";
import { badRequest, notFound } from "../platform/problem.ts";
import {
  builtinRules,
  deny,
  tooHeavy,
  weightOf,
  type Ability,
  type Permissions,
  type Rule,
} from "../permissions/index.ts";
import { rangeSeconds, type RoleAssignment } from "./contract.ts";
import { findCustomRoles, type NewRoleRow } from "./store.ts";

interface GrantScope {
  readonly orgId: string;
  readonly projectId: string | null;
  /** The rights of the one who grants, in this scope. */
  readonly granter: Ability;
  /** `identity` or `member`: whose roles are being set. */
  readonly subject: "identity" | "member";
}

export interface Memberships {
  /** Checks that the granter may give each role and may give what it holds; answers rows to store. */
  prepareRoles(scope: GrantScope, wanted: readonly RoleAssignment[]): Promise<NewRoleRow[]>;
}

export function createMemberships(needs: {
  readonly db: Db;
  readonly clock: Clock;
  readonly permissions: Permissions;
}): Memberships {
  const { db, clock, permissions } = needs;

  const toRow = (assignment: RoleAssignment, roleId: string | null): NewRoleRow => {
    const base = { id: newId(), role: roleId === null ? assignment.role : "custom", roleId };
    if (!assignment.isTemporary)
      return { ...base, isTemporary: false, range: null, startsAt: null, endsAt: null };
    const startsAt = assignment.startsAt ?? clock.now();
    const endsAt = new Date(startsAt.getTime() + rangeSeconds(assignment.range) * 1000);
    return { ...base, isTemporary: true, range: assignment.range, startsAt, endsAt };
  };

  return {
    async prepareRoles(scope, wanted) {
      const assignments = wanted.length === 0 ? [{ role: "no-access", isTemporary: false as const }] : wanted;
      const kind = scope.projectId ? "project" : "organization";
      const customSlugs = [
        ...new Set(assignments.map((a) => a.role).filter((role) => builtinRules(kind, role) === null)),
      ];
      const found =
        customSlugs.length === 0 ? [] : await db.read((q) => findCustomRoles(q, scope, customSlugs));
      const custom = new Map(found.map((role) => [role.slug, role]));
      for (const slug of customSlugs) if (!custom.has(slug)) throw notFound("The role", slug);
      const rows = assignments.map((assignment) =>
        toRow(assignment, custom.get(assignment.role)?.id ?? null),
      );
      /** The same role twice is asked about once. */
      const held = new Set<string>();
      for (const [index, { role }] of assignments.entries()) {
        if (role === "no-access") continue;
        const wantedRight = {
          action: "assign-role",
          subject: scope.subject,
          attributes: { assignableRole: role },
        };
        if (!scope.granter.can(wantedRight.action, wantedRight.subject, wantedRight.attributes))
          deny(scope.granter, wantedRight);
        const grant = `${role} ${rows[index]?.endsAt?.getTime() ?? ""}`;
        if (held.has(grant)) continue;
        held.add(grant);
        const rules: readonly Rule[] = custom.get(role)?.rules ?? builtinRules(kind, role) ?? [];
        await permissions.requireHolds(
          scope.granter,
          rules,
          `the role ${role}`,
          rows[index]?.endsAt?.getTime(),
        );
      }
      // Each decision about the holder may look at all of it, and so may every list, secret by secret.
      const weights = new Map(found.map(({ slug, rules }) => [slug, weightOf(rules)]));
      const bound = tooHeavy(assignments.flatMap(({ role }) => weights.get(role) ?? []));
      if (bound) throw badRequest(`These roles together hold too much: ${bound} for one holder.`);
      return rows;
    },
  };
}
