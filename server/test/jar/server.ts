/**
 * As much of a database server as the tail of an outbox can tell from a real one: numbers that are drawn before the
 * commit and logged ahead of use, commits that can be seen some time after they were logged, clean-ups, and a log of which
 * another server may have only the beginning.
 */
import type { NumberedFact } from "../../src/platform/outbox/index.ts";
import type { OutboxQuestion } from "../../src/platform/outbox/reading.ts";
import { plus, type Sum } from "../../src/platform/outbox/told.ts";

const LOGGED_AHEAD = 32;

export interface Row extends NumberedFact {
  readonly visibleAt: number;
}

interface Open {
  readonly xid: number;
  readonly rows: NumberedFact[];
}

type Entry =
  | { readonly kind: "commit"; readonly xid: number; readonly rows: readonly NumberedFact[] }
  | { readonly kind: "sweep"; readonly upTo: number }
  | { readonly kind: "numbers"; readonly upTo: number };

/** Microseconds from milliseconds. */
const stampOf = (at: number): number => 1_000_000 + Math.round(at * 1000);

export class FakeServer {
  readonly timeline: number;
  readonly #log: Entry[] = [];
  /** Everything that was ever visible here, deleted or not. */
  readonly history = new Map<number, Row>();
  readonly rows = new Map<number, Row>();
  readonly #open = new Map<number, Open>();
  #nextXid: number;
  #drawn: number;
  #loggedUpTo: number;
  swept = 0;
  #gone: Sum = { count: 0, sum: 0 };

  constructor(timeline = 1, nextXid = 100, drawn = 0) {
    this.timeline = timeline;
    this.#nextXid = nextXid;
    this.#drawn = drawn;
    this.#loggedUpTo = drawn;
  }

  /** Another server that has this one's log except for its last entries. */
  promote(lost: number, at: number): FakeServer {
    const kept = this.#log.slice(0, Math.max(0, this.#log.length - lost));
    let [xid, drawn] = [100, 0];
    for (const entry of kept) {
      if (entry.kind === "commit") xid = Math.max(xid, entry.xid + 1);
      if (entry.kind === "numbers") drawn = entry.upTo;
    }
    const other = new FakeServer(this.timeline + 1, xid, drawn);
    for (const entry of kept) {
      other.#log.push(entry);
      if (entry.kind === "commit")
        for (const row of entry.rows)
          other.#show({ ...row, visibleAt: this.history.get(row.seq)?.visibleAt ?? at });
      if (entry.kind === "sweep") other.#sweepUpTo(entry.upTo);
    }
    return other;
  }

  get logLength(): number {
    return this.#log.length;
  }

  begin(facts: number, at: number, name: () => string): number {
    const xid = this.#nextXid++;
    const rows = Array.from({ length: facts }, () => {
      if (this.#drawn === this.#loggedUpTo) {
        this.#loggedUpTo += LOGGED_AHEAD;
        this.#log.push({ kind: "numbers", upTo: this.#loggedUpTo });
      }
      this.#drawn += 1;
      return { seq: this.#drawn, xid, at: stampOf(at), name: name(), data: null };
    });
    this.#open.set(xid, { xid, rows });
    return xid;
  }

  rollBack(xid: number): void {
    this.#open.delete(xid);
  }

  /** In the log; it can be seen when `show` is called. */
  log(xid: number): readonly NumberedFact[] {
    const rows = this.#open.get(xid)?.rows ?? [];
    this.#log.push({ kind: "commit", xid, rows });
    return rows;
  }

  show(xid: number, at: number): void {
    for (const row of this.#open.get(xid)?.rows ?? []) this.#show({ ...row, visibleAt: at });
    this.#open.delete(xid);
  }

  #show(row: Row): void {
    this.rows.set(row.seq, row);
    this.history.set(row.seq, row);
  }

  sweep(before: number): void {
    const old = [...this.rows.values()].filter(({ at }) => at < stampOf(before));
    if (old.length === 0) return;
    const upTo = Math.max(...old.map(({ seq }) => seq));
    this.#log.push({ kind: "sweep", upTo });
    this.#sweepUpTo(upTo);
  }

  #sweepUpTo(upTo: number): void {
    this.swept = Math.max(this.swept, upTo);
    for (const { seq, at } of [...this.rows.values()]) {
      if (seq > upTo) continue;
      this.rows.delete(seq);
      this.#gone = plus(this.#gone, { count: 1, sum: at });
    }
  }

  writers(): Set<string> {
    return new Set([...this.#open.keys()].map(String));
  }

  page({ above, holes, claim }: OutboxQuestion, batch: number) {
    const facts: Row[] = [];
    if (above !== null) this.#between(above + 1, this.#drawn, facts, batch);
    const late: Row[] = [];
    for (const { first, last } of holes) this.#between(first, last, late, batch);
    const claimed: Row[] = [];
    this.#between((claim.from ?? 0) + 1, claim.to, claimed, Number.POSITIVE_INFINITY);
    const none: Sum = { count: 0, sum: 0 };
    return {
      swept: this.swept,
      drawn: this.#drawn === 0 ? null : this.#drawn,
      facts,
      late,
      gone: this.#gone,
      claimed: claimed.reduce(
        (sum, { at }) => plus(sum, { count: 1, sum: at }),
        claim.from === null ? this.#gone : none,
      ),
    };
  }

  #between(first: number, last: number, into: Row[], most: number): void {
    for (let seq = first; seq <= last && into.length < most; seq += 1) {
      const row = this.rows.get(seq);
      if (row) into.push(row);
    }
  }

  get last(): number {
    return Math.max(this.swept, ...this.rows.keys());
  }
}
