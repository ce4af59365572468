import { isUuid } from "../platform/ids.ts";
import { counterOf } from "../platform/bound.ts";
import { sql, type Query, type Tx } from "../platform/db/index.ts";

export interface ProjectRow {
  readonly id: string;
  readonly orgId: string;
  readonly name: string;
  readonly slug: string;
  readonly description: string | null;
  readonly type: string;
  readonly hasDeleteProtection: boolean;
  readonly auditRetentionDays: number | null;
  readonly versionLimit: number | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  readonly environments: { readonly id: string; readonly name: string; readonly slug: string }[];
}

const COLUMNS = `p.id, p.org_id AS "orgId", p.name, p.slug, p.description, p.type, p.has_delete_protection AS "hasDeleteProtection",
  p.audit_retention_days AS "auditRetentionDays", p.version_limit AS "versionLimit", p.created_at AS "createdAt", p.updated_at AS "updatedAt",
  (SELECT coalesce(json_agg(json_build_object('id', e.id, 'name', e.name, 'slug', e.slug) ORDER BY e.position, e.id), '[]') FROM environments e WHERE e.project_id = p.id) AS environments`;

const byId = sql<ProjectRow>(`SELECT ${COLUMNS} FROM projects p WHERE p.org_id = $1 AND p.id = $2`);
const bySlug = sql<ProjectRow>(`SELECT ${COLUMNS} FROM projects p WHERE p.org_id = $1 AND p.slug = $2`);
const ofIdentity = sql<ProjectRow>(`
  SELECT ${COLUMNS} FROM projects p JOIN memberships m ON m.project_id = p.id
  WHERE p.org_id = $1 AND m.identity_id = $2 AND ($3::text IS NULL OR p.type = $3) ORDER BY p.created_at, p.id LIMIT 10000`);
const ofUser = sql<ProjectRow>(`
  SELECT ${COLUMNS} FROM projects p JOIN memberships m ON m.project_id = p.id
  WHERE p.org_id = $1 AND m.user_id = $2 AND ($3::text IS NULL OR p.type = $3) ORDER BY p.created_at, p.id LIMIT 10000`);
const insert = sql(`
  INSERT INTO projects (id, org_id, name, slug, description, type, has_delete_protection, created_at, updated_at)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8)`);
const update = sql<{ id: string }>(`
  UPDATE projects SET name = coalesce($2, name), slug = coalesce($3, slug), description = CASE WHEN $4 THEN $5 ELSE description END,
    has_delete_protection = coalesce($6, has_delete_protection), version_limit = CASE WHEN $7 THEN $8 ELSE version_limit END,
    audit_retention_days = coalesce($9, audit_retention_days), updated_at = $10
  WHERE id = $1 RETURNING id`);
const remove = sql<{ id: string }>(
  `DELETE FROM projects WHERE id = $1 AND NOT has_delete_protection RETURNING id`,
);

/** A slug never looks like an id, so one query is enough. */
export const findProject = (q: Query, orgId: string, ref: string) =>
  q.first(isUuid(ref) ? byId : bySlug, [orgId, ref]);
export const listProjectsOf = (
  q: Query,
  orgId: string,
  actor: { kind: "identity" | "user"; id: string },
  type: string | undefined,
) => q.rows(actor.kind === "identity" ? ofIdentity : ofUser, [orgId, actor.id, type ?? null]);

interface NewProjectRow {
  readonly id: string;
  readonly orgId: string;
  readonly name: string;
  readonly slug: string;
  readonly description: string | null;
  readonly type: string;
  readonly hasDeleteProtection: boolean;
  readonly at: Date;
}

export const countProjects = counterOf("projects WHERE org_id = $1");
export const insertProject = (tx: Tx, row: NewProjectRow) =>
  tx.rows(insert, [
    row.id,
    row.orgId,
    row.name,
    row.slug,
    row.description,
    row.type,
    row.hasDeleteProtection,
    row.at,
  ]);

export interface ProjectPatch {
  readonly name?: string | undefined;
  readonly slug?: string | undefined;
  readonly description?: string | null | undefined;
  readonly hasDeleteProtection?: boolean | undefined;
  readonly versionLimit?: number | null | undefined;
  readonly auditRetentionDays?: number | undefined;
}

export const updateProject = (tx: Tx, id: string, patch: ProjectPatch, at: Date) =>
  tx.first(update, [
    id,
    patch.name ?? null,
    patch.slug ?? null,
    patch.description !== undefined,
    patch.description ?? null,
    patch.hasDeleteProtection ?? null,
    patch.versionLimit !== undefined,
    patch.versionLimit ?? null,
    patch.auditRetentionDays ?? null,
    at,
  ]);
export const deleteProject = (tx: Tx, id: string) => tx.first(remove, [id]);
