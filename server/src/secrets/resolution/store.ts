import { slowSql, sql, type Query, type SlowQuery } from "../../platform/db/index.ts";
import type { FolderPlace, SecretRow, Weighed } from "../model.ts";
import { isQuick, QUICK_BYTES, QUICK_ROWS, SECRET_COLUMNS, weighedColumns } from "../store.ts";

export type WeighedRow = SecretRow & Weighed;

export interface ReachedFolder extends FolderPlace {
  /** [environment, path] of each import, in order. */
  readonly imports: readonly (readonly [string, string, string])[] | null;
}

export const MAX_FOLDERS = 20_000;

// Every folder that the given ones lead to through imports, each once, also in cycles.
const reached = sql<ReachedFolder>(`
  WITH RECURSIVE reach (environment_id, path) AS (
    SELECT e, p FROM unnest($1::uuid[], $2::text[]) AS s (e, p)
    UNION
    SELECT i.source_environment_id, i.source_path
    FROM reach r JOIN folders f ON f.environment_id = r.environment_id AND f.path = r.path
      JOIN secret_imports i ON i.folder_id = f.id)
  SELECT f.id, f.project_id AS "projectId", f.environment_id AS "environmentId", e.slug AS environment, f.path,
    (SELECT json_agg(json_build_array(i.source_project_id, i.source_environment_id, i.source_path) ORDER BY i.position, i.id)
     FROM secret_imports i WHERE i.folder_id = f.id) AS imports
  FROM reach r JOIN folders f ON f.environment_id = r.environment_id AND f.path = r.path
    JOIN environments e ON e.id = f.environment_id
  LIMIT ${MAX_FOLDERS + 1}`);
const inFolders = slowSql<SecretRow>(`
  SELECT ${SECRET_COLUMNS} FROM secrets s
  WHERE s.folder_id = ANY($1::uuid[]) AND (s.owner_id IS NULL OR s.owner_id = $2::uuid) ORDER BY s.folder_id, s.key, s.owner_id NULLS FIRST`);
const IN_FOLDERS = `
  SELECT ${weighedColumns("$3::bigint", "$4::boolean")}
  FROM (SELECT s.* FROM secrets s
    WHERE s.folder_id = ANY($1::uuid[]) AND (s.owner_id IS NULL OR s.owner_id = $2::uuid) LIMIT $5::bigint) s
  ORDER BY s.folder_id, s.key, s.owner_id NULLS FIRST`;
const BY_KEYS = `
  SELECT ${weighedColumns("$4::bigint", "true", "ORDER BY s.folder_id, s.key, s.owner_id ROWS UNBOUNDED PRECEDING")}
  FROM (SELECT s.* FROM secrets s
    WHERE s.folder_id = ANY($1::uuid[]) AND s.key = ANY($3::text[]) AND (s.owner_id IS NULL OR s.owner_id = $2::uuid) LIMIT $5::bigint) s`;
const quickInFolders = sql<WeighedRow>(IN_FOLDERS);
const largeInFolders = slowSql<WeighedRow>(IN_FOLDERS);
const quickByKeys = sql<WeighedRow>(BY_KEYS);
const largeByKeys = slowSql<WeighedRow>(BY_KEYS);

export const foldersReached = (q: Query, spots: readonly { environmentId: string; path: string }[]) =>
  q.rows(reached, [spots.map((spot) => spot.environmentId), spots.map((spot) => spot.path)]);
export const secretsInFolders = (q: SlowQuery, folderIds: readonly string[], ownerId: string | null) =>
  q.rows(inFolders, [folderIds, ownerId]);

export interface Reach {
  readonly folderIds: readonly string[];
  readonly ownerId: string | null;
  /** How many bytes may be loaded. */
  readonly room: number;
}
const least = (room: number): number => Math.min(room, QUICK_BYTES);

/** All of them, or, if they are too large, their names only. Undefined = many: use the large statement. */
export const listInFolders = async (
  q: Query,
  { folderIds, ownerId, room }: Reach,
  wantsValue: boolean,
): Promise<WeighedRow[] | undefined> => {
  const rows = await q.rows(quickInFolders, [folderIds, ownerId, least(room), wantsValue, QUICK_ROWS + 1]);
  return isQuick(rows) ? rows : undefined;
};
export const listManyInFolders = (
  q: SlowQuery,
  { folderIds, ownerId, room }: Reach,
  wantsValue: boolean,
): Promise<WeighedRow[]> => q.rows(largeInFolders, [folderIds, ownerId, room, wantsValue, null]);

/** As many as fit; of the others only that they exist. Undefined = many: use the large statement. */
export const secretsByKeys = async (
  q: Query,
  { folderIds, ownerId, room }: Reach,
  keys: readonly string[],
): Promise<WeighedRow[] | undefined> => {
  const rows = await q.rows(quickByKeys, [folderIds, ownerId, keys, least(room), QUICK_ROWS + 1]);
  return isQuick(rows) ? rows : undefined;
};
export const manyByKeys = (
  q: SlowQuery,
  { folderIds, ownerId, room }: Reach,
  keys: readonly string[],
): Promise<WeighedRow[]> => q.rows(largeByKeys, [folderIds, ownerId, keys, room, null]);
