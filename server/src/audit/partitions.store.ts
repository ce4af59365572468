/** Months of the audit table as things to make and to drop. Names and bounds come from the model, never from outside. */
import { searchSql, sql, type Query, type Tx } from "../platform/db/index.ts";
import type { Month } from "./model.ts";

const LOCK_KEY = 0x61756474; // "audt"

const lock = sql(`SELECT pg_advisory_xact_lock($1)`);
const impatience = sql(`SET LOCAL lock_timeout = '2s'`);
const names = sql<{ name: string }>(`
  SELECT c.relname AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
  WHERE i.inhparent = 'audit_log'::regclass ORDER BY c.relname`);
const strayRow = sql<{ found: boolean }>(
  `SELECT EXISTS (SELECT 1 FROM audit_log_default WHERE at >= $1 AND at < $2) AS found`,
);

/** A lock that was not to be had arrives as a problem for callers, with the database's own words as its cause. */
const codeOf = (error: unknown): string | undefined => {
  const { code, cause } = (error ?? {}) as { code?: string; cause?: { code?: string } };
  return code ?? cause?.code;
};
/** check_violation: the default partition has rows of the month that was to be attached. */
export const isStrayRowError = (error: unknown): boolean => codeOf(error) === "23514";
export const isLockBusy = (error: unknown): boolean => codeOf(error) === "55P03";

/** One node at a time; the others wait and then find the work done. */
export async function takePartitionLock(tx: Tx): Promise<void> {
  await tx.rows(lock, [LOCK_KEY]);
  // Waiting for a table lock makes every writer queue behind it: better to give up and try again.
  await tx.rows(impatience);
}

export const partitionNames = async (q: Query): Promise<string[]> =>
  (await q.rows(names)).map((row) => row.name);
export const hasStrayRows = async (q: Query, month: Month): Promise<boolean> =>
  (await q.first(strayRow, [month.from, month.to]))?.found ?? false;

/**
 * Made apart and then attached: creating a partition in place would lock every writer out, attaching does not.
 * The indexes follow from the parent's.
 */
export async function attachMonth(tx: Tx, { partition, from, to }: Month): Promise<void> {
  const bounds = `FROM ('${from.toISOString()}') TO ('${to.toISOString()}')`;
  await tx.rows(
    searchSql(`CREATE TABLE ${partition} (LIKE audit_log INCLUDING DEFAULTS INCLUDING CONSTRAINTS)`),
  );
  await tx.rows(searchSql(`ALTER TABLE audit_log ATTACH PARTITION ${partition} FOR VALUES ${bounds}`));
}

export const dropMonth = (tx: Tx, { partition }: Month) => tx.rows(searchSql(`DROP TABLE ${partition}`));
