import { searchSql, slowSql, sql, type Query, type SlowQuery } from "../../platform/db/index.ts";
import { HELD_ROLES, type HeldRoleJson } from "../../memberships/index.ts";
import type { Total } from "../counts.store.ts";
import type { IdentityMetadataItem } from "../model.ts";
import { pageOf, type IdentityPage } from "../pages.store.ts";
import { amongOnly } from "../store.ts";

export interface IdentityMembershipRow {
  readonly id: string;
  readonly projectId: string;
  readonly projectName: string;
  readonly projectType: string;
  readonly identityId: string;
  readonly name: string;
  readonly orgId: string;
  readonly ownerProjectId: string | null;
  readonly hasDeleteProtection: boolean;
  readonly authMethods: string[];
  readonly activeLockoutAuthMethods: string[];
  readonly metadata: IdentityMetadataItem[];
  readonly lastLoginMethod: string | null;
  readonly lastLoginAt: Date | null;
  readonly roles: HeldRoleJson[];
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

const COLUMNS = `
  SELECT m.id, m.project_id AS "projectId", p.name AS "projectName", p.type AS "projectType", i.id AS "identityId", i.name, i.org_id AS "orgId",
    i.project_id AS "ownerProjectId", i.has_delete_protection AS "hasDeleteProtection", i.auth_methods AS "authMethods",
    ARRAY(SELECT DISTINCT l.method FROM lockouts l WHERE l.subject_id = i.id AND l.locked_until > $1 ORDER BY l.method) AS "activeLockoutAuthMethods",
    i.metadata, i.last_login_method AS "lastLoginMethod", i.last_login_at AS "lastLoginAt", ${HELD_ROLES} AS roles,
    m.created_at AS "createdAt", m.updated_at AS "updatedAt"`;
const JOINED = `JOIN identities i ON i.id = m.identity_id JOIN projects p ON p.id = m.project_id`;
const SELECT = `${COLUMNS} FROM memberships m ${JOINED}`;
const one = sql<IdentityMembershipRow>(`${SELECT} WHERE m.project_id = $2 AND m.identity_id = $3`);
const byId = sql<IdentityMembershipRow>(`${SELECT} WHERE m.org_id = $2 AND m.id = $3`);
// The page is cut from the memberships alone; only its own rows are joined to their identities.
const page = slowSql<IdentityMembershipRow>(`
  ${COLUMNS} FROM (
    SELECT * FROM memberships WHERE project_id = $2 AND identity_id IS NOT NULL AND ($5::uuid[] IS NULL OR identity_id = ANY($5::uuid[]))
    ORDER BY created_at, id LIMIT $3 OFFSET $4) m ${JOINED}
  ORDER BY m.created_at, m.id`);
const searchPage = searchSql<IdentityMembershipRow>(
  `${SELECT} WHERE m.project_id = $2 AND ${amongOnly(5)} AND i.name ILIKE $6 ORDER BY m.created_at, m.id LIMIT $3 OFFSET $4`,
);
const count = sql<Total>(`
  SELECT 0 AS kept, count(*) AS since FROM memberships m JOIN identities i ON i.id = m.identity_id WHERE m.project_id = $1 AND ${amongOnly(2)}`);
const members = sql<{ id: string }>(
  `SELECT identity_id AS id FROM memberships WHERE project_id = $1 AND identity_id IS NOT NULL`,
);
const countSearch = searchSql<Total>(`
  SELECT 0 AS kept, count(*) AS since FROM memberships m JOIN identities i ON i.id = m.identity_id WHERE m.project_id = $1 AND ${amongOnly(2)} AND i.name ILIKE $3`);

export const findMembership = (q: Query, projectId: string, identityId: string, now: Date) =>
  q.first(one, [now, projectId, identityId]);
export const findMembershipById = (q: Query, orgId: string, id: string, now: Date) =>
  q.first(byId, [now, orgId, id]);

export const memberIds = async (q: Query, projectId: string): Promise<string[]> =>
  (await q.rows(members, [projectId])).map((row) => row.id);

export const pageOfMemberships = (q: SlowQuery, projectId: string, asked: IdentityPage, now: Date) =>
  pageOf(q, { page, searchPage, count, countSearch, counted: "projectMembers" }, projectId, { asked, now });
