import { columnsOf, sql, type Query, type Statement, type Tx } from "../platform/db/index.ts";
import type { StoredState } from "./model.ts";

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
  readonly actor: { readonly kind: string; readonly id: string | null; readonly name: string };
  /** The index of its references stays as it is. */
  readonly keepsReferences?: boolean;
}

// Columns are sent as arrays: one statement whether one secret changes or five thousand. Arrays of arrays cannot be, so
// tags come as array literals in text.
const COLUMNS = `id, folder_id, key, owner_id, version, key_id, value, comment, metadata, tag_ids, skip_multiline, reminder_note, reminder_days`;
const SELECTED =
  "n.id, n.folder_id, n.key, n.owner_id, n.version, n.key_id, n.value, n.comment, n.metadata::jsonb, n.tag_ids::uuid[], n.skip_multiline, n.reminder_note, n.reminder_days";
const ARRAYS =
  "$3::uuid[], $4::uuid[], $5::text[], $6::uuid[], $7::integer[], $8::uuid[], $9::bytea[], $10::bytea[], $11::text[], $12::text[], $13::boolean[], $14::text[], $15::integer[]";

const insert = sql(`
  INSERT INTO secrets (project_id, updated_at, ${COLUMNS}, created_at)
  SELECT $1, $2, ${SELECTED}, n.created_at FROM unnest(${ARRAYS}, $16::timestamptz[]) AS n (${COLUMNS}, created_at)`);
const update = sql(`
  UPDATE secrets s SET folder_id = n.folder_id, key = n.key, version = n.version, key_id = n.key_id, value = n.value, comment = n.comment,
    metadata = n.metadata::jsonb, tag_ids = n.tag_ids::uuid[], skip_multiline = n.skip_multiline, reminder_note = n.reminder_note,
    reminder_days = n.reminder_days, updated_at = $2
  FROM unnest(${ARRAYS}) AS n (${COLUMNS}) WHERE s.id = n.id AND s.project_id = $1`);
const remove = sql(`DELETE FROM secrets WHERE id = ANY($1::uuid[])`);
const HISTORY = `
  INSERT INTO secret_versions (project_id, created_at, secret_id, folder_id, key, owner_id, version, key_id, value, comment, metadata, tag_ids,
    skip_multiline, reminder_note, reminder_days, change, actor_type, actor_id, actor_name)`;
const insertHistory = sql(`
  ${HISTORY}
  SELECT $1, $2, ${SELECTED}, n.change, n.actor_type, n.actor_id, n.actor_name
  FROM unnest(${ARRAYS}, $16::text[], $17::text[], $18::uuid[], $19::text[]) AS n (${COLUMNS}, change, actor_type, actor_id, actor_name)`);
// Nearly every write changes one secret: plain values, into the table and the history at once.
const ONE = "$3, $4, $5, $6, $7, $8, $9, $10, $11, $12::uuid[], $13, $14, $15";
const HISTORY_OF_ONE = `${HISTORY} VALUES ($1, $2, ${ONE}, $16, $17, $18, $19)`;
const insertOne = sql(`
  WITH made AS (INSERT INTO secrets (project_id, updated_at, ${COLUMNS}, created_at) VALUES ($1, $2, ${ONE}, $20))
  ${HISTORY_OF_ONE}`);
const updateOne = sql(`
  WITH changed AS (
    UPDATE secrets SET folder_id = $4, key = $5, version = $7, key_id = $8, value = $9, comment = $10, metadata = $11, tag_ids = $12,
      skip_multiline = $13, reminder_note = $14, reminder_days = $15, updated_at = $2
    WHERE id = $3 AND project_id = $1
  ), forgotten AS (DELETE FROM secret_references WHERE secret_id = $3)
  ${HISTORY_OF_ONE}`);
const removeReferences = sql(`DELETE FROM secret_references WHERE secret_id = ANY($1::uuid[])`);
const insertReferences = sql(`
  INSERT INTO secret_references (project_id, secret_id, folder_id, secret_key, environment, path, key)
  SELECT $1, r.* FROM unnest($2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[]) AS r`);

const asValues = (row: NewVersion): unknown[] => [
  row.id,
  row.folderId,
  row.key,
  row.ownerId,
  row.version,
  row.state?.keyId ?? row.keyId,
  row.state?.value ?? null,
  row.state?.comment ?? null,
  row.state?.metadata ? JSON.stringify(row.state.metadata) : null,
  `{${row.tagIds.join(",")}}`,
  row.state?.skipMultiline ?? null,
  row.state?.reminderNote ?? null,
  row.state?.reminderDays ?? null,
];
const actorOf = ({ change, actor }: NewVersion): unknown[] => [change, actor.kind, actor.id, actor.name];

interface Writer {
  readonly projectId: string;
  readonly at: Date;
  /** Too large to be sent with the commit. */
  readonly isMuch?: boolean;
}

/**
 * What becomes of each secret when several versions of it are written at once: only the last one stays in the table.
 * One that is created and deleted within the same write leaves nothing.
 */
