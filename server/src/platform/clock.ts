/**
 * Time comes from here and nowhere else, so that a test can step a year ahead in a millisecond.
 * `now` is the calendar; `elapsed` is a monotonic stopwatch in milliseconds that no clock step can move,
 * for time-outs, freshness and intervals.
 */
export interface Clock {
  now(): Date;
  millis(): number;
  elapsed(): number;
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

/** A calendar that follows the real one from `start` on and jumps when told; the stopwatch stays real. */
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
