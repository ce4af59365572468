import { slowSql, sql, type Query, type SlowQuery, type Tx } from "../platform/db/index.ts";
import {
  MAX_ANSWER_BYTES,
  MIN_WEIGHT,
  type FolderPlace,
  type SecretHead,
  type SecretRow,
  type Weighed,
} from "./model.ts";
import { revisionOf } from "./revisions.store.ts";

const PLAIN_COLUMNS = `s.id, s.folder_id AS "folderId", s.key, s.owner_id AS "ownerId", s.version, s.key_id AS "keyId",
  s.tag_ids AS "tagIds", s.skip_multiline AS "skipMultiline", s.reminder_note AS "reminderNote",
  s.reminder_days AS "reminderDays", s.created_at AS "createdAt", s.updated_at AS "updatedAt"`;
export const NIL = "00000000-0000-0000-0000-000000000000";
export const SECRET_COLUMNS = `${PLAIN_COLUMNS}, s.value, s.comment, s.metadata`;

/**
 * The same where any number of rows may come: what is beyond the room stays in the database, which knows the sizes
 * without reading the values. `over` says which rows are weighed together: "" for all or nothing, an order for as many
 * as fit. Values that nobody wants weigh nothing and are not loaded either; a name always weighs something.
 */
export function weighedColumns(room: string, wantsValue: string, over = ""): string {
  const weight = `(${MIN_WEIGHT} + CASE WHEN ${wantsValue} THEN octet_length(s.value) ELSE 0 END + coalesce(octet_length(s.comment), 0)
    + coalesce(octet_length(s.metadata::text), 0))`;
  const fits = `sum(${weight}) OVER (${over}) <= ${room}`;
  return `${PLAIN_COLUMNS}, ${weight} AS weight, coalesce(NOT ${fits}, false) AS "isLeftOut",
    CASE WHEN ${fits} AND ${wantsValue} THEN s.value END AS value,
    CASE WHEN ${fits} THEN s.comment END AS comment, CASE WHEN ${fits} THEN s.metadata END AS metadata`;
}

/** A row of a read: the folder exists, the secret may not. */
interface FoundSecret extends SecretRow {
  readonly foundFolderId: string;
  readonly path: string;
  readonly hasImports: boolean;
  readonly revision: string;
}
export type FoundFolder = FoundSecret | (Omit<FoundSecret, keyof SecretRow> & { readonly id: null });
export type ListedFolder = FoundFolder & Weighed;

// The revision and the rows come from one statement, hence from one snapshot: an ETag is never newer than its content.
const folderWhere = (condition: string, revision: string): string => `
  (SELECT f.id, f.path, EXISTS (SELECT 1 FROM secret_imports i WHERE i.folder_id = f.id) AS has_imports, ${revisionOf(revision)} AS revision
   FROM folders f WHERE f.environment_id = $1 AND ${condition} OFFSET 0) f`;
const FOUND = `f.id AS "foundFolderId", f.path, f.has_imports AS "hasImports", f.revision`;
const READ = `SELECT ${FOUND}, ${SECRET_COLUMNS} FROM`;
/**
 * Most lists are short and are read on the shared pipelines; for a long one such a read only answers that it is long. It is
 * then read again in the organisation's turn, on a connection where it delays nobody.
 */
export const QUICK_ROWS = 1000;
export const QUICK_BYTES = 512 * 1024;
/** `from` gives rows as `LISTED` names them; at most $7 of them are read, with values of up to $6 bytes. */
const LISTED = `f.id AS found_id, f.path AS found_path, f.has_imports AS found_imports, f.revision AS found_revision, s.*`;
const listOf = (from: string, order: string): string => `
  SELECT s.found_id AS "foundFolderId", s.found_path AS path, s.found_imports AS "hasImports", s.found_revision AS revision,
    ${weighedColumns("$6::bigint", "$5::boolean")}
  FROM (SELECT ${LISTED} FROM ${from} LIMIT $7::bigint) s ORDER BY ${order} s.key, s.owner_id NULLS FIRST`;
const one = sql<FoundFolder>(`
  ${READ} ${folderWhere("f.path = $2", "$4")}
    LEFT JOIN secrets s ON s.folder_id = f.id AND s.key = $3 AND s.owner_id IS NOT DISTINCT FROM $5::uuid`);
const OWN = "s.folder_id = f.id AND (s.owner_id IS NULL OR s.owner_id = $4::uuid)";
const OF_FOLDER = listOf(`${folderWhere("f.path = $2", "$3")} LEFT JOIN secrets s ON ${OWN}`, "");
const OF_TREE = listOf(
  `${folderWhere("(f.path = $2 OR f.path ~>=~ $8 AND f.path ~<~ $9)", "$3")} LEFT JOIN secrets s ON ${OWN}`,
  "s.found_path,",
);
const OF_NAMES = listOf(
  `${folderWhere("f.path = $2", "$3")} LEFT JOIN secrets s ON ${OWN} AND s.key = ANY($8::text[])`,
  "",
);
const QUICK_LISTS = {
  folder: sql<ListedFolder>(OF_FOLDER),
  tree: sql<ListedFolder>(OF_TREE),
  names: sql<ListedFolder>(OF_NAMES),
};
const LARGE_LISTS = {
  folder: slowSql<ListedFolder>(OF_FOLDER),
  tree: slowSql<ListedFolder>(OF_TREE),
  names: slowSql<ListedFolder>(OF_NAMES),
};
const byId = sql<
  SecretRow & { orgId: string; projectId: string; environmentId: string; environment: string; path: string }
