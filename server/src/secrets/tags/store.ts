import { slowSql, sql, type Query, type SlowQuery, type Tx } from "../../platform/db/index.ts";
import type { SecretRow } from "../model.ts";
import { CHUNK_ROWS, chunkOf, inChunk, NIL, SECRET_COLUMNS } from "../store.ts";

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
const count = sql<{ count: number }>(`SELECT count(*) AS count FROM tags WHERE project_id = $1`);
const update = sql<TagRow>(`
  UPDATE tags SET slug = coalesce($3, slug), name = coalesce($4, name), color = coalesce($5, color), updated_at = $6
  WHERE project_id = $1 AND id = $2 RETURNING ${COLUMNS}`);
const remove = sql<TagRow>(`DELETE FROM tags WHERE project_id = $1 AND id = $2 RETURNING ${COLUMNS}`);

/** A version that carries a tag, and where its secret is, or was last. */
export interface TaggedVersion {
  readonly secretId: string;
  readonly version: number;
  readonly key: string;
  readonly tagIds: readonly string[];
  readonly environment: string;
  readonly path: string;
}
// The newest version of a living secret is in its history too, so the history is all there is to look at.
const carriers = slowSql<TaggedVersion>(`
  SELECT v.secret_id AS "secretId", v.version, v.key, v.tag_ids AS "tagIds", e.slug AS environment, h.path
  FROM (SELECT DISTINCT folder_id FROM folder_history WHERE project_id = $1) o
    JOIN secret_versions v ON v.folder_id = o.folder_id
    CROSS JOIN LATERAL (
      SELECT n.folder_id FROM secret_versions n WHERE n.secret_id = v.secret_id ORDER BY n.version DESC LIMIT 1) l
    CROSS JOIN LATERAL (
      SELECT p.environment_id, p.path FROM folder_history p WHERE p.folder_id = l.folder_id
      ORDER BY p.from_at DESC, p.to_at DESC NULLS FIRST LIMIT 1) h
    JOIN environments e ON e.id = h.environment_id
  WHERE v.owner_id IS NULL AND v.tag_ids @> ARRAY[$2]::uuid[] AND (v.secret_id, v.version) > ($3::uuid, $4::integer)
  ORDER BY v.secret_id, v.version LIMIT $5`);

/** A secret that carries a tag, in its folder. */
export interface TaggedSecret extends SecretRow {
  readonly projectId: string;
  readonly environmentId: string;
  readonly environment: string;
  readonly path: string;
}
const WITH_TAG = `SELECT * FROM secrets WHERE project_id = $1 AND tag_ids <> '{}' AND tag_ids @> ARRAY[$2]::uuid[] AND id > $3
  ORDER BY id LIMIT ${CHUNK_ROWS}`;
const tagged = sql<TaggedSecret>(`
  SELECT ${SECRET_COLUMNS}, f.project_id AS "projectId", f.environment_id AS "environmentId", e.slug AS environment, f.path
  FROM ${chunkOf(WITH_TAG, "n.id")} s JOIN folders f ON f.id = s.folder_id JOIN environments e ON e.id = f.environment_id
  WHERE ${inChunk("s")} ORDER BY s.id`);

export const tagsOfProject = (q: Query, projectId: string) => q.rows(all, [projectId]);
export const findTags = (q: Query, projectId: string, ids: readonly string[]) =>
  q.rows(byIds, [projectId, ids]);
export const findTag = (q: Query, projectId: string, id: string) => q.first(byId, [projectId, id]);
export const findTagBySlug = (q: Query, projectId: string, slug: string) =>
  q.first(bySlug, [projectId, slug]);
export const countTags = async (q: Query, projectId: string): Promise<number> =>
  (await q.first(count, [projectId]))?.count ?? 0;
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

/** So many at once. */
export const PAGE = 1000;

export const versionsWithTag = (
  q: SlowQuery,
  tag: { projectId: string; id: string },
  after: { secretId: string; version: number } | undefined,
) => q.rows(carriers, [tag.projectId, tag.id, after?.secretId ?? NIL, after?.version ?? 0, PAGE]);
/** The next shared secrets and overrides with a tag; the caller holds the exclusive lock on the tree. */
export const nextTagged = (
  tx: Tx,
  tag: { projectId: string; id: string },
  after: { id: string } | undefined,
) => tx.rows(tagged, [tag.projectId, tag.id, after?.id ?? NIL]);
