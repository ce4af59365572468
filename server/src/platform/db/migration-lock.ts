/**
 * The lock for migrations. It is polled, not waited for: so a node that does not get it can log who has
 * it, and goes on without it once the work is done, even if its holder never releases it.
 */
import type pg from "pg";

const LOCK_KEY = 0x6b657977; // "keyw"
const AGAIN_MS = 250;
const FIRST_TOLD_MS = 2000;
const TOLD_MS = 5000;

/** Who holds it, as far as this role may know. */
export interface LockHolder {
  readonly pid: number;
  readonly application: string | null;
  readonly address: string | null;
  readonly connectedSince: Date | null;
  readonly state: string | null;
  readonly inThatSince: Date | null;
}
export type OnWait = (holders: readonly LockHolder[], seconds: number) => void;

const HOLDERS = `
  SELECT l.pid, a.application_name AS application, a.client_addr::text AS address, a.backend_start AS "connectedSince",
         a.state, a.state_change AS "inThatSince"
  FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
  WHERE l.locktype = 'advisory' AND l.classid = 0 AND l.objid = ${LOCK_KEY} AND l.objsubid = 1 AND l.granted
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`;

const isTaken = async (client: pg.Client): Promise<boolean> => {
  const { rows } = await client.query<{ taken: boolean }>("SELECT pg_try_advisory_lock($1) AS taken", [
    LOCK_KEY,
  ]);
  return rows[0]?.taken ?? false;
};

/** Answers how to give it back: also where there was no need to take it any more. */
export async function takeMigrationLock(
  client: pg.Client,
  { isDone, onWait }: { readonly isDone: () => Promise<boolean>; readonly onWait: OnWait | undefined },
): Promise<() => Promise<void>> {
  const from = performance.now();
  for (let toldAt = from + FIRST_TOLD_MS - TOLD_MS; !(await isTaken(client));) {
    if (await isDone()) return async () => undefined;
    const now = performance.now();
    if (now - toldAt >= TOLD_MS) {
      toldAt = now;
      onWait?.((await client.query<LockHolder>(HOLDERS)).rows, Math.round((now - from) / 1000));
    }
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
  return async () => void (await client.query("SELECT pg_advisory_unlock($1)", [LOCK_KEY]));
}
