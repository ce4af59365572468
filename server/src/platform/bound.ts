/**
 * How many of something there may be. Up to ten thousand are counted each time, which takes a millisecond. Counting a
 * hundred thousand for each new one would cost more than the row: after a count, a sixteenth of the room that is left is
 * given out without looking again. So the last ones are counted one by one and the first ones hardly ever, and a handful
 * of nodes together do not pass the bound.
 */
import { LRUCache } from "lru-cache";
import { sql, type Query } from "./db/index.ts";
import { badRequest } from "./problem.ts";

export interface BoundOptions {
  readonly most: number;
  /** "A project has at most", "folders". */
  readonly words: readonly [string, string];
  /** Looks at no more than `most` of them. */
  readonly count: (q: Query, scope: string, most: number) => Promise<number>;
}

export interface Bound {
  /** Throws if there is no room for so many more. */
  leaveRoom(q: Query, scope: string, more?: number): Promise<void>;
}

const PART = 16;
const COUNTED = 10_000;
const SCOPES = 10_000;

export function createBound({ most, words: [where, what], count }: BoundOptions): Bound {
  const granted = new LRUCache<string, number>({ max: SCOPES });
  return {
    async leaveRoom(q, scope, more = 1) {
      const left = granted.get(scope) ?? 0;
      if (left >= more) return void granted.set(scope, left - more);
      const room = most - (await count(q, scope, most)) - more;
      if (room < 0) throw badRequest(`${where} ${most.toLocaleString("en")} ${what}.`);
      if (most > COUNTED) granted.set(scope, Math.floor(room / PART));
    },
  };
}

/** For stores. `rows`: table and condition, where $1 is what they are of. */
export function counterOf(rows: string): BoundOptions["count"] {
  const counted = sql<{ count: number }>(`SELECT count(*) AS count FROM (SELECT 1 FROM ${rows} LIMIT $2) n`);
  return async (q, scope, most) => (await q.first(counted, [scope, most]))?.count ?? 0;
}
