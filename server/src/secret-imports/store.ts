import { counterOf } from "../platform/bound.ts";
import { sql, type Query, type Tx } from "../platform/db/index.ts";

export interface ImportRow {
  readonly id: string;
  readonly projectId: string;
  readonly folderId: string;
  readonly environmentId: string;
  readonly environment: string;
  readonly environmentName: string;
  readonly path: string;
  readonly sourceProjectId: string;
  readonly sourceProjectName: string;
  readonly sourceEnvironmentId: string;
  readonly sourceEnvironment: string;
  readonly sourceEnvironmentName: string;
  readonly sourcePath: string;
  readonly position: number;
  readonly isReplication: boolean;
  readonly version: number;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

const SELECT = `
  SELECT i.id, i.project_id AS "projectId", i.folder_id AS "folderId", f.environment_id AS "environmentId", e.slug AS environment, e.name AS "environmentName", f.path,
    i.source_project_id AS "sourceProjectId", sp.name AS "sourceProjectName", i.source_environment_id AS "sourceEnvironmentId", se.slug AS "sourceEnvironment",
    se.name AS "sourceEnvironmentName", i.source_path AS "sourcePath", i.position, i.is_replication AS "isReplication", i.version,
    i.created_at AS "createdAt", i.updated_at AS "updatedAt"
  FROM secret_imports i JOIN folders f ON f.id = i.folder_id JOIN environments e ON e.id = f.environment_id
    JOIN environments se ON se.id = i.source_environment_id JOIN projects sp ON sp.id = i.source_project_id`;
const ofFolder = sql<ImportRow>(`${SELECT} WHERE i.folder_id = $1 ORDER BY i.position, i.id`);
const byId = sql<ImportRow>(
  `${SELECT} JOIN projects p ON p.id = i.project_id WHERE i.id = $1 AND p.org_id = $2`,
);
const insert = sql(`
  INSERT INTO secret_imports (id, project_id, folder_id, source_project_id, source_environment_id, source_path, position, is_replication, created_at, updated_at)
  VALUES ($1, $2, $3, $4, $5, $6, (SELECT coalesce(max(position), 0) + 1 FROM secret_imports WHERE folder_id = $3), $7, $8, $8)`);
const update = sql(`
  UPDATE secret_imports SET source_environment_id = $2, source_path = $3, version = version + 1, updated_at = $4 WHERE id = $1`);
const order = sql(`
  UPDATE secret_imports i SET position = o.position FROM unnest($1::uuid[]) WITH ORDINALITY AS o (id, position) WHERE i.id = o.id`);
const remove = sql<{ id: string }>(`DELETE FROM secret_imports WHERE id = $1 RETURNING id`);
/** Folders by place, each with how many it is to get. */
const crowded = sql<{ path: string }>(`
  SELECT w.path FROM unnest($1::uuid[], $2::text[], $3::integer[]) AS w (environment_id, path, more)
    JOIN folders f ON f.environment_id = w.environment_id AND f.path = w.path
  WHERE (SELECT count(*) FROM secret_imports i WHERE i.folder_id = f.id) + w.more > $4 LIMIT 1`);
// Folders' rows are also referred to by new secrets, which this leaves alone.
const lockFolder = sql(`SELECT id FROM folders WHERE id = $1 FOR NO KEY UPDATE`);

export const importsOfFolder = (q: Query, folderId: string) => q.rows(ofFolder, [folderId]);
export const findImport = (q: Query, id: string, orgId: string) => q.first(byId, [id, orgId]);
interface NewImportRow {
  readonly id: string;
  readonly projectId: string;
  readonly folderId: string;
  readonly sourceProjectId: string;
  readonly sourceEnvironmentId: string;
  readonly sourcePath: string;
  readonly isReplication: boolean;
  readonly at: Date;
}
export const insertImport = (tx: Tx, row: NewImportRow) =>
  tx.rows(insert, [
    row.id,
    row.projectId,
    row.folderId,
    row.sourceProjectId,
    row.sourceEnvironmentId,
    row.sourcePath,
    row.isReplication,
    row.at,
  ]);
export const repointImport = (
  tx: Tx,
  id: string,
  source: { environmentId: string; path: string },
  at: Date,
) => tx.rows(update, [id, source.environmentId, source.path, at]);
export const orderImports = (tx: Tx, ids: readonly string[]) => tx.rows(order, [ids]);
export const deleteImport = (tx: Tx, id: string) => tx.first(remove, [id]);
export interface MoreImports {
  readonly environmentId: string;
  readonly path: string;
  readonly more: number;
}
/** One of them that would then have more than so many. */
export const findCrowded = (q: Query, list: readonly MoreImports[], most: number) =>
  q.first(crowded, [
    list.map((one) => one.environmentId),
    list.map((one) => one.path),
    list.map((one) => one.more),
    most,
  ]);
export const countImports = counterOf("secret_imports WHERE folder_id = $1");
export const countImportsOfProject = counterOf("secret_imports WHERE project_id = $1");
/** One at a time: the imports of a folder have an order, and each change of one may change the places of all. */
export const lockImports = (tx: Tx, folderId: string) => tx.rows(lockFolder, [folderId]);
