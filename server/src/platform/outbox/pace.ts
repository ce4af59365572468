/**
 * When to look, and when to ring for the others. Quiet nodes wait for a notification, with a slow poll for the notification that was
 * never rung; busy ones look by the clock. A node that has seen another's fact just now looks again soon, so whoever
 * commits shortly after somebody else need not ring: bells come when activity begins, not with each commit. The more
 * nodes there are the less often each of them looks, so that all together ask the database a bounded number of times.
 */
export const POLL_MS = 200;
/** Between the beginnings of two looks of one node, and its share of what all nodes may ask. */
const SHORTEST_MS = 3;
const SHARE_MS = 0.5;
const LONGEST_MS = 50;
/** After another's fact, for so long by the clock: at first often, then less and less. */
const BUSY_MS = 600;
const SLOWER_PER_MS = 1 / 8;
/** After any fact that the others look out for, they need no notification for so long; well below `BUSY_MS`. */
const AWAKE_MS = 250;

export interface Timers {
  set(run: () => void, ms: number): unknown;
  clear(timer: unknown): void;
}

export const realTimers: Timers = {
  set: (run, ms) => setTimeout(run, ms).unref(),
  clear: (timer) => clearTimeout(timer as NodeJS.Timeout | undefined),
};

export class PollSchedule {
  /** Other nodes that listen; until we know, as if there were one. */
  peers = 1;
  #foreignAt = Number.NEGATIVE_INFINITY;
  #activeAt = Number.NEGATIVE_INFINITY;

  /** Between the beginnings of two looks. */
  get shortest(): number {
    return Math.min(LONGEST_MS, Math.max(SHORTEST_MS, (this.peers + 1) * SHARE_MS));
  }

  sawForeign(now: number): void {
    this.#foreignAt = now;
    this.#activeAt = now;
  }

  isBusy(now: number): boolean {
    return this.peers > 0 && now - this.#foreignAt < BUSY_MS;
  }

  /** Something was committed here: does anybody have to be woken for it? */
  mustRing(now: number): boolean {
    const areAwake = now - this.#activeAt < AWAKE_MS;
    this.#activeAt = now;
    return !areAwake && this.peers > 0;
  }

  notifyFailed(): void {
    this.#activeAt = Number.NEGATIVE_INFINITY;
  }

  /** After how long to look again where nothing is waited for. */
  next(now: number): number {
    if (!this.isBusy(now)) return POLL_MS;
    return Math.max(5, this.#after(now - this.#foreignAt));
  }

  /** Behind a hole that has been there for so long. */
  atHole(ms: number): number {
    return this.#after(ms);
  }

  #after(ms: number): number {
    return Math.min(LONGEST_MS, Math.max(this.shortest, ms * SLOWER_PER_MS));
  }
}
