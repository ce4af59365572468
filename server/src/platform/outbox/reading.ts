/**
 * What a node has read of the outbox and may deliver: decisions only, no clock of its own and no connection, so that
 * a million histories can be tried on it (see server/test/jar).
 *
 * A transaction draws its number before it commits, so number 7 may be seen before number 6. Delivering 7 would lose 6
 * for ever. So facts behind a gap wait, each read once, while the gap is queried with every poll; and once every
 * transaction has ended that was writing to the outbox when the gap was found, it is either filled or was rolled back.
 */
import type { NumberedFact } from "./fact.ts";
import { Told, type Claim, type Mark, type Sum } from "./told.ts";

/** More than this does not wait in memory behind a gap: then nothing further is read, and caches are not used. */
const MOST_WAITING = 50_000;
export const BATCH = 2000;

/** Numbers that nobody has been seen to use, from the first up to and with the last. */
interface Hole {
  readonly first: number;
  readonly last: number;
}

export interface OutboxQuestion {
  /** Everything above this, as far as it fits a page; null if nothing more would fit into memory. */
  readonly above: number | null;
  readonly holes: readonly Hole[];
  readonly claim: Claim;
}

/** What one snapshot of the outbox says. */
export interface OutboxPage {
  /** The highest number that was deleted: nothing up to it will ever be seen again. */
  readonly swept: number;
  /** The last number that was drawn. */
  readonly drawn: number | null;
  readonly facts: readonly NumberedFact[];
  /** Those that were in holes. */
  readonly late: readonly NumberedFact[];
  /** All that was deleted. */
  readonly gone: Sum;
  /** About the claimed numbers. */
  readonly claimed: Sum;
}

/** Whether the server's history agrees with ours; `unsaid` if it has deleted what it was asked about. */
type PageVerdict = "same" | "unsaid" | "other";

/** The gaps at a moment, and the transactions that were writing to the outbox then and may still fill them. */
interface Inquest {
  readonly holes: readonly Hole[];
  readonly suspects: Set<string>;
}

export class Reading {
  readonly #told = new Told();
  /** Delivered up to here. */
  #last = 0;
  /** Read up to here, except for the gaps. */
  #read = 0;
  #holes: Hole[] = [];
  /** Skipped after a time-out, not because it is known that nobody fills them. */
  #givenUp: Hole[] = [];
  readonly #waiting = new Map<number, NumberedFact>();
  #inquest: Inquest | undefined;

  get last(): number {
    return this.#last;
  }

  /** Is there something that may not be delivered yet? */
  get isBlocked(): boolean {
    return this.#waiting.size > 0;
  }

  /** The number that everything waits for, if it is known that it was drawn. */
  get hole(): number | undefined {
    return this.#holes[0]?.first;
  }

  startAt(mark: Mark): void {
    this.#last = this.#read = mark.seq;
    this.#forgetWaiting();
    this.#told.startAt(mark);
  }

  /** Another connection, perhaps another server: what was not delivered yet is read again. */
  reconnect(): void {
    this.#read = this.#last;
    this.#forgetWaiting();
  }

