import { counterOf } from "../platform/bound.ts";
import { slowSql, sql, type Query, type SlowQuery, type Tx } from "../platform/db/index.ts";

export interface FolderRow {
  readonly id: string;
  readonly projectId: string;
  readonly environmentId: string;
  readonly environment: string;
  readonly environmentName: string;
  readonly parentId: string | null;
  readonly name: string;
  readonly path: string;
  readonly description: string | null;
  readonly version: number;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

const COLUMNS = `f.id, f.project_id AS "projectId", f.environment_id AS "environmentId", e.slug AS environment, e.name AS "environmentName", f.parent_id AS "parentId",
  f.name, f.path, f.description, f.version, f.created_at AS "createdAt", f.updated_at AS "updatedAt"`;
const FROM = `FROM folders f JOIN environments e ON e.id = f.environment_id`;
const byPath = sql<FolderRow>(`SELECT ${COLUMNS} ${FROM} WHERE f.environment_id = $1 AND f.path = $2`);
const byPaths = sql<FolderRow>(
  `SELECT ${COLUMNS} ${FROM} WHERE f.environment_id = $1 AND f.path = ANY($2::text[])`,
);
const byId = sql<FolderRow>(
  `SELECT ${COLUMNS} ${FROM} JOIN projects p ON p.id = f.project_id WHERE f.id = $1 AND p.org_id = $2`,
);
const children = sql<FolderRow>(
  `SELECT ${COLUMNS} ${FROM} WHERE f.parent_id = $1 ORDER BY f.name LIMIT 10000`,
);
const below = slowSql<FolderRow>(
  `SELECT ${COLUMNS} ${FROM} WHERE f.environment_id = $1 AND f.path LIKE $2 AND f.parent_id IS NOT NULL ORDER BY f.path LIMIT 10000`,
);
const tree = slowSql<FolderRow>(
  `SELECT ${COLUMNS} ${FROM} WHERE f.environment_id = $1 AND (f.path = $2 OR f.path LIKE $3) ORDER BY f.path`,
);
const changedSince = sql<{ id: string }>(`
  SELECT DISTINCT v.folder_id AS id FROM secret_versions v WHERE v.folder_id = ANY($1::uuid[]) AND v.created_at >= $2`);
const insert = sql(`
  INSERT INTO folders (id, project_id, environment_id, parent_id, name, path, description, created_at, updated_at)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8)`);
const update = sql(
  `UPDATE folders SET description = CASE WHEN $2 THEN $3 ELSE description END, version = version + 1, updated_at = $4 WHERE id = $1`,
);
const relocate = slowSql(`
  UPDATE folders f SET environment_id = $4, path = $5 || substr(f.path, length($3) + 1),
    parent_id = CASE WHEN f.id = $6 THEN $7 ELSE f.parent_id END, name = CASE WHEN f.id = $6 THEN $8 ELSE f.name END,
    version = f.version + 1, updated_at = $9
  WHERE f.environment_id = $1 AND (f.path = $3 OR f.path LIKE $2)`);
const remove = sql(`DELETE FROM folders WHERE id = ANY($1::uuid[])`);
const content = sql<{ count: number }>(`
  SELECT (SELECT count(*) FROM secrets WHERE folder_id = $1) + (SELECT count(*) FROM folders WHERE parent_id = $1) + (SELECT count(*) FROM secret_imports WHERE folder_id = $1) AS count`);
const beginHistory = sql(
  `INSERT INTO folder_history (folder_id, project_id, environment_id, path, from_at) SELECT id, project_id, environment_id, path, $2 FROM folders WHERE id = ANY($1::uuid[])`,
);
const endHistory = sql(
  `UPDATE folder_history SET to_at = $2 WHERE folder_id = ANY($1::uuid[]) AND to_at IS NULL`,
);

export const findFolderByPath = (q: Query, environmentId: string, path: string) =>
  q.first(byPath, [environmentId, path]);
export const findFoldersByPaths = (q: Query, environmentId: string, paths: readonly string[]) =>
  q.rows(byPaths, [environmentId, paths]);
export const findFolderById = (q: Query, id: string, orgId: string) => q.first(byId, [id, orgId]);
export const foldersIn = (q: Query, parentId: string) => q.rows(children, [parentId]);
export const foldersBelow = (q: SlowQuery, environmentId: string, likeBelow: string) =>
  q.rows(below, [environmentId, likeBelow]);
export const folderTree = (q: SlowQuery, environmentId: string, path: string, likeBelow: string) =>
  q.rows(tree, [environmentId, path, likeBelow]);
export const foldersChangedSince = (q: Query, ids: readonly string[], since: Date) =>
  q.rows(changedSince, [ids, since]);
export const countContent = async (q: Query, id: string) => (await q.first(content, [id]))?.count ?? 0;

interface NewFolderRow {
  readonly id: string;
  readonly projectId: string;
  readonly environmentId: string;
  readonly parentId: string;
  readonly name: string;
  readonly path: string;
  readonly description: string | null;
  readonly at: Date;
}

export const countFolders = counterOf("folders WHERE project_id = $1");
export const insertFolder = async (tx: Tx, row: NewFolderRow): Promise<void> => {
  await tx.rows(insert, [
    row.id,
    row.projectId,
    row.environmentId,
    row.parentId,
    row.name,
    row.path,
    row.description,
    row.at,
  ]);
  await tx.rows(beginHistory, [[row.id], row.at]);
};
export const describeFolder = (tx: Tx, id: string, description: string | null | undefined, at: Date) =>
  tx.rows(update, [id, description !== undefined, description ?? null, at]);

interface Relocation {
  readonly folder: FolderRow;
  readonly ids: readonly string[];
  readonly likeBelow: string;
  readonly to: {
    readonly environmentId: string;
    readonly parentId: string;
    readonly name: string;
    readonly path: string;
  };
  readonly at: Date;
}

/** The whole tree below at once: paths are prefixes. */
export async function relocateFolder(tx: Tx, { folder, ids, likeBelow, to, at }: Relocation): Promise<void> {
  await tx.rows(endHistory, [ids, at]);
  await tx.rows(relocate, [
    folder.environmentId,
    likeBelow,
    folder.path,
    to.environmentId,
    to.path,
    folder.id,
    to.parentId,
    to.name,
    at,
  ]);
  await tx.rows(beginHistory, [ids, at]);
}

export async function deleteFolders(tx: Tx, ids: readonly string[], at: Date): Promise<void> {
  await tx.rows(endHistory, [ids, at]);
  await tx.rows(remove, [ids]);
}

const keysOf = sql<{ path: string; key: string | null }>(`
  SELECT f.path, s.key FROM folders f LEFT JOIN secrets s ON s.folder_id = f.id AND s.owner_id IS NULL
  WHERE f.environment_id = $1 ORDER BY f.path, s.key`);

/** So many at once. */
const PAGE = 5000;
const NIL = "00000000-0000-0000-0000-000000000000";
const inEnvironment = sql<{ id: string; path: string; key: string; tagIds: readonly string[] }>(`
  SELECT s.id, f.path, s.key, s.tag_ids AS "tagIds" FROM folders f JOIN secrets s ON s.folder_id = f.id AND s.owner_id IS NULL
  WHERE f.environment_id = $1 AND s.id > $2 ORDER BY s.id LIMIT $3`);
/** What permissions are asked about, of the shared secrets of an environment that follow this one. */
export const secretsInEnvironment = (q: Query, environmentId: string, after: string | undefined) =>
  q.rows(inEnvironment, [environmentId, after ?? NIL, PAGE]);

const fromOutside = sql<{ environmentId: string; path: string }>(`
  SELECT DISTINCT source_environment_id AS "environmentId", source_path AS path FROM secret_imports
  WHERE source_project_id = $1 AND project_id <> $1`);
/** The places of a project that other projects import. */
export const importedFromOutside = (q: Query, projectId: string) => q.rows(fromOutside, [projectId]);

/** Every folder of an environment with the names in it. */
export async function namesInEnvironment(q: Query, environmentId: string): Promise<Map<string, string[]>> {
  const folders = new Map<string, string[]>();
  for (const { path, key } of await q.rows(keysOf, [environmentId])) {
    const keys = folders.get(path) ?? [];
    folders.set(path, keys);
    if (key !== null) keys.push(key);
  }
  return folders;
}
