import { newId } from "../../platform/ids.ts";
import { sql, type Query, type Tx } from "../../platform/db/index.ts";

export interface EnvironmentRow {
  readonly id: string;
  readonly projectId: string;
  readonly name: string;
  readonly slug: string;
  readonly position: number;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

const COLUMNS = `id, project_id AS "projectId", name, slug, position, created_at AS "createdAt", updated_at AS "updatedAt"`;
const insert = sql<EnvironmentRow>(`
  INSERT INTO environments (id, project_id, name, slug, position, created_at, updated_at)
  VALUES ($1, $2, $3, $4, coalesce($5, (SELECT coalesce(max(position), 0) + 1 FROM environments WHERE project_id = $2)), $6, $6)
  RETURNING ${COLUMNS}`);
const insertDefaults = sql(`
  INSERT INTO environments (id, project_id, name, slug, position, created_at, updated_at)
  SELECT d.id, $1, d.name, d.slug, d.position, $2, $2
  FROM unnest($3::uuid[], ARRAY['Development', 'Staging', 'Production'], ARRAY['dev', 'staging', 'prod'], ARRAY[1, 2, 3]) AS d (id, name, slug, position)`);
const count = sql<{ count: number }>(`SELECT count(*) AS count FROM environments WHERE project_id = $1`);
const makeRoom = sql(
  `UPDATE environments SET position = position + 1 WHERE project_id = $1 AND position >= $2`,
);
const update = sql<EnvironmentRow>(`
  UPDATE environments SET name = coalesce($2, name), slug = coalesce($3, slug), position = coalesce($4, position), updated_at = $5
  WHERE id = $1 AND slug = $6 RETURNING ${COLUMNS}`);
const remove = sql<EnvironmentRow>(
  `DELETE FROM environments WHERE id = $1 AND slug = $2 RETURNING ${COLUMNS}`,
);
const byId = sql<EnvironmentRow>(`SELECT ${COLUMNS} FROM environments WHERE id = $2 AND project_id = $1`);
const bySlug = sql<EnvironmentRow>(`SELECT ${COLUMNS} FROM environments WHERE project_id = $1 AND slug = $2`);
const byIdInOrg = sql<EnvironmentRow>(`
  SELECT ${COLUMNS} FROM environments WHERE id = $2 AND project_id IN (SELECT p.id FROM projects p WHERE p.org_id = $1)`);

export const countEnvironments = async (q: Query, projectId: string): Promise<number> =>
  (await q.first(count, [projectId]))?.count ?? 0;
export const insertDefaultEnvironments = (tx: Tx, projectId: string, at: Date) =>
  tx.rows(insertDefaults, [projectId, at, [newId(), newId(), newId()]]);
export const insertEnvironment = (
  tx: Tx,
  row: { id: string; projectId: string; name: string; slug: string; position: number | undefined; at: Date },
) => tx.first(insert, [row.id, row.projectId, row.name, row.slug, row.position ?? null, row.at]);
export const makeRoomAt = (tx: Tx, projectId: string, position: number) =>
  tx.rows(makeRoom, [projectId, position]);
/** Only while it still has the slug that the rights were checked with. */
export const updateEnvironment = (
  tx: Tx,
  before: Pick<EnvironmentRow, "id" | "slug">,
  patch: { name?: string | undefined; slug?: string | undefined; position?: number | undefined },
  at: Date,
) =>
  tx.first(update, [
    before.id,
    patch.name ?? null,
    patch.slug ?? null,
    patch.position ?? null,
    at,
    before.slug,
  ]);
export const deleteEnvironment = (tx: Tx, before: Pick<EnvironmentRow, "id" | "slug">) =>
  tx.first(remove, [before.id, before.slug]);
export const findEnvironment = (q: Query, projectId: string, id: string) => q.first(byId, [projectId, id]);
export const findEnvironmentBySlug = (q: Query, projectId: string, slug: string) =>
  q.first(bySlug, [projectId, slug]);
export const findEnvironmentInOrg = (q: Query, orgId: string, id: string) => q.first(byIdInOrg, [orgId, id]);
