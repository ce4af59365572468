import { slowSql, sql, type Query, type Tx } from "../platform/db/index.ts";

const deleteStray = slowSql<{ count: number }>(`
  WITH gone AS (
    DELETE FROM audit_log_default WHERE ctid = ANY (ARRAY (SELECT ctid FROM audit_log_default WHERE at < $1 LIMIT $2)) RETURNING 1
  ) SELECT count(*) AS count FROM gone`);
export interface ProjectRetention {
  readonly id: string;
  readonly days: number;
}
const withRetention = sql<ProjectRetention>(`
  SELECT id, audit_retention_days AS days FROM projects WHERE audit_retention_days > 0 ORDER BY id`);
// A chunk ends at the moment of its last row, so that what is looked for and what is deleted are one stretch of the
// project's index.
const deleteOfProject = slowSql<{ count: number }>(`
  WITH gone AS (
    DELETE FROM audit_log WHERE project_id = $1 AND at < $2
      AND at <= coalesce((SELECT at FROM audit_log WHERE project_id = $1 AND at < $2 ORDER BY at, id OFFSET $3 LIMIT 1), $2) RETURNING 1
  ) SELECT count(*) AS count FROM gone`);

/** Rows that lie in no month. */
export const deleteStrayBefore = async (tx: Tx, cutoff: Date, batch: number): Promise<number> =>
  (await tx.first(deleteStray, [cutoff, batch]))?.count ?? 0;
/** 0 days, like none at all, leaves the matter to the instance. */
export const projectsWithRetention = (q: Query) => q.rows(withRetention);
export const deleteOfProjectBefore = async (
  tx: Tx,
  projectId: string,
  cutoff: Date,
  batch: number,
): Promise<number> => (await tx.first(deleteOfProject, [projectId, cutoff, batch - 1]))?.count ?? 0;
