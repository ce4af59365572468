import { slowSql, sql, type Query, type SlowQuery } from "../platform/db/index.ts";
import type { PlaceThen } from "./model.ts";
import { MIN_WEIGHT, type SecretRow } from "../secrets/index.ts";

export interface VersionRow extends Omit<SecretRow, "value"> {
  readonly change: "create" | "update" | "delete";
  readonly value: Buffer | null;
  readonly actorType: string;
  readonly actorId: string | null;
  readonly actorName: string;
  /** When it was written where it came from; only with history that was imported, and where it is asked for. */
  readonly originalAt?: Date | null;
}

export const VERSION_COLUMNS = `v.secret_id AS id, v.folder_id AS "folderId", v.key, v.owner_id AS "ownerId", v.version, v.key_id AS "keyId", v.value, v.comment,
  v.metadata, v.tag_ids AS "tagIds", v.skip_multiline AS "skipMultiline", v.reminder_note AS "reminderNote", v.reminder_days AS "reminderDays",
  v.created_at AS "createdAt", v.created_at AS "updatedAt", v.change, v.actor_type AS "actorType", v.actor_id AS "actorId", v.actor_name AS "actorName"`;

const one = sql<VersionRow>(
  `SELECT ${VERSION_COLUMNS} FROM secret_versions v WHERE v.secret_id = $1 AND v.version = $2`,
);
const oldest = sql<{ createdAt: Date }>(
  `SELECT v.created_at AS "createdAt" FROM secret_versions v WHERE v.secret_id = $1 ORDER BY v.version LIMIT 1`,
);
const page = slowSql<VersionRow>(`
  SELECT ${VERSION_COLUMNS}, v.original_at AS "originalAt"
  FROM secret_versions v WHERE v.secret_id = $1 ORDER BY v.version DESC LIMIT $2 OFFSET $3`);
const pageWeight = slowSql<{ weight: number }>(`
  SELECT coalesce(sum(octet_length(v.value)), 0) AS weight
  FROM (SELECT value FROM secret_versions WHERE secret_id = $1 ORDER BY version DESC LIMIT $2 OFFSET $3) v`);
// Where each folder of a tree was at that moment, and where it is now if it still is.
const treeAt = slowSql<{ folderId: string; path: string }>(`
  SELECT h.folder_id AS "folderId", h.path FROM folder_history h
  WHERE h.environment_id = $1 AND (h.path = $2 OR h.path LIKE $3) AND h.from_at <= $4 AND (h.to_at IS NULL OR h.to_at > $4)`);
// The newest version of each secret at that moment, for all that ever were in these folders.
const newestAt = (columns: string): string => `
  SELECT DISTINCT ON (v.secret_id) ${columns} FROM secret_versions v
  WHERE v.created_at <= $2 AND v.secret_id IN (SELECT w.secret_id FROM secret_versions w WHERE w.folder_id = ANY($1::uuid[]) AND w.created_at <= $2)
  ORDER BY v.secret_id, v.version DESC`;
const stateAt = slowSql<VersionRow>(newestAt(VERSION_COLUMNS));
const weightAt = slowSql<{ weight: number }>(
  `SELECT coalesce(sum(${MIN_WEIGHT} + octet_length(s.value)), 0) AS weight FROM (${newestAt("v.value")}) s`,
);
const last = sql<{ id: string; version: number; createdAt: Date }>(`
  SELECT secret_id AS id, max(version) AS version, min(created_at) AS "createdAt" FROM secret_versions WHERE secret_id = ANY($1::uuid[]) GROUP BY secret_id`);

const places = sql<PlaceThen>(`
  SELECT h.folder_id AS "folderId", e.slug AS environment, h.path, h.from_at AS "fromAt", h.to_at AS "toAt"
  FROM folder_history h LEFT JOIN environments e ON e.id = h.environment_id WHERE h.folder_id = ANY($1::uuid[])`);

/** Every place that these folders ever had. */
export const placesOfFolders = (q: Query, folderIds: readonly string[]) => q.rows(places, [folderIds]);
export const findVersion = (q: Query, secretId: string, version: number) => q.first(one, [secretId, version]);
/** The oldest that is kept; the first ever may have been forgotten. */
export const findOldest = (q: Query, secretId: string) => q.first(oldest, [secretId]);
export const pageOfVersions = (q: SlowQuery, secretId: string, limit: number, offset: number) =>
  q.rows(page, [secretId, limit, offset]);
export const weighPage = async (
  q: SlowQuery,
  secretId: string,
  limit: number,
  offset: number,
): Promise<number> => (await q.first(pageWeight, [secretId, limit, offset]))?.weight ?? 0;
export const foldersAt = (
  q: SlowQuery,
  at: { environmentId: string; path: string },
  likeBelow: string | null,
  moment: Date,
) => q.rows(treeAt, [at.environmentId, at.path, likeBelow ?? "", moment]);
export const secretsAt = (q: SlowQuery, folderIds: readonly string[], moment: Date) =>
  q.rows(stateAt, [folderIds, moment]);
/** What all of them take, before any is loaded. */
export const weighAt = async (q: SlowQuery, folderIds: readonly string[], moment: Date): Promise<number> =>
  (await q.first(weightAt, [folderIds, moment]))?.weight ?? 0;
export const lastVersions = (q: Query, secretIds: readonly string[]) => q.rows(last, [secretIds]);

export interface LastKnown extends VersionRow {
  readonly projectId: string;
  readonly environmentId: string;
  readonly environment: string;
  readonly path: string;
}
// Where a secret is, or was last: its newest version and the newest place of that folder.
const lastKnown = sql<LastKnown>(`
  SELECT ${VERSION_COLUMNS}, h.project_id AS "projectId", h.environment_id AS "environmentId", e.slug AS environment, h.path
  FROM secret_versions v JOIN folder_history h ON h.folder_id = v.folder_id JOIN environments e ON e.id = h.environment_id JOIN projects p ON p.id = h.project_id
  WHERE v.secret_id = $1 AND p.org_id = $2 ORDER BY v.version DESC, h.from_at DESC, h.to_at DESC NULLS FIRST LIMIT 1`);
const alive = sql<{ id: string; folderId: string }>(
  `SELECT id, folder_id AS "folderId" FROM secrets WHERE id = ANY($1::uuid[])`,
);

export const findLastKnown = (q: Query, secretId: string, orgId: string) =>
  q.first(lastKnown, [secretId, orgId]);
export const aliveSecrets = (q: Query, ids: readonly string[]) => q.rows(alive, [ids]);

/** A secret's newest version: what permissions are asked about, living or not. */
export interface LastPlace {
  readonly id: string;
  readonly key: string;
  readonly tagIds: readonly string[];
  readonly environment: string;
  readonly path: string;
}
// An environment that is gone has no slug any more: no rule that names one speaks of it.
const lastPlace = sql<LastPlace>(`
  SELECT DISTINCT ON (v.secret_id) v.secret_id AS id, v.key, v.tag_ids AS "tagIds", coalesce(e.slug, '') AS environment, h.path
  FROM secret_versions v JOIN folder_history h ON h.folder_id = v.folder_id LEFT JOIN environments e ON e.id = h.environment_id
  WHERE v.secret_id = ANY($1::uuid[])
  ORDER BY v.secret_id, v.version DESC, h.from_at DESC, h.to_at DESC NULLS FIRST`);
export const lastPlaces = (q: Query, ids: readonly string[]) => q.rows(lastPlace, [ids]);
