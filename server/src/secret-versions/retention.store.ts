import { slowSql, sql, type Query, type SlowQuery, type Tx } from "../platform/db/index.ts";

/** A project whose secrets or limit changed since its old versions were last deleted. */
export interface DueSweep {
  readonly projectId: string;
  readonly limit: number;
  /** The project's revision now; stored when the run is over. */
  readonly revision: number;
  readonly sweptLimit: number | null;
  readonly sweptTo: Date | null;
}

export interface Forgettable {
  readonly id: string;
  /** This version of it and all below may go. */
  readonly upTo: number;
  readonly createdAt: Date;
}

const due = slowSql<DueSweep>(`
  SELECT p.id AS "projectId", p.version_limit AS "limit", c.stamp AS revision, w.version_limit AS "sweptLimit", w.swept_to AS "sweptTo"
  FROM projects p LEFT JOIN version_sweeps w ON w.project_id = p.id
    CROSS JOIN LATERAL (SELECT coalesce(sum(n.counter), 0)::bigint AS stamp FROM project_changes n WHERE n.project_id = p.id) c
  WHERE p.version_limit IS NOT NULL AND (w.project_id IS NULL OR w.version_limit <> p.version_limit OR w.stamp <> c.stamp)
  ORDER BY w.swept_to NULLS FIRST, p.id LIMIT 1000`);
const written = slowSql<{ folderId: string }>(`
  SELECT DISTINCT h.folder_id AS "folderId" FROM folder_history h
  WHERE h.project_id = $1 AND EXISTS (SELECT 1 FROM secret_versions v WHERE v.folder_id = h.folder_id AND v.created_at >= $2)
  ORDER BY h.folder_id`);
const beyond = slowSql<Forgettable>(`
  SELECT w.secret_id AS id, w.version - $3 AS "upTo", w.created_at AS "createdAt" FROM secret_versions w
  WHERE w.folder_id = $1 AND w.created_at >= $2 AND w.version > $3
    AND EXISTS (SELECT 1 FROM secret_versions o WHERE o.secret_id = w.secret_id AND o.version = w.version - $3)
  ORDER BY w.created_at LIMIT $4`);
// The oldest of each secret first, so that a chunk never leaves a hole. Until its successor came, a version was how
// things were in its folder: that knowledge is lost with it.
const forget = slowSql<{ count: number }>(`
  WITH oldest AS (
    SELECT v.secret_id, v.version, v.folder_id
    FROM unnest($2::uuid[], $3::integer[]) AS c (secret_id, up_to) CROSS JOIN LATERAL (
      SELECT o.secret_id, o.version, o.folder_id FROM secret_versions o
      WHERE o.secret_id = c.secret_id AND o.version <= c.up_to ORDER BY o.version LIMIT $4) v
    ORDER BY v.secret_id, v.version LIMIT $4),
  doomed AS (
    SELECT o.secret_id, o.version, o.folder_id, n.created_at AS until
    FROM oldest o JOIN secret_versions n ON n.secret_id = o.secret_id AND n.version = o.version + 1),
  gone AS (
    DELETE FROM secret_versions v USING doomed d WHERE v.secret_id = d.secret_id AND v.version = d.version RETURNING 1),
  marked AS (
    INSERT INTO history_horizons AS h (folder_id, project_id, whole_from)
    SELECT d.folder_id, $1, max(d.until) FROM doomed d GROUP BY d.folder_id ORDER BY d.folder_id
    ON CONFLICT (folder_id) DO UPDATE SET whole_from = greatest(h.whole_from, excluded.whole_from))
  SELECT count(*) AS count FROM gone`);
const note = sql(`
  INSERT INTO version_sweeps (project_id, version_limit, stamp, swept_to)
  SELECT p.id, $2, $3, $4 FROM projects p WHERE p.id = $1
  ON CONFLICT (project_id) DO UPDATE SET version_limit = $2, stamp = $3, swept_to = $4`);
const horizon = sql<{ wholeFrom: Date | null }>(
  `SELECT max(whole_from) AS "wholeFrom" FROM history_horizons WHERE folder_id = ANY($1::uuid[])`,
);

export const dueSweeps = (q: SlowQuery) => q.rows(due);
/** Every folder that the project ever had and that was written to since then. */
export const foldersWrittenSince = async (q: SlowQuery, projectId: string, since: Date) =>
  (await q.rows(written, [projectId, since])).map((row) => row.folderId);
export const versionsBeyond = (
  q: SlowQuery,
  folderId: string,
  { limit, from, most }: { limit: number; from: Date; most: number },
) => q.rows(beyond, [folderId, from, limit, most]);
export const forgetVersions = async (
  tx: Tx,
  projectId: string,
  upTo: ReadonlyMap<string, number>,
  most: number,
): Promise<number> =>
  (await tx.first(forget, [projectId, [...upTo.keys()], [...upTo.values()], most]))?.count ?? 0;
export const noteSweep = (tx: Tx, sweep: DueSweep, sweptTo: Date) =>
  tx.rows(note, [sweep.projectId, sweep.limit, sweep.revision, sweptTo]);
/** The moment from which on the history of all these folders is whole; null if all of it is. */
export const horizonOf = async (q: Query, folderIds: readonly string[]): Promise<Date | null> =>
  (await q.first(horizon, [folderIds]))?.wholeFrom ?? null;
