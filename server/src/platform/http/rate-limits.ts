/**
 * Requests per minute and caller, and per minute and organisation. Counting happens in memory, so that a request costs
 * no round trip; once a second each node adds what it counted to a shared table and reads back the sum, so that
 * several nodes share one limit and a restart does not reset it.
 *
 * Most callers never come near their limit, and a row for each of them and second would be most of what reading writes.
 * So a caller's count is shared from a twentieth of the limit on. A caller can so pass the limit by at most that
 * twentieth and one second's worth, per node.
 *
 * A share that fails, or takes long, delays nobody: it has a connection of its own, the next one waits for it,
 * and what it did not store stays counted here and is shared later.
 */
import type { Clock } from "../clock.ts";
import { sql, unlessMade, type Db } from "../db/index.ts";
import type { Log } from "../log.ts";
import { oneAtATime } from "../one-at-a-time.ts";

type Bucket = "read" | "write" | "login" | "orgRead" | "orgWrite";

export interface RateVerdict {
  readonly allowed: boolean;
  readonly limit: number;
  readonly remaining: number;
  readonly resetSeconds: number;
}

export interface RateLimits {
  /** Counts one request of this caller, or as many as it costs; undefined when the bucket has no limit. */
  count(bucket: Bucket, caller: string, cost?: number): RateVerdict | undefined;
  share(): Promise<void>;
  start(): void;
  stop(): void;
}

interface RateCounter {
  /** Of all nodes, as far as this one knows; its own part of it included. */
  shared: number;
  /** Of this node, not yet shared. */
  fresh: number;
  readonly sharedFrom: number;
}

interface Sent {
  readonly key: string;
  readonly counter: RateCounter;
  readonly count: number;
}

const WINDOW_MS = 60_000;
const SHARE_MS = 1000;
const SHARED_FROM = 1 / 20;

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
  let counters = new Map<string, RateCounter>();
  let sweptFor = 0;
  let timer: NodeJS.Timeout | undefined;

  const roll = (now: number): void => {
    const start = now - (now % WINDOW_MS);
    if (start === windowStart) return;
    windowStart = start;
    counters = new Map();
  };

  /** What was sent counts as shared from then on, because counting goes on meanwhile. */
  const takeFresh = (): Sent[] => {
    const sent: Sent[] = [];
    for (const [key, counter] of counters) {
      const { fresh, shared } = counter;
      if (fresh === 0 || (shared === 0 && fresh < counter.sharedFrom)) continue;
      sent.push({ key, counter, count: fresh });
      counter.shared += fresh;
      counter.fresh = 0;
    }
    return sent;
  };

  /** Into the window that they were counted in: another may have begun by the time it is their turn. */
  const add = (sent: readonly Sent[], window: number) =>
    db.write(
      async (tx) => {
        if (sweptFor !== window) await tx.rows(dropOld, [new Date(window - 5 * WINDOW_MS)]);
        sweptFor = window;
        return tx.rows(addCounts, [
          new Date(window),
          sent.map(({ key }) => key),
          sent.map(({ count }) => count),
        ]);
      },
      { audited: false, isChore: true, isTraced: true },
    );

  const share = oneAtATime(async () => {
    roll(clock.millis());
    const sent = takeFresh();
    if (sent.length === 0) return;
    const byKey = new Map(sent.map((one) => [one.key, one.counter]));
    const sums = await add(sent, windowStart).catch((error: unknown) => {
      void unlessMade(error, () => {
        for (const { counter, count } of sent) {
          counter.shared -= count;
          counter.fresh += count;
        }
      });
      throw error;
    });
    for (const { key, count } of sums) {
      const counter = byKey.get(key);
      if (counter) counter.shared = Math.max(counter.shared, count);
    }
  });

  return {
    count(bucket, caller, cost = 1) {
      const limit = limits[bucket];
      if (limit === 0) return undefined;
      const now = clock.millis();
      roll(now);
      const key = `${bucket}:${caller}`;
      let counter = counters.get(key);
      if (!counter)
        counters.set(key, (counter = { shared: 0, fresh: 0, sharedFrom: Math.floor(limit * SHARED_FROM) }));
      // However heavy it is, a caller who has done nothing yet may do it once.
      counter.fresh += Math.min(cost, limit);
      const used = counter.shared + counter.fresh;
      const resetSeconds = Math.max(1, Math.ceil((windowStart + WINDOW_MS - now) / 1000));
      return { allowed: used <= limit, limit, remaining: Math.max(0, limit - used), resetSeconds };
    },
    share,
    start() {
      timer = setInterval(() => {
        share().catch((error: unknown) =>
          log.warn(
            { reason: (error as Error).message },
            "rate counts were not shared this second; trying again",
          ),
        );
      }, SHARE_MS).unref();
    },
    stop: () => clearInterval(timer),
  };
}
