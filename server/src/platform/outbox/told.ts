/**
 * What this node has delivered to its listeners, in two numbers, so that a server can be asked whether it has the same
 * history: how many facts there were up to a number, and a sum over the times at which they were stated. A server that
 * lost one of them, or has another in its place, answers something else; that its numbers go further than ours says
 * nothing, because a sequence runs ahead of what was committed with it.
 */
import type { NumberedFact } from "./fact.ts";

/** Sums are kept below this, so that adding one more time in microseconds stays exact. */
export const SUM_MODULUS = 2 ** 52;

export interface Sum {
  readonly count: number;
  readonly sum: number;
}

export const plus = (one: Sum, other: Sum): Sum => ({
  count: one.count + other.count,
  sum: (one.sum + other.sum) % SUM_MODULUS,
});

/** All facts up to a number, counted and added up, from the first one that there ever was. */
export interface Mark extends Sum {
  readonly seq: number;
}

/** What a server with our history says about the numbers above `from`, up to and with `to`. */
export interface Claim extends Sum {
  /** Null: from the very first. */
  readonly from: number | null;
  readonly to: number;
  readonly end: Mark;
}

export class Told {
  #now: Mark = { seq: 0, count: 0, sum: 0 };
  /** The current server has confirmed it. */
  #confirmed: Mark = this.#now;

  startAt(mark: Mark): void {
    this.#now = this.#confirmed = mark;
  }

  add({ seq, at }: Pick<NumberedFact, "seq" | "at">): void {
    const { count, sum } = this.#now;
    this.#now = { seq, count: count + 1, sum: (sum + at) % SUM_MODULUS };
  }

  /** What was delivered since the server last confirmed something; what was read there, and what we committed. */
  get latest(): Claim {
    const { seq, count, sum } = this.#confirmed;
    const end = this.#now;
    return {
      from: seq,
      to: end.seq,
      count: end.count - count,
      sum: (end.sum - sum + SUM_MODULUS) % SUM_MODULUS,
      end,
    };
  }

  get everything(): Claim {
    const end = this.#now;
    return { from: null, to: end.seq, count: end.count, sum: end.sum, end };
  }

  confirm({ end }: Claim): void {
    if (end.seq > this.#confirmed.seq) this.#confirmed = end;
  }
}
