/**
 * Whose CRL is signed next. Organisations come in the order in which they were served last, and so do the CRLs of
 * each: remembered from one run to the next, so that those behind slow or
 * failing ones still get a turn. There is a pause between two signatures of a CRL: what is revoked meanwhile goes into one.
 */
import { LRUCache } from "lru-cache";
import type { Clock } from "../platform/clock.ts";
import { groupBy } from "../platform/group-by.ts";
import type { ListChange, ListPlace } from "./store.ts";

/** A little less than from one run to the next. */
const REST_MS = 2500;
const ORGANISATIONS = 20_000;
const LISTS = 50_000;

export const nameOf = ({ keyId, shard }: ListPlace): string => `${keyId}/${shard}`;

interface ListTurns {
  isResting(place: ListPlace): boolean;
  /** One of each organisation after the other. */
  inOrder(changes: readonly ListChange[]): ListChange[];
  /** It is its turn now. */
  note(change: ListChange): void;
}

export function createListTurns(clock: Clock): ListTurns {
  const served = new LRUCache<string, number>({ max: ORGANISATIONS });
  const signed = new LRUCache<string, { readonly turn: number; readonly at: number }>({ max: LISTS });
  let turn = 0;
  const ownerOf = ({ orgId }: ListChange): string => orgId ?? "";
  const turnOf = (change: ListChange): number => signed.get(nameOf(change))?.turn ?? 0;

  return {
    isResting(place) {
      const before = signed.get(nameOf(place));
      // By the wall clock, as runs are. One that was set back makes nobody wait.
      return before !== undefined && Math.abs(clock.millis() - before.at) < REST_MS;
    },
    inOrder(changes) {
      const queue = [...groupBy(changes, ownerOf)].toSorted(
        ([a], [b]) => (served.get(a) ?? 0) - (served.get(b) ?? 0),
      );
      const sorted = queue.map(([, line]) => line.toSorted((a, b) => turnOf(a) - turnOf(b)));
      const longest = sorted.reduce((most, line) => Math.max(most, line.length), 0);
      const order: ListChange[] = [];
      for (let round = 0; round < longest; round += 1)
        for (const line of sorted) {
          const change = line[round];
          if (change) order.push(change);
        }
      return order;
    },
    note(change) {
      turn += 1;
      served.set(ownerOf(change), turn);
      signed.set(nameOf(change), { turn, at: clock.millis() });
    },
  };
}