>(`
  SELECT p.org_id AS "orgId", f.project_id AS "projectId", f.environment_id AS "environmentId", e.slug AS environment, f.path, ${SECRET_COLUMNS}
  FROM secrets s JOIN folders f ON f.id = s.folder_id JOIN environments e ON e.id = f.environment_id JOIN projects p ON p.id = f.project_id
  WHERE s.id = $1 AND p.org_id = $2`);
const lockShared = sql(`SELECT pg_advisory_xact_lock_shared(project_lock_key($1))`);
const lockAlone = sql(`SELECT pg_advisory_xact_lock(project_lock_key($1))`);
const folderAt = sql<FolderPlace>(`
  SELECT f.id, f.project_id AS "projectId", f.environment_id AS "environmentId", e.slug AS environment, f.path
  FROM folders f JOIN environments e ON e.id = f.environment_id WHERE f.environment_id = $1 AND f.path = $2`);
// What a writer reads first: the folder, and whether its secrets are imported elsewhere. Most folders are not.
export interface WatchedFolder extends FolderPlace {
  readonly isWatched: boolean;
}
const watchedFolder = sql<WatchedFolder>(`
  SELECT f.id, f.project_id AS "projectId", f.environment_id AS "environmentId", e.slug AS environment, f.path,
    EXISTS (SELECT 1 FROM secret_imports i WHERE i.source_environment_id = f.environment_id AND i.source_path = f.path)
    OR EXISTS (SELECT 1 FROM secret_references r WHERE r.project_id = f.project_id AND r.environment = e.slug AND r.path = f.path) AS "isWatched"
  FROM folders f JOIN environments e ON e.id = f.environment_id WHERE f.environment_id = $1 AND f.path = $2`);
// In the same order everywhere, so that two batches cannot deadlock.
const forUpdate = sql<SecretRow>(`
  SELECT ${SECRET_COLUMNS} FROM folders f JOIN secrets s ON s.folder_id = f.id
  WHERE f.environment_id = $1 AND f.path = $2 AND s.key = ANY($3::text[]) ORDER BY s.id FOR UPDATE OF s`);
const WEIGHT = `coalesce(sum(${MIN_WEIGHT} + octet_length(s.value) + coalesce(octet_length(s.comment), 0)), 0) AS weight`;
const weightOfKeys = sql<{ weight: number }>(`
  SELECT ${WEIGHT} FROM folders f JOIN secrets s ON s.folder_id = f.id
  WHERE f.environment_id = $1 AND f.path = $2 AND s.key = ANY($3::text[])`);
const weightOfFolders = sql<{ weight: number }>(
  `SELECT ${WEIGHT} FROM secrets s WHERE s.folder_id = ANY($1::uuid[])`,
);
const namesOfIds = sql<{ key: string }>(`
  SELECT s.key FROM folders f JOIN secrets s ON s.folder_id = f.id
  WHERE f.environment_id = $1 AND f.path = $2 AND s.id = ANY($3::uuid[]) AND s.owner_id IS NULL`);
const idsForUpdate = sql<SecretRow>(`
  SELECT ${SECRET_COLUMNS} FROM folders f JOIN secrets s ON s.folder_id = f.id
  WHERE f.environment_id = $1 AND f.path = $2 AND s.key IN
    (SELECT k.key FROM secrets k WHERE k.id = ANY($3::uuid[]) AND k.folder_id = f.id AND k.owner_id IS NULL)
  ORDER BY s.id FOR UPDATE OF s`);
const treeForUpdate = sql<SecretRow>(`
  SELECT ${SECRET_COLUMNS} FROM secrets s WHERE s.folder_id = ANY($1::uuid[]) ORDER BY s.id FOR UPDATE OF s`);
const headsForUpdate = sql<SecretHead>(`
  SELECT ${PLAIN_COLUMNS} FROM secrets s WHERE s.folder_id = ANY($1::uuid[]) ORDER BY s.id FOR UPDATE OF s`);

/** Rows, and about how many bytes, are decrypted and encrypted again at once, however many there are. */
export const CHUNK_ROWS = 1000;
const CHUNK_BYTES = 16 * 1024 * 1024;
/** What of these rows (a SELECT of whole rows, in this order) makes one chunk: at least one, if there is any. */
export const chunkOf = (rows: string, order: string): string => `(
  SELECT n.*, sum(octet_length(n.value)) OVER (ORDER BY ${order} ROWS UNBOUNDED PRECEDING) - octet_length(n.value) AS before
  FROM (${rows}) n)`;
