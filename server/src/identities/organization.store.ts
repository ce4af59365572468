import { searchSql, slowSql, sql, type Query, type SlowQuery } from "../platform/db/index.ts";
import type { Total } from "./counts.store.ts";
import type { IdentityMetadataItem } from "./model.ts";
import { pageOf, type IdentityPage } from "./pages.store.ts";
import { amongOnly } from "./store.ts";

/** An identity as a member of its organisation, with its first role there. */
export interface OrgIdentityRow {
  readonly membershipId: string;
  readonly role: string;
  readonly roleId: string | null;
  readonly roleName: string | null;
  readonly roleSlug: string | null;
  readonly roleDescription: string | null;
  readonly orgId: string;
  readonly identityId: string;
  readonly name: string;
  readonly hasDeleteProtection: boolean;
  readonly authMethods: string[];
  readonly activeLockoutAuthMethods: string[];
  readonly metadata: IdentityMetadataItem[];
  readonly lastLoginMethod: string | null;
  readonly lastLoginAt: Date | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

const SELECT = `
  SELECT m.id AS "membershipId", r.role, r.role_id AS "roleId", c.name AS "roleName", c.slug AS "roleSlug", c.description AS "roleDescription",
    i.org_id AS "orgId", i.id AS "identityId", i.name, i.has_delete_protection AS "hasDeleteProtection", i.auth_methods AS "authMethods",
    ARRAY(SELECT DISTINCT l.method FROM lockouts l WHERE l.subject_id = i.id AND l.locked_until > $1 ORDER BY l.method) AS "activeLockoutAuthMethods",
    i.metadata, i.last_login_method AS "lastLoginMethod", i.last_login_at AS "lastLoginAt", m.created_at AS "createdAt", m.updated_at AS "updatedAt"
  FROM identities i JOIN memberships m ON m.identity_id = i.id AND m.project_id IS NULL
  JOIN LATERAL (SELECT role, role_id FROM membership_roles WHERE membership_id = m.id ORDER BY id LIMIT 1) r ON true
  LEFT JOIN roles c ON c.id = r.role_id`;
const one = sql<OrgIdentityRow>(`${SELECT} WHERE i.org_id = $2 AND i.id = $3`);
const page = slowSql<OrgIdentityRow>(
  `${SELECT} WHERE i.org_id = $2 AND i.project_id IS NULL AND ${amongOnly(5)} ORDER BY i.created_at, i.id LIMIT $3 OFFSET $4`,
);
const searchPage = searchSql<OrgIdentityRow>(
  `${SELECT} WHERE i.org_id = $2 AND i.project_id IS NULL AND ${amongOnly(5)} AND i.name ILIKE $6 ORDER BY i.created_at, i.id LIMIT $3 OFFSET $4`,
);
const count = sql<Total>(
  `SELECT 0 AS kept, count(*) AS since FROM identities i WHERE i.org_id = $1 AND i.project_id IS NULL AND ${amongOnly(2)}`,
);
const countSearch = searchSql<Total>(`
  SELECT 0 AS kept, count(*) AS since FROM identities i WHERE i.org_id = $1 AND i.project_id IS NULL AND ${amongOnly(2)} AND i.name ILIKE $3`);
const all = sql<{ id: string }>(`SELECT id FROM identities WHERE org_id = $1 AND project_id IS NULL`);

export const findOrgIdentity = (q: Query, orgId: string, identityId: string, now: Date) =>
  q.first(one, [now, orgId, identityId]);

export const idsOfOrg = async (q: Query, orgId: string): Promise<string[]> =>
  (await q.rows(all, [orgId])).map((row) => row.id);

export const pageOfOrg = (q: SlowQuery, orgId: string, asked: IdentityPage, now: Date) =>
  pageOf(q, { page, searchPage, count, countSearch, counted: "orgIdentities" }, orgId, { asked, now });
