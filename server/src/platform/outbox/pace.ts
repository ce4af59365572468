/**
 * When to poll, and when to notify the peers (NOTIFY). Idle nodes wait for a notification, with a slow poll for one that was
 * never sent; busy ones poll often. A node that has just seen another's fact polls again soon, so a node that
 * commits shortly after another need not notify: notifications come when activity begins, not with each commit. The more
 * nodes there are the less often each of them polls, so that all together send a bounded number of queries.
 */
export const POLL_MS = 200;
/** Between the beginnings of two polls of one node, and its share of what all nodes may send. */
const SHORTEST_MS = 3;
const SHARE_MS = 0.5;
const LONGEST_MS = 50;
/** For how long to poll after another's fact: at first often, then less and less. */
const BUSY_MS = 600;
const SLOWER_PER_MS = 1 / 8;
/** After any fact the peers poll, and need no notification for this long; well below `BUSY_MS`. */
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

  /** Between the beginnings of two polls. */
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

  /** Something was committed here: do peers have to be notified? */
  mustRing(now: number): boolean {
    const areAwake = now - this.#activeAt < AWAKE_MS;
    this.#activeAt = now;
    return !areAwake && this.peers > 0;
  }

  notifyFailed(): void {
    this.#activeAt = Number.NEGATIVE_INFINITY;
  }

  /** After how long to poll again when no gap is waited for. */
  next(now: number): number {
    if (!this.isBusy(now)) return POLL_MS;
    return Math.max(5, this.#after(now - this.#foreignAt));
  }

  /** While a gap has been there for this long. */
  atHole(ms: number): number {
    return this.#after(ms);
  }

  #after(ms: number): number {
    return Math.min(LONGEST_MS, Math.max(this.shortest, ms * SLOWER_PER_MS));
  }
}