export const inChunk = (rows: string): string => `coalesce(${rows}.before, 0) < ${CHUNK_BYTES}`;
const treeChunk = sql<SecretRow>(`
  SELECT ${SECRET_COLUMNS} FROM ${chunkOf(`SELECT * FROM secrets WHERE folder_id = ANY($1::uuid[]) AND id > $2 ORDER BY id LIMIT ${CHUNK_ROWS}`, "n.id")} s
  WHERE ${inChunk("s")} ORDER BY s.id`);

export const likeBelow = (path: string): string => (path === "/" ? "/%" : `${path.replace(/_/g, "\\_")}/%`);

/** The same as a range, byte by byte: an index can be asked for it whatever the path will be ("0" follows "/"). */
const rangeBelow = (path: string): [string, string] => {
  const bare = path === "/" ? "" : path;
  return [`${bare}/`, `${bare}0`];
};

export interface FolderAddress {
  readonly environmentId: string;
  readonly path: string;
}

export const readOne = (
  q: Query,
  at: FolderAddress,
  key: string,
  more: { projectId: string; ownerId: string | null },
) => q.first(one, [at.environmentId, at.path, key, more.projectId, more.ownerId]);
interface ListWish {
  readonly projectId: string;
  readonly ownerId: string | null;
  readonly recursive: boolean;
  readonly wantsValue: boolean;
  /** These names of the folder only. */
  readonly keys?: readonly string[] | undefined;
}

function listValues(at: FolderAddress, wish: ListWish, [bytes, rows]: readonly [number, number | null]) {
  const asked = [at.environmentId, at.path, wish.projectId, wish.ownerId, wish.wantsValue, bytes, rows];
  if (wish.keys) return { kind: "names", values: [...asked, wish.keys] } as const;
  if (wish.recursive) return { kind: "tree", values: [...asked, ...rangeBelow(at.path)] } as const;
  return { kind: "folder", values: asked } as const;
}

/** Undefined = it is a long one: read it with `readLargeFolder`. */
export const readFolder = async (
  q: Query,
  at: FolderAddress,
  wish: ListWish,
): Promise<ListedFolder[] | undefined> => {
  const { kind, values } = listValues(at, wish, [QUICK_BYTES, QUICK_ROWS + 1]);
  const rows = await q.rows(QUICK_LISTS[kind], values);
  return isQuick(rows) ? rows : undefined;
};
export const readLargeFolder = (q: SlowQuery, at: FolderAddress, wish: ListWish) => {
  const { kind, values } = listValues(at, wish, [MAX_ANSWER_BYTES, null]);
  return q.rows(LARGE_LISTS[kind], values);
};
/** The whole list was read, and it was short. */
export const isQuick = (rows: readonly Weighed[]): boolean =>
  rows.length <= QUICK_ROWS && !rows.some(({ isLeftOut }) => isLeftOut);
export const readById = (q: Query, id: string, orgId: string) => q.first(byId, [id, orgId]);

/** Taken before anything is read: no folder above the secrets moves until this write has ended. */
export const lockTree = (tx: Tx, projectId: string) => tx.rows(lockShared, [projectId]);
/** For changes of the tree itself. */
export const lockTreeAlone = (tx: Tx, projectId: string) => tx.rows(lockAlone, [projectId]);
export const findFolder = (q: Query, at: FolderAddress) => q.first(folderAt, [at.environmentId, at.path]);
export const findWatchedFolder = (q: Query, at: FolderAddress) =>
  q.first(watchedFolder, [at.environmentId, at.path]);
/** Shared secrets and everyone's overrides of these names. */
export const lockByKeys = (tx: Tx, at: FolderAddress, keys: readonly string[]) =>
  tx.rows(forUpdate, [at.environmentId, at.path, keys]);
export const lockByIds = (tx: Tx, at: FolderAddress, ids: readonly string[]) =>
  tx.rows(idsForUpdate, [at.environmentId, at.path, ids]);
/** What all secrets of these names take, everyone's overrides included. */
export const weighKeys = async (q: Query, at: FolderAddress, keys: readonly string[]): Promise<number> =>
  (await q.first(weightOfKeys, [at.environmentId, at.path, keys]))?.weight ?? 0;
export const weighFolders = async (q: Query, folderIds: readonly string[]): Promise<number> =>
  (await q.first(weightOfFolders, [folderIds]))?.weight ?? 0;
export const keysOfIds = async (q: Query, at: FolderAddress, ids: readonly string[]): Promise<string[]> =>
  (await q.rows(namesOfIds, [at.environmentId, at.path, ids])).map((row) => row.key);
/** Without the encrypted columns: enough to check rights, and to delete. */
export const lockHeads = (tx: Tx, folderIds: readonly string[]) => tx.rows(headsForUpdate, [folderIds]);
/** The next ones after this id; the caller holds the exclusive lock on the tree. */
export const nextChunk = (tx: Tx, folderIds: readonly string[], after: string | undefined) =>
  tx.rows(treeChunk, [folderIds, after ?? NIL]);
export const lockInFolders = (tx: Tx, folderIds: readonly string[]) => tx.rows(treeForUpdate, [folderIds]);
