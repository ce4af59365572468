/**
 * How many of something there may be. Up to ten thousand are counted each time, which takes a millisecond. Counting a
 * hundred thousand for each new one would cost more than the row: after a count, a sixteenth of the room that is left is
 * given out without counting again, and that there is none is cached for a second. So the last ones are counted one
 * by one and the first ones hardly ever.
 *
 * On one node the bound is exact: what a transaction may create counts from then on until it has ended.
 * Several nodes do not know of each other's transactions, so together they may exceed it by as many as are open on
 * the others at that moment.
 */
import { LRUCache } from "lru-cache";
import { sql, type Query, type Tx } from "./db/index.ts";
import { badRequest } from "./problem.ts";

interface BoundOptions {
  readonly most: number;
  /** "A project has at most", "folders". */
  readonly words: readonly [string, string];
  /** Counts no more than `most` of them. */
  readonly count: (q: Query, scope: string, most: number) => Promise<number>;
}

interface Bound {
  /** Throws if there is no room for so many more; what is allowed stays so until the transaction is over. */
  leaveRoom(tx: Tx, scope: string, more?: number): Promise<void>;
  /** Throws if there is no room for so many more: an early check before long work, without a promise. */
  check(q: Query, scope: string, more?: number): Promise<void>;
}

const PART = 16;
const COUNTED = 10_000;
const SCOPES = 10_000;
const FULL_MS = 1000;
/** What to wait for before refusing: open transactions may have been counted already, or fail. */
const LOOKS = 16;
const PATIENCE_MS = 1000;

/** What open transactions of one scope on this node have been allowed. */
interface Underway {
  held: number;
  /** All that ever ended: a count that runs meanwhile may or may not include them. */
  over: number;
  /** How many callers use this now; removed when there are none. */
  users: number;
  readonly waiting: Set<() => void>;
}

/** False if none came. */
const nextEnd = ({ waiting }: Underway): Promise<boolean> =>
  new Promise((resolve) => {
    const end = (isOver: boolean) => {
      clearTimeout(timer);
      waiting.delete(go);
      resolve(isOver);
    };
    const go = () => end(true);
    const timer = setTimeout(() => end(false), PATIENCE_MS);
    waiting.add(go);
  });

export function createBound({ most, words: [where, what], count }: BoundOptions): Bound {
  const granted = new LRUCache<string, number>({ max: SCOPES });
  const full = new LRUCache<string, true>({ max: SCOPES, ttl: FULL_MS });
  const scopes = new Map<string, Underway>();
  /** What a transaction was allowed before: it has made that by now, and sees it. */
  const own = new WeakMap<Query, Map<string, number>>();
  const refusal = () => badRequest(`${where} ${most.toLocaleString("en")} ${what}.`);

  /** Between the count and the grant based on it nobody else gets in. */
  const take = async (q: Query, scope: string, more: number, at: Underway): Promise<void> => {
    const left = granted.get(scope) ?? 0;
    if (left >= more) {
      granted.set(scope, left - more);
      at.held += more;
      return;
    }
    if (full.has(scope)) throw refusal();
    for (let look = 1; ; look += 1) {
      const { over } = at;
      const there = await count(q, scope, most);
      const room = most - there - more;
      const sure = room - (at.held - (own.get(q)?.get(scope) ?? 0)) - (at.over - over);
      if (sure >= 0) {
        if (most > COUNTED) granted.set(scope, Math.floor(sure / PART));
        at.held += more;
        return;
      }
      if (there >= most && most > COUNTED) full.set(scope, true);
      if (room < 0 || look === LOOKS) throw refusal();
      if (at.over === over && !(await nextEnd(at))) throw refusal();
    }
  };

  /** Answers how to give it back. */
  const taken = async (q: Query, scope: string, more: number): Promise<() => void> => {
    let at = scopes.get(scope);
    if (!at) scopes.set(scope, (at = { held: 0, over: 0, users: 0, waiting: new Set() }));
    const here = at;
    here.users += 1;
    const leave = () => {
      here.users -= 1;
      if (here.users === 0) scopes.delete(scope);
    };
    await take(q, scope, more, here).catch((error: unknown) => {
      leave();
      throw error;
    });
    return () => {
      here.held -= more;
      here.over += more;
      for (const go of [...here.waiting]) go();
      leave();
    };
  };

  return {
    async leaveRoom(tx, scope, more = 1) {
      const giveBack = await taken(tx, scope, more);
      const mine = own.get(tx) ?? new Map<string, number>();
      own.set(tx, mine.set(scope, (mine.get(scope) ?? 0) + more));
      tx.atEnd(() => {
        own.delete(tx);
        giveBack();
      });
    },
    check: async (q, scope, more = 1) => (await taken(q, scope, more))(),
  };
}

/** For stores. `rows`: table and condition, where $1 is what they are of. */
export function counterOf(rows: string): BoundOptions["count"] {
  const counted = sql<{ count: number }>(`SELECT count(*) AS count FROM (SELECT 1 FROM ${rows} LIMIT $2) n`);
  return async (q, scope, most) => (await q.first(counted, [scope, most]))?.count ?? 0;
}
