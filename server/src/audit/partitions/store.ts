/** Months of the audit table as things to make and to drop. Names and bounds come from the model, never from outside. */
import { searchSql, sql, type Query, type Tx } from "../../platform/db/index.ts";
import type { Month } from "../model.ts";

const LOCK_KEY = 0x61756474; // "audt"

const lock = sql(`SELECT pg_advisory_xact_lock($1)`);
const impatience = sql(`SET LOCAL lock_timeout = '2s'`);
const names = sql<{ name: string }>(`
  SELECT c.relname AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
  WHERE i.inhparent = 'audit_log'::regclass ORDER BY c.relname`);
const strayRow = sql<{ found: boolean }>(
  `SELECT EXISTS (SELECT 1 FROM audit_log_default WHERE at >= $1 AND at < $2) AS found`,
);
const deleteStray = sql<{ count: number }>(`
  WITH gone AS (
    DELETE FROM audit_log_default WHERE ctid = ANY (ARRAY (SELECT ctid FROM audit_log_default WHERE at < $1 LIMIT $2)) RETURNING 1
  ) SELECT count(*) AS count FROM gone`);
const keptProjects = sql<{ id: string; days: number }>(`
  SELECT id, audit_retention_days AS days FROM projects WHERE audit_retention_days > 0 ORDER BY id`);
// A batch ends at the moment of its last row, so that both halves are one stretch of the project's index.
const deleteOfProject = sql<{ count: number }>(`
  WITH gone AS (
    DELETE FROM audit_log WHERE project_id = $1 AND at < $2
      AND at <= coalesce((SELECT at FROM audit_log WHERE project_id = $1 AND at < $2 ORDER BY at, id OFFSET $3 LIMIT 1), $2) RETURNING 1
  ) SELECT count(*) AS count FROM gone`);

/** One node at a time; the others wait and then find the work done. */
export const takePartitionLock = (tx: Tx) => tx.rows(lock, [LOCK_KEY]);
/** Whoever waits for an exclusive lock makes everyone queue up behind: better to give up and come again. */
export const beImpatient = (tx: Tx) => tx.rows(impatience);
export const partitionNames = async (q: Query): Promise<string[]> =>
  (await q.rows(names)).map((row) => row.name);
export const hasStrayRows = async (q: Query, month: Month): Promise<boolean> =>
  (await q.first(strayRow, [month.from, month.to]))?.found ?? false;

/**
 * Made apart and then attached: creating a partition in place would lock every writer out, attaching does not.
 * The indexes follow from the parent's.
 */
export async function attachMonth(tx: Tx, { partition, from, to }: Month): Promise<void> {
  await tx.rows(
    searchSql(`CREATE TABLE ${partition} (LIKE audit_log INCLUDING DEFAULTS INCLUDING CONSTRAINTS)`),
  );
  await tx.rows(
    searchSql(
      `ALTER TABLE audit_log ATTACH PARTITION ${partition} FOR VALUES FROM ('${from.toISOString()}') TO ('${to.toISOString()}')`,
    ),
  );
}

export const dropMonth = (tx: Tx, { partition }: Month) => tx.rows(searchSql(`DROP TABLE ${partition}`));

export const deleteStrayBefore = async (tx: Tx, cutoff: Date, batch: number): Promise<number> =>
  (await tx.first(deleteStray, [cutoff, batch]))?.count ?? 0;
export const projectsWithRetention = (q: Query) => q.rows(keptProjects);
export const deleteOfProjectBefore = async (
  tx: Tx,
  projectId: string,
  cutoff: Date,
  batch: number,
): Promise<number> => (await tx.first(deleteOfProject, [projectId, cutoff, batch - 1]))?.count ?? 0;
