import { escapeLike, searchSql, sql, type Query, type SlowQuery, type Tx } from "../../platform/db/index.ts";
import { revokeOrgSessions } from "../../auth/index.ts";
import { removeMembershipsOf } from "../../memberships/index.ts";
import { holdOrganization } from "../../organizations/index.ts";

/** A person as a member of an organisation, with their first role there. */
export interface OrgMemberRow {
  readonly id: string;
  readonly role: string;
  readonly roleId: string | null;
  readonly roleName: string | null;
  readonly roleSlug: string | null;
  readonly createdAt: Date;
  readonly userId: string;
  readonly email: string;
  readonly firstName: string;
  readonly lastName: string;
}

const FROM = `FROM memberships m JOIN users u ON u.id = m.user_id`;
const IN_ORG = `m.org_id = $1 AND m.project_id IS NULL`;
const SELECT = `
  SELECT m.id, r.role, r.role_id AS "roleId", c.name AS "roleName", c.slug AS "roleSlug", m.created_at AS "createdAt",
    u.id AS "userId", u.email, u.first_name AS "firstName", u.last_name AS "lastName"
  ${FROM}
  JOIN LATERAL (SELECT role, role_id FROM membership_roles WHERE membership_id = m.id ORDER BY id LIMIT 1) r ON true
  LEFT JOIN roles c ON c.id = r.role_id`;
const matches = (parameter: string): string =>
  `(u.email ILIKE ${parameter} OR u.first_name ILIKE ${parameter} OR u.last_name ILIKE ${parameter})`;
const PAGE = `ORDER BY m.created_at, m.id LIMIT $2 OFFSET $3`;

const one = sql<OrgMemberRow>(`${SELECT} WHERE ${IN_ORG} AND m.id = $2`);
const page = sql<OrgMemberRow>(`${SELECT} WHERE ${IN_ORG} ${PAGE}`);
const searchPage = searchSql<OrgMemberRow>(`${SELECT} WHERE ${IN_ORG} AND ${matches("$4")} ${PAGE}`);
const count = sql<{ count: number }>(
  `SELECT count(*) AS count FROM memberships m WHERE ${IN_ORG} AND m.user_id IS NOT NULL`,
);
const countSearch = searchSql<{ count: number }>(
  `SELECT count(*) AS count ${FROM} WHERE ${IN_ORG} AND ${matches("$2")}`,
);
// A transaction that adds this person to a project holds a share lock on the row: waiting for it before anything is deleted
// lets the deletion see what they added.
const lockOne = sql(`SELECT id FROM memberships WHERE id = $1 AND org_id = $2 FOR UPDATE`);
// A temporary admin is no answer to "who remains?": the role ends by itself.
const admins = sql<{ id: string }>(`
  SELECT m.id FROM memberships m WHERE ${IN_ORG} AND m.user_id IS NOT NULL
    AND EXISTS (SELECT 1 FROM membership_roles r WHERE r.membership_id = m.id AND r.role = 'admin' AND NOT r.is_temporary)
  LIMIT 2`);

export const findOrgMember = (q: Query, orgId: string, id: string) => q.first(one, [orgId, id]);
export async function lockMember(tx: Tx, orgId: string, id: string): Promise<void> {
  await holdOrganization(tx, orgId);
  await tx.rows(lockOne, [id, orgId]);
}

/** Only meaningful after `lockMember`: two admins who demote each other must not both succeed. */
export async function isLastAdmin(tx: Tx, orgId: string, id: string): Promise<boolean> {
  const found = await tx.rows(admins, [orgId]);
  return found.length === 1 && found[0]?.id === id;
}

export const removeFromOrg = (tx: Tx, orgId: string, userId: string) =>
  Promise.all([removeMembershipsOf(tx, orgId, userId), revokeOrgSessions(tx, orgId, userId)]);

export async function pageOfOrgMembers(
  q: SlowQuery,
  orgId: string,
  asked: { readonly offset: number; readonly limit: number; readonly search?: string | undefined },
): Promise<{ rows: OrgMemberRow[]; totalCount: number }> {
  const { offset, limit, search } = asked;
  const pattern = search === undefined ? undefined : `%${escapeLike(search)}%`;
  const [rows, total] = await Promise.all([
    pattern === undefined
      ? q.rows(page, [orgId, limit, offset])
      : q.rows(searchPage, [orgId, limit, offset, pattern]),
    pattern === undefined ? q.first(count, [orgId]) : q.first(countSearch, [orgId, pattern]),
  ]);
  return { rows, totalCount: total?.count ?? 0 };
}
