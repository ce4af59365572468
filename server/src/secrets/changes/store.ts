import { sql, type Query, type Tx } from "../../platform/db/index.ts";
import type { StoredState } from "../model.ts";

/** One row to be written, in `secrets` and in the history. */
export interface NewVersion {
  readonly id: string;
  readonly folderId: string;
  readonly key: string;
  readonly ownerId: string | null;
  readonly version: number;
  readonly change: "create" | "update" | "delete";
  readonly createdAt: Date;
  readonly state: StoredState | null;
  readonly keyId: string;
  readonly tagIds: readonly string[];
}

// Columns travel as arrays: one statement whether one secret changes or five thousand. Arrays of arrays cannot, so
// tags come as array literals in text.
const COLUMNS = `id, folder_id, key, owner_id, version, key_id, value, comment, metadata, tag_ids, skip_multiline, reminder_note, reminder_days`;
const SOURCE = `
  SELECT n.id, n.folder_id, n.key, n.owner_id, n.version, n.key_id, n.value, n.comment, n.metadata::jsonb, n.tag_ids::uuid[], n.skip_multiline, n.reminder_note, n.reminder_days
  FROM unnest($3::uuid[], $4::uuid[], $5::text[], $6::uuid[], $7::integer[], $8::uuid[], $9::bytea[], $10::bytea[], $11::text[], $12::text[], $13::boolean[], $14::text[], $15::integer[])
    AS n (id, folder_id, key, owner_id, version, key_id, value, comment, metadata, tag_ids, skip_multiline, reminder_note, reminder_days)`;

const insert = sql(`
  INSERT INTO secrets (project_id, created_at, updated_at, ${COLUMNS})
  SELECT $1, x.created_at, $2, n.* FROM (${SOURCE}) n JOIN unnest($3::uuid[], $16::timestamptz[]) AS x (id, created_at) ON x.id = n.id`);
const update = sql(`
  UPDATE secrets s SET folder_id = n.folder_id, key = n.key, version = n.version, key_id = n.key_id, value = n.value, comment = n.comment,
    metadata = n.metadata, tag_ids = n.tag_ids, skip_multiline = n.skip_multiline, reminder_note = n.reminder_note,
    reminder_days = n.reminder_days, updated_at = $2
  FROM (${SOURCE}) n (${COLUMNS}) WHERE s.id = n.id AND s.project_id = $1`);
const remove = sql(`DELETE FROM secrets WHERE id = ANY($1::uuid[])`);
const insertHistory = sql(`
  INSERT INTO secret_versions (project_id, created_at, change, actor_type, actor_id, actor_name, secret_id, folder_id, key, owner_id, version,
    key_id, value, comment, metadata, tag_ids, skip_multiline, reminder_note, reminder_days)
  SELECT $1, $2, x.change, $17, $18, $19, n.* FROM (${SOURCE}) n JOIN unnest($3::uuid[], $16::text[]) AS x (id, change) ON x.id = n.id`);
const removeReferences = sql(`DELETE FROM secret_references WHERE secret_id = ANY($1::uuid[])`);
const insertReferences = sql(`
  INSERT INTO secret_references (project_id, secret_id, folder_id, secret_key, environment, path, key)
  SELECT $1, r.* FROM unnest($2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[]) AS r`);

const listed = (tagIds: readonly string[]): string => `{${tagIds.join(",")}}`;

const asArrays = (rows: readonly NewVersion[]): unknown[] => [
  rows.map((row) => row.id),
  rows.map((row) => row.folderId),
  rows.map((row) => row.key),
  rows.map((row) => row.ownerId),
  rows.map((row) => row.version),
  rows.map((row) => row.state?.keyId ?? row.keyId),
  rows.map((row) => row.state?.value ?? null),
  rows.map((row) => row.state?.comment ?? null),
  rows.map((row) => (row.state?.metadata ? JSON.stringify(row.state.metadata) : null)),
  rows.map((row) => listed(row.tagIds)),
  rows.map((row) => row.state?.skipMultiline ?? null),
  rows.map((row) => row.state?.reminderNote ?? null),
  rows.map((row) => row.state?.reminderDays ?? null),
];

export interface Writer {
  readonly projectId: string;
  readonly at: Date;
  readonly actor: { readonly kind: string; readonly id: string | null; readonly name: string };
}

