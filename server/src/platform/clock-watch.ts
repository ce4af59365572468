/**
 * Nodes whose clocks differ refuse each other's tokens and issue certificates that begin in the future. All of them can
 * see one clock: the database's. Each compares itself with it; beyond two seconds it logs so and uses the database's
 * time, so that all nodes agree; beyond thirty it also signs nothing, because nobody knows which of the two is right.
 *
 * Between two comparisons time advances by the monotonic clock: a step of the system clock, wrong or right again, is not
 * followed before the database was asked, which happens at once.
 */
import type { Clock } from "./clock.ts";
import { sql, type Db } from "./db/index.ts";
import { reasonOf, type Log } from "./log.ts";
import type { Measure } from "./measure.ts";

const COMPARE_MS = 10_000;
const TOLD_MS = 300_000;
/** Below this, a difference may be network latency, and does not matter. */
const WORTH_TELLING_MS = 2000;
const WORTH_TRUSTING_MS = 30_000;

const databaseTime = sql<{ at: number }>(
  `SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS at`,
);

export interface ClockWatch {
  /** The calendar of this node, as all nodes see it. */
  readonly clock: Clock;
  readonly measures: readonly Measure[];
  /** How far the database's clock is ahead of this machine's, in milliseconds. */
  offsetMs(): number;
  compare(db: Db): Promise<void>;
  start(db: Db): void;
  stop(): void;
}

export function createClockWatch(own: Clock, log: Log): ClockWatch {
  let offset = 0;
  let toldAt = Number.NEGATIVE_INFINITY;
  let timer: NodeJS.Timeout | undefined;
  /** Hysteresis: once it uses the database's time, it does so until they agree well. */
  let isFollowing = false;
  /** System time and right time at zero of the monotonic clock, as of the last comparison. */
  let zero: { readonly own: number; readonly right: number } | undefined;
  let compareSoon: () => void = () => undefined;

  /** By how much the system clock was set since the last comparison. */
  const stepped = (): number => (zero ? own.millis() - own.elapsed() - zero.own : 0);
  const millis = (): number => {
    const shown = own.millis();
    if (!zero) return shown;
    if (Math.abs(stepped()) > WORTH_TELLING_MS) compareSoon();
    const right = zero.right + own.elapsed();
    // In whole milliseconds, because ids are made of them.
    return isFollowing || Math.abs(shown - right) > WORTH_TELLING_MS ? Math.round(right) : shown;
  };

  const tell = (): void => {
    const isOff = isFollowing;
    const hasBeenTold = toldAt > Number.NEGATIVE_INFINITY;
    if (!isOff) {
      if (hasBeenTold)
        log.info({ offsetMs: Math.round(offset) }, "this machine's clock and the database's agree again");
      toldAt = Number.NEGATIVE_INFINITY;
      return;
    }
    if (own.elapsed() - toldAt < TOLD_MS) return;
    toldAt = own.elapsed();
    const fields = { offsetMs: Math.round(offset) };
    if (Math.abs(offset) > WORTH_TRUSTING_MS)
      log.error(
        fields,
        "this machine's clock and the database's differ too much; nothing is signed here until they agree (is NTP running on both?)",
      );
    else log.warn(fields, "this machine's clock and the database's differ; going by the database's");
  };

  const compare = async (db: Db): Promise<void> => {
    const [began, beganAt] = [own.elapsed(), own.millis()];
    const row = await db.read((q) => q.first(databaseTime));
    const took = own.elapsed() - began;
    if (!row) return;
    // It was asked somewhere in between: the round trip is not part of the clocks' difference.
    const seen = row.at - (beganAt + took / 2);
    offset = Math.abs(seen) <= took / 2 ? 0 : seen;
    isFollowing = Math.abs(offset) > (isFollowing ? WORTH_TELLING_MS / 2 : WORTH_TELLING_MS);
    const atZero = beganAt - began;
    zero = { own: atZero, right: atZero + (isFollowing ? offset : 0) };
    tell();
  };

  return {
    clock: {
      now: () => new Date(millis()),
      millis,
      elapsed: () => own.elapsed(),
      isTrusted: () => Math.abs(offset) <= WORTH_TRUSTING_MS && Math.abs(stepped()) <= WORTH_TRUSTING_MS,
    },
    measures: [
      {
        name: "keyward_clock_offset_seconds",
        help: "How far the database's clock is ahead of this machine's. Beyond 2 seconds this node goes by the database's, beyond 30 it signs nothing.",
        kind: "gauge",
        read: () => [{ value: offset / 1000 }],
      },
    ],
    offsetMs: () => offset,
    compare,
    start(db) {
      let underWay: Promise<void> | undefined;
      compareSoon = () => {
        underWay ??= compare(db)
          .catch((error: unknown) =>
            log.debug({ reason: reasonOf(error) }, "the clocks could not be compared"),
          )
          .finally(() => (underWay = undefined));
      };
      timer = setInterval(() => compareSoon(), COMPARE_MS).unref();
    },
    stop: () => clearInterval(timer),
  };
}
