import { slowSql, sql, type SlowQuery, type Tx } from "../platform/db/index.ts";
import { bytesOf, inPortions, type StoredState, NIL } from "../secrets/index.ts";
import { VERSION_COLUMNS, type VersionRow } from "../secret-versions/index.ts";

/** What a secret or a version takes in a file, whatever is in it. */
export const LEAST_LETTERS = 150;
/** So many versions are loaded at once: what comes in one answer is read in one stretch. */
export const PAGE = 500;

const older = slowSql<VersionRow>(`
  SELECT ${VERSION_COLUMNS}, v.original_at AS "originalAt"
  FROM secrets s JOIN secret_versions v ON v.secret_id = s.id AND v.version < s.version
  WHERE s.id = ANY($1::uuid[]) AND (v.secret_id, v.version) > ($2::uuid, $3::integer)
  ORDER BY v.secret_id, v.version LIMIT ${PAGE}`);
const olderWeight = slowSql<{ weight: number }>(`
  SELECT coalesce(sum(${LEAST_LETTERS} + coalesce(octet_length(v.value), 0)), 0) AS weight
  FROM secrets s JOIN secret_versions v ON v.secret_id = s.id AND v.version < s.version WHERE s.id = ANY($1::uuid[])`);
const insertOlder = sql(`
  INSERT INTO secret_versions (project_id, folder_id, created_at, actor_type, secret_id, version, change, key, key_id, value, comment, metadata,
    tag_ids, skip_multiline, reminder_note, reminder_days, original_at, actor_name)
  SELECT $1, $2, $3, 'imported', n.secret_id, n.version, n.change, n.key, n.key_id, n.value, n.comment, n.metadata::jsonb,
    n.tag_ids::uuid[], n.skip_multiline, n.reminder_note, n.reminder_days, n.original_at, n.actor_name
  FROM unnest($4::uuid[], $5::integer[], $6::text[], $7::text[], $8::uuid[], $9::bytea[], $10::bytea[], $11::text[], $12::text[], $13::boolean[],
    $14::text[], $15::integer[], $16::timestamptz[], $17::text[])
    AS n (secret_id, version, change, key, key_id, value, comment, metadata, tag_ids, skip_multiline, reminder_note, reminder_days, original_at, actor_name)`);

/** How much they take, before any is loaded. */
export const weighOlder = async (q: SlowQuery, secretIds: readonly string[]): Promise<number> =>
  (await q.first(olderWeight, [secretIds]))?.weight ?? 0;
/** The next versions of these secrets, without the newest of each, oldest first. */
export const olderVersions = (
  q: SlowQuery,
  secretIds: readonly string[],
  after: { readonly id: string; readonly version: number } | undefined,
) => q.rows(older, [secretIds, after?.id ?? NIL, after?.version ?? 0]);

export interface OlderVersion {
  readonly secretId: string;
  readonly version: number;
  readonly change: string;
  readonly key: string;
  readonly keyId: string;
  /** Null where the secret was deleted. */
  readonly state: StoredState | null;
  readonly at: Date;
  readonly by: string;
}

/**
 * History that came in a file. For rollbacks here it was written now (before, this folder did not have these secrets);
 * when and by whom it was written there is kept beside it, and nobody's id: a name in a file proves nothing.
 */
export async function writeOlderVersions(
  tx: Tx,
  place: VersionPlace,
  rows: readonly OlderVersion[],
): Promise<void> {
  for (const portion of inPortions(rows, bytesOf)) await tx.rows(insertOlder, valuesOf(place, portion));
}

interface VersionPlace {
  readonly projectId: string;
  readonly folderId: string;
  readonly at: Date;
}

const valuesOf = (place: VersionPlace, rows: readonly OlderVersion[]): unknown[] => [
  place.projectId,
  place.folderId,
  place.at,
  rows.map((row) => row.secretId),
  rows.map((row) => row.version),
  rows.map((row) => row.change),
  rows.map((row) => row.key),
  rows.map((row) => row.keyId),
  rows.map((row) => row.state?.value ?? null),
  rows.map((row) => row.state?.comment ?? null),
  rows.map((row) => (row.state?.metadata ? JSON.stringify(row.state.metadata) : null)),
  rows.map((row) => `{${row.state?.tagIds.join(",") ?? ""}}`),
  rows.map((row) => row.state?.skipMultiline ?? null),
  rows.map((row) => row.state?.reminderNote ?? null),
  rows.map((row) => row.state?.reminderDays ?? null),
  rows.map((row) => row.at),
  rows.map((row) => row.by),
];
