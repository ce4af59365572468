import { slowSql, sql, type Query, type SlowQuery, type Tx } from "../platform/db/index.ts";
import { type SecretRow, type StoredState, chunkOf, inChunk, SECRET_COLUMNS } from "../secrets/index.ts";
import { VERSION_COLUMNS, type VersionRow } from "../secret-versions/index.ts";

export interface RotationRow {
  readonly id: string;
  readonly projectId: string;
  readonly oldKeyId: string;
  readonly startedAt: Date;
  readonly finishedAt: Date | null;
}

const COLUMNS = `id, project_id AS "projectId", old_key_id AS "oldKeyId", started_at AS "startedAt", finished_at AS "finishedAt"`;
const insert = sql<RotationRow>(
  `INSERT INTO key_rotations (id, project_id, old_key_id, started_at) VALUES ($1, $2, $3, $4) RETURNING ${COLUMNS}`,
);
const ofProject = sql<RotationRow>(
  `SELECT ${COLUMNS} FROM key_rotations WHERE project_id = $1 ORDER BY started_at DESC, id DESC LIMIT 100`,
);
const running = sql<RotationRow>(
  `SELECT ${COLUMNS} FROM key_rotations WHERE finished_at IS NULL ORDER BY started_at LIMIT 100`,
);
const finish = sql(`UPDATE key_rotations SET finished_at = $2 WHERE id = $1`);
// Folders that are gone have history too.
const foldersEver = sql<{ folderId: string }>(
  `SELECT DISTINCT folder_id AS "folderId" FROM folder_history WHERE project_id = $1 ORDER BY folder_id`,
);
const oldSecrets = slowSql<SecretRow>(`
  SELECT ${SECRET_COLUMNS}
  FROM ${chunkOf("SELECT * FROM secrets WHERE folder_id = $1 AND key_id = $2 AND key >= $3 ORDER BY key LIMIT $4", "n.key, n.id")} s
  WHERE ${inChunk("s")} ORDER BY s.key`);
const oldVersions = slowSql<VersionRow>(`
  SELECT ${VERSION_COLUMNS}
  FROM ${chunkOf("SELECT * FROM secret_versions WHERE folder_id = $1 AND key_id = $2 AND created_at >= $3 ORDER BY created_at LIMIT $4", "n.created_at, n.secret_id, n.version")} v
  WHERE ${inChunk("v")} ORDER BY v.created_at`);
const STATE = `key_id = $3, value = $4, comment = $5, metadata = $6`;
const updateSecret = sql(`UPDATE secrets SET ${STATE} WHERE id = $1 AND version = $2 AND key_id = $7`);
const updateVersion = sql(
  `UPDATE secret_versions SET ${STATE} WHERE secret_id = $1 AND version = $2 AND key_id = $7`,
);

export const insertRotation = (tx: Tx, row: Omit<RotationRow, "finishedAt">) =>
  tx.first(insert, [row.id, row.projectId, row.oldKeyId, row.startedAt]);
export const rotationsOf = (q: Query, projectId: string) => q.rows(ofProject, [projectId]);
export const runningRotations = (q: Query) => q.rows(running);
export const finishRotation = (tx: Tx, id: string, at: Date) => tx.rows(finish, [id, at]);
export const foldersEverIn = async (q: Query, projectId: string) =>
  (await q.rows(foldersEver, [projectId])).map((row) => row.folderId);
export const secretsUnder = (
  q: SlowQuery,
  folderId: string,
  keyId: string,
  from: { key: string; limit: number },
) => q.rows(oldSecrets, [folderId, keyId, from.key, from.limit]);
export const versionsUnder = (
  q: SlowQuery,
  folderId: string,
  keyId: string,
  from: { at: Date; limit: number },
) => q.rows(oldVersions, [folderId, keyId, from.at, from.limit]);

interface Encrypted {
  readonly id: string;
  readonly version: number;
  readonly keyId: string;
  readonly value: Buffer | null;
  readonly comment: Buffer | null;
  readonly metadata: StoredState["metadata"];
}
const values = (row: Encrypted, oldKeyId: string): unknown[] => [
  row.id,
  row.version,
  row.keyId,
  row.value,
  row.comment,
  row.metadata === null ? null : JSON.stringify(row.metadata),
  oldKeyId,
];
export const replaceSecret = (tx: Tx, row: Encrypted, oldKeyId: string): void =>
  tx.defer(updateSecret, values(row, oldKeyId));
export const replaceVersion = (tx: Tx, row: Encrypted, oldKeyId: string): void =>
  tx.defer(updateVersion, values(row, oldKeyId));