function netEffect(rows: readonly NewVersion[]) {
  const first = new Map<string, NewVersion>();
  const last = new Map<string, NewVersion>();
  for (const row of rows) {
    if (!first.has(row.id)) first.set(row.id, row);
    last.set(row.id, row);
  }
  const final = [...last.values()];
  const isNew = (row: NewVersion) => first.get(row.id)?.change === "create";
  return {
    deleted: final.filter((row) => row.change === "delete" && !isNew(row)),
    updated: final.filter((row) => row.change !== "delete" && !isNew(row)),
    created: final.filter((row) => row.change !== "delete" && isNew(row)),
  };
}

/**
 * The driver serialises a statement's values in one go, which blocks the event loop: many rows, or large ones, are sent in
 * several statements, one after the other.
 */
const PORTION_ROWS = 250;
const PORTION_BYTES = 256 * 1024;
export const bytesOf = ({ key, state }: Pick<NewVersion, "key" | "state">): number =>
  key.length +
  (state?.value.length ?? 0) +
  (state?.comment?.length ?? 0) +
  (state?.metadata ?? []).reduce((sum, one) => sum + JSON.stringify(one).length, 0);

export function inPortions<T>(rows: readonly T[], weightOf: (row: T) => number): T[][] {
  const portions: T[][] = [];
  let bytes = 0;
  for (const row of rows) {
    const weight = weightOf(row);
    const open = portions.at(-1);
    if (open && open.length < PORTION_ROWS && bytes + weight <= PORTION_BYTES) {
      open.push(row);
      bytes += weight;
    } else {
      portions.push([row]);
      bytes = weight;
    }
  }
  return portions;
}

/** Small writes are sent with the commit. Never both: what is sent now would overtake what waits. */
async function send<T>(
  tx: Tx,
  statement: Statement<unknown>,
  portions: readonly (readonly T[])[],
  { isMuch, valuesOf }: { isMuch: boolean; valuesOf: (portion: readonly T[]) => readonly unknown[] },
): Promise<void> {
  for (const portion of portions) {
    if (isMuch) await tx.rows(statement, valuesOf(portion));
    else tx.defer(statement, valuesOf(portion));
  }
}

/** More than may be sent with the commit. */
export const isMuch = (rows: readonly NewVersion[], references: readonly NewReference[]): boolean =>
  references.length > PORTION_ROWS ||
  rows.length > PORTION_ROWS ||
  rows.reduce((sum, row) => sum + bytesOf(row), 0) > PORTION_BYTES;

/**
 * Deletions first, so that a name can pass from one secret to another within one change. What a changed secret's old
 * value referred to is removed here; `writeReferences` adds what the new one refers to.
 */
export async function writeVersions(
  tx: Tx,
  { projectId, at, isMuch: isNow = false }: Writer,
  rows: readonly NewVersion[],
): Promise<void> {
  const [row] = rows;
  if (row && rows.length === 1 && row.change !== "delete" && !row.keepsReferences && !isNow) {
    const values = [projectId, at, ...asValues(row), ...actorOf(row)];
    if (row.change === "create") tx.defer(insertOne, [...values, row.createdAt]);
    else tx.defer(updateOne, values);
    return;
  }
  const { deleted, updated, created } = netEffect(rows);
  const put = (
    statement: Statement<unknown>,
    list: readonly NewVersion[],
    valuesOf: (portion: readonly NewVersion[]) => readonly unknown[],
  ) => send(tx, statement, inPortions(list, bytesOf), { isMuch: isNow, valuesOf });
  const idsOf = (list: readonly NewVersion[]) => [list.map((one) => one.id)];
  const parametersOf = (list: readonly unknown[][]) => [projectId, at, ...columnsOf(list)];
  await put(remove, deleted, idsOf);
  await put(update, updated, (part) => parametersOf(part.map(asValues)));
  await put(
    removeReferences,
    updated.filter((one) => !one.keepsReferences),
    idsOf,
  );
  await put(insert, created, (part) => parametersOf(part.map((one) => [...asValues(one), one.createdAt])));
  await put(insertHistory, rows, (part) =>
    parametersOf(part.map((one) => [...asValues(one), ...actorOf(one)])),
  );
}

export interface NewReference {
  readonly secretId: string;
  readonly folderId: string;
  readonly secretKey: string;
  readonly environment: string | null;
  readonly path: string | null;
  readonly key: string;
}

const letters = ({ secretKey, path, key }: NewReference): number =>
  secretKey.length + (path?.length ?? 0) + key.length;

export const writeReferences = (
  tx: Tx,
  { projectId, isMuch: isNow = false }: Writer,
  rows: readonly NewReference[],
): Promise<void> =>
  send(tx, insertReferences, inPortions(rows, letters), {
    isMuch: isNow,
    valuesOf: (part) => [
      projectId,
      part.map((row) => row.secretId),
      part.map((row) => row.folderId),
      part.map((row) => row.secretKey),
      part.map((row) => row.environment),
      part.map((row) => row.path),
      part.map((row) => row.key),
    ],
  });

export interface Dependant {
  readonly orgId: string;
  readonly projectId: string;
  readonly environmentId: string;
  readonly environment: string;
  readonly path: string;
}

// Which folders show something else once these keys of these folders change (a null key: any of them)? Through
// imports the same key is affected, through references the key whose value refers; to any depth, cycles once.
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

// Most folders are imported nowhere, and that is cheap to check; the walk above is not.
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
