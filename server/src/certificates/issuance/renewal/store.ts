import { slowSql, sql, type Query, type Tx } from "../../../platform/db/index.ts";

// One on hold keeps its time: it is renewed once it is released, and never before.
const due = slowSql<{ id: string; attempts: number }>(
  `SELECT id, renewal_attempts AS attempts FROM certificates WHERE renew_at <= $1 AND revoked_at IS NULL ORDER BY renew_at LIMIT $2`,
);
const postpone = sql(
  `UPDATE certificates SET renew_at = CASE WHEN $2::timestamptz < not_after THEN $2 END, renewal_attempts = renewal_attempts + 1, renewal_error = $3, updated_at = $4 WHERE id = $1`,
);
const stop = sql(
  `UPDATE certificates SET renew_at = NULL, updated_at = $2 WHERE id = $1 AND revoked_at IS NULL`,
);

export const dueRenewals = (q: Query, now: Date, most: number) => q.rows(due, [now, most]);
/** Tried again at `next`, unless the certificate has ended by then. */
export const postponeRenewal = (
  tx: Tx,
  id: string,
  again: { readonly next: Date; readonly reason: string; readonly at: Date },
): void => tx.later(postpone, [id, again.next, again.reason, again.at]);
export const stopRenewal = (tx: Tx, id: string, at: Date): void => tx.later(stop, [id, at]);