  #forgetWaiting(): void {
    this.#holes = [];
    this.#givenUp = [];
    this.#waiting.clear();
    this.#inquest = undefined;
  }

  question(): OutboxQuestion {
    return {
      above: this.#waiting.size >= MOST_WAITING ? null : this.#read,
      holes: [...this.#givenUp, ...this.#holes],
      claim: this.#told.latest,
    };
  }

  /** About everything that was ever delivered, for a server of which nothing is known. */
  wholeQuestion(): OutboxQuestion {
    return { above: null, holes: [], claim: this.#told.everything };
  }

  /** Does the server have the same history as we delivered, and everything that we have not delivered yet? */
  judge({ swept, drawn, claimed }: OutboxPage, claim: Claim): PageVerdict {
    if (swept > this.#last || (claim.to > 0 && (drawn ?? 0) < claim.to)) return "other";
    if (claim.from !== null && claim.count > 0 && swept > claim.from) return "unsaid";
    if (claimed.count !== claim.count || claimed.sum !== claim.sum) return "other";
    this.#told.confirm(claim);
    return "same";
  }

  /** Committed here. Answers whether it was not known yet. */
  own(fact: NumberedFact): boolean {
    if (fact.seq <= this.#last || this.#waiting.has(fact.seq)) return false;
    this.#waiting.set(fact.seq, fact);
    if (fact.seq <= this.#read) this.#fill(fact.seq);
    return true;
  }

  /** Answers what was not known yet; undefined if a number was used after its gap had been given up. */
  take({ facts, late }: OutboxPage): NumberedFact[] | undefined {
    const fresh: NumberedFact[] = [];
    for (const fact of late) {
      if (this.#givenUp.some((hole) => isIn(hole, fact.seq))) return undefined;
      this.#keep(fact, fresh);
      this.#fill(fact.seq);
    }
    for (const fact of facts) {
      if (fact.seq <= this.#read) continue; // delivered while the poll was in flight
      if (fact.seq > this.#read + 1) this.#holes.push(...this.#unseen(this.#read + 1, fact.seq - 1));
      this.#read = fact.seq;
      this.#keep(fact, fresh);
    }
    return fresh;
  }

  #keep(fact: NumberedFact, fresh: NumberedFact[]): void {
    if (fact.seq <= this.#last || this.#waiting.has(fact.seq)) return;
    this.#waiting.set(fact.seq, fact);
    fresh.push(fact);
  }

  /** Our own may be known already: a commit that came while the poll was in flight. */
  #unseen(first: number, last: number): Hole[] {
    const known = [...this.#waiting.keys()]
      .filter((seq) => seq >= first && seq <= last)
      .sort((a, b) => a - b);
    const holes: Hole[] = [];
    let next = first;
    for (const seq of [...known, last + 1]) {
      if (seq > next) holes.push({ first: next, last: seq - 1 });
      next = seq + 1;
    }
    return holes;
  }

  #fill(seq: number): void {
    const at = this.#holes.findIndex((hole) => isIn(hole, seq));
    const hole = this.#holes[at];
    if (!hole) return;
    const rest = [
      { first: hole.first, last: seq - 1 },
      { first: seq + 1, last: hole.last },
    ].filter(({ first, last }) => first <= last);
    this.#holes.splice(at, 1, ...rest);
  }

  /** What may be delivered now, in order; it counts as delivered. */
  advance(): NumberedFact[] {
    const ready: NumberedFact[] = [];
    for (;;) {
      const next = this.#last + 1;
      const fact = this.#waiting.get(next);
      if (!fact && (next > this.#read || this.#holes[0]?.first === next)) break;
      this.#last = next;
      if (!fact) continue; // nobody's number
      this.#waiting.delete(next);
      this.#told.add(fact);
      ready.push(fact);
    }
    this.#read = Math.max(this.#read, this.#last);
    return ready;
  }

  get hasInquest(): boolean {
    return this.#inquest !== undefined;
  }

  beginInquest(suspects: Iterable<string>): void {
    this.#inquest = { holes: [...this.#givenUp, ...this.#holes], suspects: new Set(suspects) };
  }

  /** The open writers, queried before a poll: a transaction that is not among them has ended, and that poll shows it. */
  narrow(stillThere: ReadonlySet<string>): void {
    for (const suspect of this.#inquest?.suspects ?? [])
      if (!stillThere.has(suspect)) this.#inquest?.suspects.delete(suspect);
  }

  get isInquestOver(): boolean {
    return this.#inquest?.suspects.size === 0;
  }

  /** After a poll of all gaps that began when the inquest was over: what is still a gap remains one for ever. */
  closeInquest(): void {
    const dead = this.#inquest?.holes ?? [];
    this.#inquest = undefined;
    const survive = (holes: readonly Hole[]): Hole[] => dead.reduce<Hole[]>(without, [...holes]);
    this.#holes = survive(this.#holes);
    this.#givenUp = survive(this.#givenUp);
  }

  /** Goes on without these gaps; but should one of their numbers be used after all, something was lost. */
  giveUp(): void {
    const asked = this.#inquest?.holes ?? [];
    this.#inquest = undefined;
    const others = asked.reduce<Hole[]>(without, this.#holes);
    this.#givenUp.push(...others.reduce<Hole[]>(without, this.#holes));
    this.#holes = others;
  }

  get hasGivenUp(): boolean {
    return this.#givenUp.length > 0;
  }
}

const isIn = ({ first, last }: Hole, seq: number): boolean => seq >= first && seq <= last;

function without(holes: readonly Hole[], dead: Hole): Hole[] {
  return holes.flatMap((hole) => {
    if (dead.last < hole.first || dead.first > hole.last) return [hole];
    return [
      { first: hole.first, last: dead.first - 1 },
      { first: dead.last + 1, last: hole.last },
    ].filter(({ first, last }) => first <= last);
  });
}

/** Does the page say all that there is to say? */
export const isWhole = (page: OutboxPage, question: OutboxQuestion): boolean =>
  question.above !== null && page.facts.length < BATCH && page.late.length < BATCH;