/** Deletions first, so that a name can pass from one secret to another within one change. */
export function writeVersions(tx: Tx, writer: Writer, rows: readonly NewVersion[]): void {
  const { projectId, at, actor } = writer;
  const deleted = rows.filter((row) => row.change === "delete");
  const updated = rows.filter((row) => row.change === "update");
  const created = rows.filter((row) => row.change === "create");
  if (deleted.length > 0) tx.later(remove, [deleted.map((row) => row.id)]);
  if (updated.length > 0) tx.later(update, [projectId, at, ...asArrays(updated)]);
  if (created.length > 0)
    tx.later(insert, [projectId, at, ...asArrays(created), created.map((row) => row.createdAt)]);
  tx.later(insertHistory, [
    projectId,
    at,
    ...asArrays(rows),
    rows.map((row) => row.change),
    actor.kind,
    actor.id,
    actor.name,
  ]);
}

export interface NewReference {
  readonly secretId: string;
  readonly folderId: string;
  readonly secretKey: string;
  readonly environment: string | null;
  readonly path: string | null;
  readonly key: string;
}

export function writeReferences(
  tx: Tx,
  projectId: string,
  forgotten: readonly string[],
  rows: readonly NewReference[],
): void {
  if (forgotten.length > 0) tx.later(removeReferences, [forgotten]);
  if (rows.length === 0) return;
  tx.later(insertReferences, [
    projectId,
    rows.map((row) => row.secretId),
    rows.map((row) => row.folderId),
    rows.map((row) => row.secretKey),
    rows.map((row) => row.environment),
    rows.map((row) => row.path),
    rows.map((row) => row.key),
  ]);
}

export interface Dependant {
  readonly orgId: string;
  readonly projectId: string;
  readonly environmentId: string;
  readonly environment: string;
  readonly path: string;
}

// Which folders show something else once these keys of these folders change (a null key: any of them)? Through
// imports the same key is affected, through references the key whose value refers; to any depth, loops once.
const dependants = sql<Dependant>(`
  WITH RECURSIVE hit (environment_id, path, key) AS (
    SELECT e, p, k FROM unnest($1::uuid[], $2::text[], $3::text[]) AS s (e, p, k)
    UNION
    SELECT d.environment_id, d.path, d.key FROM hit h CROSS JOIN LATERAL (
      SELECT f.environment_id, f.path, h.key
      FROM secret_imports i JOIN folders f ON f.id = i.folder_id
      WHERE i.source_environment_id = h.environment_id AND i.source_path = h.path
      UNION ALL
      SELECT f.environment_id, f.path, r.secret_key
      FROM environments e JOIN secret_references r ON r.project_id = e.project_id AND r.environment = e.slug
        AND r.path = h.path AND (h.key IS NULL OR r.key = h.key)
        JOIN folders f ON f.id = r.folder_id
      WHERE e.id = h.environment_id
      UNION ALL
      SELECT o.environment_id, o.path, r.secret_key
      FROM folders o JOIN secret_references r ON r.folder_id = o.id AND r.environment IS NULL AND (h.key IS NULL OR r.key = h.key)
      WHERE o.environment_id = h.environment_id AND o.path = h.path) d)
  SELECT DISTINCT p.org_id AS "orgId", e.project_id AS "projectId", h.environment_id AS "environmentId", e.slug AS environment, h.path
  FROM hit h JOIN environments e ON e.id = h.environment_id JOIN projects p ON p.id = e.project_id`);

export interface Origin {
  readonly environmentId: string;
  readonly path: string;
  readonly key: string | null;
}

// Most folders are shown nowhere else, and this is cheap to know; the walk above is not.
const watched = sql<{ isWatched: boolean }>(`
  SELECT EXISTS (
    SELECT 1 FROM unnest($1::uuid[], $2::text[]) AS s (e, p) JOIN secret_imports i ON i.source_environment_id = s.e AND i.source_path = s.p
  ) OR EXISTS (
    SELECT 1 FROM unnest($1::uuid[], $2::text[]) AS s (e, p) JOIN environments v ON v.id = s.e
      JOIN secret_references r ON r.project_id = v.project_id AND r.environment = v.slug AND r.path = s.p
  ) AS "isWatched"`);

export async function findDependants(q: Query, origins: readonly Origin[]): Promise<Dependant[]> {
  const spots = new Map(origins.map((o) => [`${o.environmentId}:${o.path}`, o]));
  if (spots.size === 0) return [];
  const places = [...spots.values()];
  const probe = await q.first(watched, [places.map((o) => o.environmentId), places.map((o) => o.path)]);
  if (!probe?.isWatched) return [];
  return q.rows(dependants, [
    origins.map((o) => o.environmentId),
    origins.map((o) => o.path),
    origins.map((o) => o.key),
  ]);
}
