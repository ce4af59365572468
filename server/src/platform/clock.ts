import { Problem } from "./problem.ts";

/**
 * Time comes from here and nowhere else, so that a test can step a year ahead in a millisecond.
 * `now` is the wall clock; `elapsed` is the monotonic clock in milliseconds that no clock step can move,
 * for time-outs, freshness and intervals.
 */
export interface Clock {
  now(): Date;
  millis(): number;
  elapsed(): number;
  /** May signatures be made with this time? False while it is known to be far from the other nodes'. */
  isTrusted?(): boolean;
}

/** Before anything is signed: with a wrong `notBefore` clients refuse it, or it is valid for too long. */
export function requireTrustedClock(clock: Clock): void {
  if (clock.isTrusted?.() === false)
    throw new Problem(
      503,
      "ServiceUnavailable",
      "This node's clock differs from the database's by more than 30 seconds; it signs nothing until they agree.",
      { retryAfterSeconds: 10 },
    );
}

export const systemClock: Clock = {
  now: () => new Date(),
  millis: () => Date.now(),
  elapsed: () => performance.now(),
};

export interface SteppedClock extends Clock {
  advance(milliseconds: number): void;
  set(at: Date): void;
}

/** A clock that follows the real one from `start` on and jumps on request; the monotonic clock stays real. */
export function steppedClock(start: Date = new Date()): SteppedClock {
  let offset = start.getTime() - Date.now();
  return {
    now: () => new Date(Date.now() + offset),
    millis: () => Date.now() + offset,
    elapsed: () => performance.now(),
    advance: (milliseconds) => {
      offset += milliseconds;
    },
    set: (at) => {
      offset = at.getTime() - Date.now();
    },
  };
}
