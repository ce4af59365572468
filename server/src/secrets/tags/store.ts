import { sql, type Query, type Tx } from "../../platform/db/index.ts";

export interface TagRow {
  readonly id: string;
  readonly projectId: string;
  readonly slug: string;
  readonly name: string;
  readonly color: string;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

const COLUMNS = `id, project_id AS "projectId", slug, name, color, created_at AS "createdAt", updated_at AS "updatedAt"`;
const all = sql<TagRow>(`SELECT ${COLUMNS} FROM tags WHERE project_id = $1 ORDER BY slug LIMIT 10000`);
const byId = sql<TagRow>(`SELECT ${COLUMNS} FROM tags WHERE project_id = $1 AND id = $2`);
const bySlug = sql<TagRow>(`SELECT ${COLUMNS} FROM tags WHERE project_id = $1 AND slug = $2`);
const byIds = sql<TagRow>(`SELECT ${COLUMNS} FROM tags WHERE project_id = $1 AND id = ANY($2::uuid[])`);
const insert = sql<TagRow>(`
  INSERT INTO tags (id, project_id, slug, name, color, created_at, updated_at)
  VALUES ($1, $2, $3, $4, $5, $6, $6) RETURNING ${COLUMNS}`);
const update = sql<TagRow>(`
  UPDATE tags SET slug = coalesce($3, slug), name = coalesce($4, name), color = coalesce($5, color), updated_at = $6
  WHERE project_id = $1 AND id = $2 RETURNING ${COLUMNS}`);
const remove = sql<TagRow>(`DELETE FROM tags WHERE project_id = $1 AND id = $2 RETURNING ${COLUMNS}`);
const untag = sql(`
  UPDATE secrets SET tag_ids = array_remove(tag_ids, $2)
  WHERE project_id = $1 AND tag_ids <> '{}' AND tag_ids @> ARRAY[$2]::uuid[]`);

export const tagsOfProject = (q: Query, projectId: string) => q.rows(all, [projectId]);
export const findTags = (q: Query, projectId: string, ids: readonly string[]) =>
  q.rows(byIds, [projectId, ids]);
export const findTag = (q: Query, projectId: string, id: string) => q.first(byId, [projectId, id]);
export const findTagBySlug = (q: Query, projectId: string, slug: string) =>
  q.first(bySlug, [projectId, slug]);
export const insertTag = (
  tx: Tx,
  row: { id: string; projectId: string; slug: string; name: string; color: string; at: Date },
) => tx.first(insert, [row.id, row.projectId, row.slug, row.name, row.color, row.at]);
export const updateTag = (
  tx: Tx,
  tag: { projectId: string; id: string },
  patch: { slug?: string | undefined; name?: string | undefined; color?: string | undefined },
  at: Date,
) =>
  tx.first(update, [tag.projectId, tag.id, patch.slug ?? null, patch.name ?? null, patch.color ?? null, at]);
export const deleteTag = (tx: Tx, projectId: string, id: string) => tx.first(remove, [projectId, id]);
export const untagSecrets = (tx: Tx, projectId: string, id: string) => tx.rows(untag, [projectId, id]);
