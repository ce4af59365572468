/**
 * A migration may take as long as it needs, so no time-out tells us that its connection is dead. Another connection does: it
 * asks the server what ours is doing. One that the server no longer knows, or that it has answered long ago, is cut off,
 * and so it is when nobody answers at all; then the start fails with a reason instead of waiting for ever.
 */
import type pg from "pg";
import { hasAnswered } from "./errors.ts";
import { withOwnConnection } from "./own-connection.ts";
import type { Database } from "./database.ts";
import { sever } from "@keyward/pg-pipeline";

const ASK_MS = 5000;
/** The server has nothing to do for it: an answer takes less to arrive. */
const ANSWERED_MS = 30_000;
const UNHEARD_MS = 20_000;

interface Doing {
  readonly idleMs: number | null;
  readonly blockers: readonly number[];
}
const DOING = `
  SELECT CASE WHEN state LIKE 'idle%' THEN extract(epoch FROM clock_timestamp() - state_change) * 1000 END::float8 AS "idleMs",
         pg_blocking_pids(pid) AS blockers
  FROM pg_stat_activity WHERE pid = $1`;

/** Answers how to end it. */
export function watchMigration(
  database: Database,
  client: pg.Client,
  onBlocked: (pids: readonly number[]) => void,
): () => void {
  const { processID } = client as unknown as { readonly processID: number };
  let heardAt = performance.now();
  let isAsking = false;
  let isOver = false;

  const ask = async (): Promise<void> => {
    const doing = await withOwnConnection(database, "look", async (asker) => {
      const { rows } = await asker.query<Doing>(DOING, [processID]);
      return rows[0];
    });
    if (isOver) return;
    heardAt = performance.now();
    if (!doing || (doing.idleMs ?? 0) > ANSWERED_MS) sever(client);
    else if (doing.blockers.length > 0) onBlocked(doing.blockers);
  };
  const timer = setInterval(() => {
    if (performance.now() - heardAt > UNHEARD_MS) sever(client);
    if (isAsking) return;
    isAsking = true;
    ask()
      .catch((error: unknown) => {
        // The server refuses, usually because it has no free connection. Our own may well be working.
        if (hasAnswered(error)) heardAt = performance.now();
      })
      .finally(() => {
        isAsking = false;
      });
  }, ASK_MS);
  return () => {
    isOver = true;
    clearInterval(timer);
  };
}
