import { sql, type Query, type Tx } from "../platform/db/index.ts";

export interface OrganizationRow {
  readonly id: string;
  readonly name: string;
  readonly slug: string;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

const COLUMNS = `o.id, o.name, o.slug, o.created_at AS "createdAt", o.updated_at AS "updatedAt"`;
const insert = sql<OrganizationRow>(
  `INSERT INTO organizations AS o (id, name, slug, created_at, updated_at) VALUES ($1, $2, $3, $4, $4) RETURNING ${COLUMNS}`,
);
const byId = sql<OrganizationRow>(`SELECT ${COLUMNS} FROM organizations o WHERE o.id = $1`);
const ofUser = sql<OrganizationRow>(`
  SELECT ${COLUMNS} FROM organizations o JOIN memberships m ON m.org_id = o.id AND m.project_id IS NULL WHERE m.user_id = $1 ORDER BY o.created_at, o.id`);
const update = sql<OrganizationRow>(`
  UPDATE organizations o SET name = coalesce($2, name), slug = coalesce($3, slug), updated_at = $4 WHERE id = $1 RETURNING ${COLUMNS}`);
// NO KEY UPDATE lines up those who change members, but not those who only add rows that point at the organisation.
const lock = sql(`SELECT id FROM organizations WHERE id = $1 FOR NO KEY UPDATE`);
const bootstrap = sql(`INSERT INTO bootstrap (org_id, at) VALUES ($1, $2)`);
const bootstrapped = sql<{ orgId: string }>(`SELECT org_id AS "orgId" FROM bootstrap`);

export const insertOrganization = (tx: Tx, row: { id: string; name: string; slug: string; at: Date }) =>
  tx.first(insert, [row.id, row.name, row.slug, row.at]);
export const findOrganization = (q: Query, id: string) => q.first(byId, [id]);
export const organizationsOfUser = (q: Query, userId: string) => q.rows(ofUser, [userId]);
export const updateOrganization = (
  tx: Tx,
  id: string,
  patch: { name?: string | undefined; slug?: string | undefined },
  at: Date,
) => tx.first(update, [id, patch.name ?? null, patch.slug ?? null, at]);
export const holdOrganization = (tx: Tx, id: string) => tx.rows(lock, [id]);
/** Fails on the constraint `bootstrap_once` for every caller but one. */
export const claimBootstrap = (tx: Tx, orgId: string, at: Date) => tx.rows(bootstrap, [orgId, at]);
export const findBootstrap = (q: Query) => q.first(bootstrapped);
