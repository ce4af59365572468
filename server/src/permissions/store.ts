import { sql, type Query } from "../platform/db/index.ts";
import type { Rule } from "./model/index.ts";

/** One role that an actor holds in a scope, with the rules of a custom one. */
export interface HeldRole {
  readonly role: string;
  readonly rules: Rule[] | null;
  readonly startsAt: Date | null;
  readonly endsAt: Date | null;
}

const HELD = `
  SELECT r.role, c.rules, r.starts_at AS "startsAt", r.ends_at AS "endsAt"
  FROM memberships m JOIN membership_roles r ON r.membership_id = m.id LEFT JOIN roles c ON c.id = r.role_id`;
const identityInProject = sql<HeldRole>(`${HELD} WHERE m.project_id = $1 AND m.identity_id = $2`);
const userInProject = sql<HeldRole>(`${HELD} WHERE m.project_id = $1 AND m.user_id = $2`);
const identityInOrg = sql<HeldRole>(
  `${HELD} WHERE m.org_id = $1 AND m.project_id IS NULL AND m.identity_id = $2`,
);
const userInOrg = sql<HeldRole>(`${HELD} WHERE m.org_id = $1 AND m.project_id IS NULL AND m.user_id = $2`);

export function rolesInProject(
  q: Query,
  projectId: string,
  actor: { kind: "identity" | "user"; id: string },
): Promise<HeldRole[]> {
  return q.rows(actor.kind === "identity" ? identityInProject : userInProject, [projectId, actor.id]);
}

export function rolesInOrganization(
  q: Query,
  orgId: string,
  actor: { kind: "identity" | "user"; id: string },
): Promise<HeldRole[]> {
  return q.rows(actor.kind === "identity" ? identityInOrg : userInOrg, [orgId, actor.id]);
}
