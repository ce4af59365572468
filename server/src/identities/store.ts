import {
  searchSql,
  slowSql,
  sql,
  type WriteTx,
  type Query,
  type SlowQuery,
  type Tx,
} from "../platform/db/index.ts";
import { ROLE_COLUMNS, ROLE_RECORD, ROLE_VALUES, type NewRoleRow } from "../memberships/index.ts";
import type { Total } from "./counts.store.ts";
import type { IdentityMetadataItem } from "./model.ts";
import { pageOf, type IdentityPage } from "./pages.store.ts";

export interface IdentityRow {
  readonly id: string;
  readonly orgId: string;
  readonly projectId: string | null;
  readonly name: string;
  readonly hasDeleteProtection: boolean;
  readonly isInstanceAdmin: boolean;
  readonly authMethods: string[];
  readonly metadata: IdentityMetadataItem[];
  readonly lastLoginMethod: string | null;
  readonly lastLoginAt: Date | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  readonly activeLockoutAuthMethods: string[];
}

/** $1 is always the present moment: a lockout is active until its own. */
const COLUMNS = `i.id, i.org_id AS "orgId", i.project_id AS "projectId", i.name, i.has_delete_protection AS "hasDeleteProtection",
  i.is_instance_admin AS "isInstanceAdmin", i.auth_methods AS "authMethods", i.metadata, i.last_login_method AS "lastLoginMethod",
  i.last_login_at AS "lastLoginAt", i.created_at AS "createdAt", i.updated_at AS "updatedAt",
  ARRAY(SELECT DISTINCT l.method FROM lockouts l WHERE l.subject_id = i.id AND l.locked_until > $1 ORDER BY l.method) AS "activeLockoutAuthMethods"`;

/** Parameter number `at` names the identities that may be seen; null = all. */
export const amongOnly = (at: number): string => `($${at}::uuid[] IS NULL OR i.id = ANY($${at}::uuid[]))`;

// One statement for all that comes into being with an identity. Sent with COMMIT: nobody waits for its rows.
const create = sql(`
  WITH identity AS (
    INSERT INTO identities (id, org_id, project_id, name, has_delete_protection, is_instance_admin, metadata, created_at, updated_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8)
  ), places AS (
    INSERT INTO memberships (id, org_id, project_id, identity_id, created_at, updated_at)
    SELECT p.id, $2, p.project_id, $1, $8, $8 FROM unnest($9::uuid[], $10::uuid[]) AS p (id, project_id)
  )
  INSERT INTO membership_roles (membership_id, ${ROLE_COLUMNS})
  SELECT r."membershipId", ${ROLE_VALUES} FROM jsonb_to_recordset($11::jsonb) AS r ${ROLE_RECORD.replace("(", '("membershipId" uuid, ')}`);

const byId = sql<IdentityRow>(`SELECT ${COLUMNS} FROM identities i WHERE i.org_id = $2 AND i.id = $3`);
const inProject = slowSql<IdentityRow>(`
  SELECT ${COLUMNS} FROM identities i WHERE i.project_id = $2 AND ${amongOnly(5)} ORDER BY i.created_at, i.id LIMIT $3 OFFSET $4`);
const countInProject = sql<Total>(
  `SELECT 0 AS kept, count(*) AS since FROM identities i WHERE i.project_id = $1 AND ${amongOnly(2)}`,
);
const allInProject = sql<{ id: string }>(`SELECT id FROM identities WHERE project_id = $1`);
const searchInProject = searchSql<IdentityRow>(`
  SELECT ${COLUMNS} FROM identities i WHERE i.project_id = $2 AND ${amongOnly(5)} AND i.name ILIKE $6 ORDER BY i.created_at, i.id LIMIT $3 OFFSET $4`);
const countSearchInProject = searchSql<Total>(
  `SELECT 0 AS kept, count(*) AS since FROM identities i WHERE i.project_id = $1 AND ${amongOnly(2)} AND i.name ILIKE $3`,
);
const update = sql<{ id: string }>(`
  UPDATE identities SET name = coalesce($2, name), has_delete_protection = coalesce($3, has_delete_protection),
    metadata = coalesce($4, metadata), updated_at = $5 WHERE id = $1 RETURNING id`);
const remove = sql<{ id: string }>(
  `DELETE FROM identities WHERE id = $1 AND NOT has_delete_protection RETURNING id`,
);

interface NewIdentityRow {
  readonly id: string;
  readonly orgId: string;
  readonly projectId: string | null;
  readonly name: string;
  readonly hasDeleteProtection: boolean;
  readonly isInstanceAdmin: boolean;
  readonly metadata: readonly IdentityMetadataItem[];
  readonly at: Date;
}

interface NewPlace {
  readonly membershipId: string;
  readonly projectId: string | null;
  readonly roles: readonly NewRoleRow[];
}

export function createIdentity(tx: WriteTx, row: NewIdentityRow, places: readonly NewPlace[]): void {
  const roles = places.flatMap((place) =>
    place.roles.map((role) => ({ membershipId: place.membershipId, ...role })),
  );
  tx.defer(create, [
    row.id,
    row.orgId,
    row.projectId,
    row.name,
    row.hasDeleteProtection,
    row.isInstanceAdmin,
    JSON.stringify(row.metadata),
    row.at,
    places.map((place) => place.membershipId),
    places.map((place) => place.projectId),
    JSON.stringify(roles),
  ]);
}

export const findIdentity = (q: Query, orgId: string, id: string, now: Date) =>
  q.first(byId, [now, orgId, id]);

export const idsInProject = async (q: Query, projectId: string): Promise<string[]> =>
  (await q.rows(allInProject, [projectId])).map((row) => row.id);

export const pageOfProject = (q: SlowQuery, projectId: string, asked: IdentityPage, now: Date) =>
  pageOf(
    q,
    {
      page: inProject,
      searchPage: searchInProject,
      count: countInProject,
      countSearch: countSearchInProject,
      counted: "projectIdentities",
    },
    projectId,
    { asked, now },
  );

interface IdentityPatch {
  readonly name?: string | undefined;
  readonly hasDeleteProtection?: boolean | undefined;
  readonly metadata?: readonly IdentityMetadataItem[] | undefined;
}

export const updateIdentity = (tx: Tx, id: string, patch: IdentityPatch, at: Date) =>
  tx.first(update, [
    id,
    patch.name ?? null,
    patch.hasDeleteProtection ?? null,
    patch.metadata === undefined ? null : JSON.stringify(patch.metadata),
    at,
  ]);
export const deleteIdentity = (tx: Tx, id: string) => tx.first(remove, [id]);
