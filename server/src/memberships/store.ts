import { isForeignKeyViolation, sql, type Query, type Tx } from "../platform/db/index.ts";
import { notFound } from "../platform/problem.ts";
import type { Rule } from "../permissions/index.ts";

export interface NewRoleRow {
  readonly id: string;
  readonly role: string;
  readonly roleId: string | null;
  readonly isTemporary: boolean;
  readonly range: string | null;
  readonly startsAt: Date | null;
  readonly endsAt: Date | null;
}

interface CustomRole {
  readonly id: string;
  readonly slug: string;
  readonly rules: Rule[];
}

/** Roles travel as one JSON parameter, so that any number of them is one statement with one plan. */
export const ROLE_RECORD = `("id" uuid, "role" text, "roleId" uuid, "isTemporary" boolean, "range" text, "startsAt" timestamptz, "endsAt" timestamptz)`;
export const ROLE_COLUMNS = `id, role, role_id, is_temporary, temporary_range, starts_at, ends_at`;
export const ROLE_VALUES = `r."id", r."role", r."roleId", r."isTemporary", r."range", r."startsAt", r."endsAt"`;

const customRolesOfProject = sql<CustomRole>(
  `SELECT id, slug, rules FROM roles WHERE project_id = $1 AND slug = ANY($2)`,
);
const customRolesOfOrg = sql<CustomRole>(
  `SELECT id, slug, rules FROM roles WHERE org_id = $1 AND project_id IS NULL AND slug = ANY($2)`,
);
const insertMembership = sql(`
  INSERT INTO memberships (id, org_id, project_id, user_id, identity_id, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $6)`);
const insertRoles = sql(`
  INSERT INTO membership_roles (membership_id, ${ROLE_COLUMNS}) SELECT $1, ${ROLE_VALUES} FROM jsonb_to_recordset($2::jsonb) AS r ${ROLE_RECORD}`);
const deleteRoles = sql(`DELETE FROM membership_roles WHERE membership_id = $1`);
const touchMembership = sql(`UPDATE memberships SET updated_at = $2 WHERE id = $1`);
const deleteMembership = sql(`DELETE FROM memberships WHERE id = $1`);
const deleteOfUser = sql(`DELETE FROM memberships WHERE org_id = $1 AND user_id = $2`);
const member = sql<{ id: string }>(
  `SELECT id FROM memberships WHERE org_id = $1 AND project_id IS NULL AND user_id = $2`,
);
// Far more than anyone belongs to, but for the owner of a large instance.
const organizations = sql<{ orgId: string }>(`
  SELECT org_id AS "orgId" FROM memberships WHERE user_id = $1 AND project_id IS NULL ORDER BY created_at, id LIMIT 100`);

export const findCustomRoles = (
  q: Query,
  scope: { orgId: string; projectId: string | null },
  slugs: readonly string[],
): Promise<CustomRole[]> =>
  scope.projectId
    ? q.rows(customRolesOfProject, [scope.projectId, slugs])
    : q.rows(customRolesOfOrg, [scope.orgId, slugs]);

interface NewMembership {
  readonly id: string;
  readonly orgId: string;
  readonly projectId: string | null;
  readonly userId?: string;
  readonly identityId?: string;
  readonly at: Date;
}

/** What a row would point at was deleted since it was read. */
const orGone = <T>(written: Promise<T>): Promise<T> =>
  written.catch((error: unknown) => {
    throw isForeignKeyViolation(error) ? notFound("The project, the member or one of the roles") : error;
  });

export async function addMembership(
  tx: Tx,
  membership: NewMembership,
  roles: readonly NewRoleRow[],
): Promise<void> {
  const { id, orgId, projectId, userId, identityId, at } = membership;
  // Sent together: neither needs the other's answer.
  await orGone(
    Promise.all([
      tx.rows(insertMembership, [id, orgId, projectId, userId ?? null, identityId ?? null, at]),
      tx.rows(insertRoles, [id, JSON.stringify(roles)]),
    ]),
  );
}

export async function replaceRoles(
  tx: Tx,
  membershipId: string,
  roles: readonly NewRoleRow[],
  at: Date,
): Promise<void> {
  // The membership first: its row lets one replacement through at a time. The next one's deletion begins after that and
  // sees what was put in; otherwise of two at once both sets of roles would stay.
  await orGone(
    Promise.all([
      tx.rows(touchMembership, [membershipId, at]),
      tx.rows(deleteRoles, [membershipId]),
      tx.rows(insertRoles, [membershipId, JSON.stringify(roles)]),
    ]),
  );
}

export const removeMembership = (tx: Tx, membershipId: string) => tx.rows(deleteMembership, [membershipId]);
/** A person's in the organisation and in all its projects. */
export const removeMembershipsOf = (tx: Tx, orgId: string, userId: string) =>
  tx.rows(deleteOfUser, [orgId, userId]);

export const isOrgMember = async (q: Query, orgId: string, userId: string) =>
  (await q.first(member, [orgId, userId])) !== undefined;
export const organizationsOf = async (q: Query, userId: string): Promise<string[]> =>
  (await q.rows(organizations, [userId])).map((row) => row.orgId);

/** A membership's roles as the wire shows them, aggregated for use inside a larger SELECT over `m`. */
export const HELD_ROLES = `
  (SELECT coalesce(json_agg(json_build_object(
      'id', mr.id, 'role', mr.role, 'customRoleId', mr.role_id, 'customRoleName', c.name, 'customRoleSlug', c.slug,
      'isTemporary', mr.is_temporary,
      'temporaryMode', CASE WHEN mr.is_temporary THEN 'relative' END,
      'temporaryRange', mr.temporary_range,
      'temporaryAccessStartTime', extract(epoch FROM mr.starts_at) * 1000,
      'temporaryAccessEndTime', extract(epoch FROM mr.ends_at) * 1000) ORDER BY mr.id), '[]')
    FROM membership_roles mr LEFT JOIN roles c ON c.id = mr.role_id WHERE mr.membership_id = m.id)`;

export interface HeldRoleJson {
  readonly id: string;
  readonly role: string;
  readonly customRoleId: string | null;
  readonly customRoleName: string | null;
  readonly customRoleSlug: string | null;
  readonly isTemporary: boolean;
  readonly temporaryMode: string | null;
  readonly temporaryRange: string | null;
  readonly temporaryAccessStartTime: number | null;
  readonly temporaryAccessEndTime: number | null;
}

export const toHeldRole = (row: HeldRoleJson) => ({
  ...row,
  temporaryAccessStartTime:
    row.temporaryAccessStartTime === null ? null : new Date(row.temporaryAccessStartTime),
  temporaryAccessEndTime: row.temporaryAccessEndTime === null ? null : new Date(row.temporaryAccessEndTime),
});
