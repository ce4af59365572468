import { slowSql, sql, type SlowQuery, type Tx } from "../platform/db/index.ts";

// One on hold keeps its time: it is renewed once it is released, and never before.
// The first of each organisation, then the second of each: a thousand that are due in one do not delay another's one.
// So many of each project along its index, however many there are.
const due = slowSql<{ id: string; attempts: number }>(`
  SELECT d.id, d.attempts FROM (
    SELECT c.id, c.attempts, c.renew_at, row_number() OVER (PARTITION BY p.org_id ORDER BY c.renew_at) AS turn
    FROM projects p CROSS JOIN LATERAL (
      SELECT id, renewal_attempts AS attempts, renew_at FROM certificates
      WHERE project_id = p.id AND renew_at <= $1 AND revoked_at IS NULL ORDER BY renew_at LIMIT $2) c) d
  ORDER BY d.turn, d.renew_at LIMIT $2`);
// What was renewed, revoked or switched off meanwhile is not put on the list again.
const postpone = sql<{ id: string }>(`
  UPDATE certificates SET renew_at = $2, renewal_attempts = renewal_attempts + 1, renewal_error = $3, updated_at = $4
  WHERE id = $1 AND renew_at IS NOT NULL AND revoked_at IS NULL RETURNING id`);
const stop = sql(
  `UPDATE certificates SET renew_at = NULL, renewal_error = coalesce($3, renewal_error), updated_at = $2 WHERE id = $1 AND revoked_at IS NULL`,
);

export const dueRenewals = (q: SlowQuery, now: Date, most: number) => q.rows(due, [now, most]);
/** False if there is nothing to try again any more. */
export const postponeRenewal = async (
  tx: Tx,
  id: string,
  again: { readonly next: Date; readonly reason: string; readonly at: Date },
): Promise<boolean> => (await tx.first(postpone, [id, again.next, again.reason, again.at])) !== undefined;
/** Without a reason, an error of an earlier try stays to be read. */
export const stopRenewal = (
  tx: Tx,
  id: string,
  end: { readonly at: Date; readonly reason: string | null },
): void => tx.defer(stop, [id, end.at, end.reason]);
