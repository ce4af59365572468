/**
 * Requests per minute and caller. Counting happens in memory, so that a request costs no round trip; once a
 * second each node adds what it counted to a shared table and reads back the sum, so that several nodes share one
 * limit and a restart does not reset it. A caller can so pass the limit by at most one second's worth per node.
 */
import type { Clock } from "../clock.ts";
import { sql, type Db } from "../db/index.ts";
import type { Log } from "../log.ts";

export type Bucket = "read" | "write" | "login";

export interface Verdict {
  readonly allowed: boolean;
  readonly limit: number;
  readonly remaining: number;
  readonly resetSeconds: number;
}

export interface RateLimits {
  /** Counts one request of this caller, or as many as it costs; undefined when the bucket has no limit. */
  count(bucket: Bucket, caller: string, cost?: number): Verdict | undefined;
  share(): Promise<void>;
  start(): void;
  stop(): void;
}

interface Counter {
  shared: number;
  fresh: number;
}

const WINDOW_MS = 60_000;
const SHARE_MS = 1000;

const addCounts = sql<{ key: string; count: number }>(`
  INSERT INTO rate_limits AS r (key, window_start, count)
  SELECT key, $1, count FROM unnest($2::text[], $3::bigint[]) AS fresh (key, count) ORDER BY key
  ON CONFLICT (key, window_start) DO UPDATE SET count = r.count + excluded.count
  RETURNING key, count`);
const dropOld = sql(`DELETE FROM rate_limits WHERE window_start < $1`);

export function createRateLimits(needs: {
  readonly limits: Readonly<Record<Bucket, number>>;
  readonly db: Db;
  readonly clock: Clock;
  readonly log: Log;
}): RateLimits {
  const { limits, db, clock, log } = needs;
  let windowStart = 0;
  let counters = new Map<string, Counter>();
  let sweptFor = 0;
  let timer: NodeJS.Timeout | undefined;

  const roll = (now: number): void => {
    const start = now - (now % WINDOW_MS);
    if (start === windowStart) return;
    windowStart = start;
    counters = new Map();
  };

  const share = async (): Promise<void> => {
    roll(clock.millis());
    const busy = [...counters].filter(([, counter]) => counter.fresh > 0);
    if (busy.length === 0) return;
    const window = counters;
    const sent = busy.map(([key, counter]) => ({ key, count: counter.fresh }));
    for (const [, counter] of busy) {
      counter.shared += counter.fresh;
      counter.fresh = 0;
    }
    const values = [new Date(windowStart), sent.map((s) => s.key), sent.map((s) => s.count)];
    const sums = await db.write(
      async (tx) => {
        if (sweptFor !== windowStart) await tx.rows(dropOld, [new Date(windowStart - 5 * WINDOW_MS)]);
        sweptFor = windowStart;
        return tx.rows(addCounts, values);
      },
      { audited: false },
    );
    for (const { key, count } of sums) {
      const counter = window.get(key);
      if (counter) counter.shared = Math.max(counter.shared, count);
    }
  };

  return {
    count(bucket, caller, cost = 1) {
      const limit = limits[bucket];
      if (limit === 0) return undefined;
      const now = clock.millis();
      roll(now);
      const key = `${bucket}:${caller}`;
      let counter = counters.get(key);
      if (!counter) counters.set(key, (counter = { shared: 0, fresh: 0 }));
      // Whatever it costs, a caller who has done nothing yet may do it once.
      counter.fresh += Math.min(cost, limit);
      const used = counter.shared + counter.fresh;
      const resetSeconds = Math.max(1, Math.ceil((windowStart + WINDOW_MS - now) / 1000));
      return { allowed: used <= limit, limit, remaining: Math.max(0, limit - used), resetSeconds };
    },
    share,
    start() {
      timer = setInterval(() => {
        share().catch((error: unknown) =>
          log.debug({ reason: (error as Error).message }, "rate limits were not shared this second"),
        );
      }, SHARE_MS).unref();
    },
    stop: () => clearInterval(timer),
  };
}
