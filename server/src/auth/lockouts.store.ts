/**
 * Failed logins are counted per account and address: an attacker locks out themselves, not the machine at
 * another address that has the right secret (S-04).
 */
import { sql, type Query, type Tx } from "../platform/db/index.ts";

interface LockoutPolicy {
  readonly threshold: number;
  readonly lockSeconds: number;
  readonly resetSeconds: number;
}

export interface LoginAttempt {
  readonly subjectId: string;
  readonly method: string;
  readonly address: string;
}

const find = sql<{ lockedUntil: Date | null }>(
  `SELECT locked_until AS "lockedUntil" FROM lockouts WHERE subject_id = $1 AND method = $2 AND address = $3`,
);
// One statement, so that a hundred tries at once are a hundred counts: the row lock lines them up.
const fail = sql<{ lockedUntil: Date | null; failures: number }>(`
  INSERT INTO lockouts AS l (subject_id, method, address, failures, last_failed_at, locked_until)
  VALUES ($1, $2, $3, 1, $4::timestamptz, CASE WHEN $5 <= 1 THEN $4::timestamptz + make_interval(secs => $6) END)
  ON CONFLICT (subject_id, method, address) DO UPDATE SET
    failures = CASE WHEN l.last_failed_at < $4::timestamptz - make_interval(secs => $7) OR l.locked_until <= $4 THEN 1 ELSE l.failures + 1 END,
    locked_until = CASE
      WHEN l.locked_until > $4 THEN l.locked_until
      WHEN (CASE WHEN l.last_failed_at < $4::timestamptz - make_interval(secs => $7) OR l.locked_until <= $4 THEN 1 ELSE l.failures + 1 END) >= $5
        THEN $4::timestamptz + make_interval(secs => $6) END,
    last_failed_at = $4
  RETURNING locked_until AS "lockedUntil", failures`);
// A lock that it brought about goes with it.
const uncount = sql(`
  UPDATE lockouts SET failures = greatest(failures - 1, 0), locked_until = CASE WHEN failures > $4 THEN locked_until END
  WHERE subject_id = $1 AND method = $2 AND address = $3`);
const clear = sql<{ method: string }>(
  `DELETE FROM lockouts WHERE subject_id = $1 AND method = $2 AND ($3::text IS NULL OR address = $3) RETURNING method`,
);
const sweep = sql(
  `DELETE FROM lockouts WHERE last_failed_at < $1 AND (locked_until IS NULL OR locked_until < $1)`,
);

export const findLockout = (q: Query, a: LoginAttempt) => q.first(find, [a.subjectId, a.method, a.address]);
export const countFailure = (tx: Tx, a: LoginAttempt, policy: LockoutPolicy, at: Date) =>
  tx.first(fail, [
    a.subjectId,
    a.method,
    a.address,
    at,
    policy.threshold,
    policy.lockSeconds,
    policy.resetSeconds,
  ]);
/** Takes back what was counted before it turned out that nothing was tried. */
export const uncountFailure = (tx: Tx, a: LoginAttempt, policy: LockoutPolicy) =>
  tx.rows(uncount, [a.subjectId, a.method, a.address, policy.threshold]);
/** `address` null = all of them; answers how many were forgotten. */
export const forgetFailures = async (tx: Tx, subjectId: string, method: string, address: string | null) =>
  (await tx.rows(clear, [subjectId, method, address])).length;
export const sweepLockouts = (tx: Tx, before: Date) => tx.rows(sweep, [before]);
