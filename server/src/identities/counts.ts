/** Keeps totals cheap: when too many rows had to be counted, the stored count is moved on, after the answer. */
import type { Db } from "../platform/db/index.ts";
import { moveMoment, type Counted, type Total } from "./counts.store.ts";

/** Counting this many takes about a millisecond. */
const MANY = 5_000;

interface IdentityCounts {
  /** The whole, and a thought for the next one who asks. */
  sum(counted: Counted, placeId: string, total: Total): number;
}

export function createCounts(db: Db): IdentityCounts {
  const moving = new Set<string>();
  const move = async (counted: Counted, placeId: string): Promise<void> => {
    const name = `${counted} ${placeId}`;
    if (moving.has(name)) return;
    moving.add(name);
    try {
      await db.write((tx) => moveMoment(tx, counted, placeId), { audited: false });
    } catch {
      // Only slower than it could be; the next list tries again.
    } finally {
      moving.delete(name);
    }
  };
  return {
    sum(counted, placeId, { kept, since }) {
      if (since > MANY) void move(counted, placeId);
      return kept + since;
    },
  };
}
