/**
 * Exact totals that cost the same for a million as for one. What is kept of a place is the number of its rows from
 * before a moment; rows since then are counted anew, and when they have become many the moment is moved on.
 *
 * Why the sum is exact: the moment is always at least a minute before the start of every transaction that is still
 * open, and a row that claims to be more than a minute older than its transaction adds itself (migration 0009). So a
 * row that nobody can see yet is never left behind the moment. Who leaves takes itself off. Corrections and moves of
 * one place take turns.
 */
import { sql, type Query, type Tx } from "../platform/db/index.ts";

type CountedKind = "identity" | "membership";

/** Which rows are counted, for the place $1. */
const COUNTED = {
  orgIdentities: { kind: "identity", rows: "identities WHERE org_id = $1 AND project_id IS NULL" },
  projectIdentities: { kind: "identity", rows: "identities WHERE project_id = $1" },
  projectMembers: {
    kind: "membership",
    rows: "memberships WHERE project_id = $1 AND identity_id IS NOT NULL",
  },
} as const satisfies Record<string, { readonly kind: CountedKind; readonly rows: string }>;

export interface Total {
  readonly kept: number;
  readonly since: number;
}

export const NONE: Total = { kept: 0, since: 0 };

interface Moment {
  readonly at: Date;
}

const hold = sql(`SELECT hold_identity_count($1)`);
const moment = sql<Moment>(`
  SELECT least(clock_timestamp() - interval '120 seconds', min(xact_start) - interval '60 seconds') AS at
  FROM pg_stat_activity WHERE datname = current_database()`);

// The second bound keeps nothing out. It makes a range of it, of which the planner expects little; of a single bound that it
// does not know it expects a third of the table, and then reads all of it.
const SINCE = `created_at >= coalesce(max(k.until), '-infinity') AND created_at < 'infinity'`;

function statementsOf({ kind, rows }: (typeof COUNTED)[keyof typeof COUNTED]) {
  return {
    total: sql<Total>(`
      SELECT coalesce(max(k.count), 0)::bigint AS kept,
        (SELECT count(*) FROM ${rows} AND ${SINCE}) AS since
      FROM identity_counts k WHERE k.place_id = $1 AND k.kind = '${kind}'`),
    move: sql(`
      INSERT INTO identity_counts AS kept (place_id, kind, until, count)
      SELECT $1, '${kind}', $2, coalesce(max(k.count), 0) + (
          SELECT count(*) FROM ${rows} AND created_at >= coalesce(max(k.until), '-infinity') AND created_at < $2)
      FROM identity_counts k WHERE k.place_id = $1 AND k.kind = '${kind}'
      ON CONFLICT (place_id, kind) DO UPDATE SET until = excluded.until, count = excluded.count
      WHERE kept.until < excluded.until`),
  };
}

export const STATEMENTS = {
  orgIdentities: statementsOf(COUNTED.orgIdentities),
  projectIdentities: statementsOf(COUNTED.projectIdentities),
  projectMembers: statementsOf(COUNTED.projectMembers),
};

export type Counted = keyof typeof COUNTED;

export const totalOf = (q: Query, counted: Counted, placeId: string) =>
  q.first(STATEMENTS[counted].total, [placeId]);

/** Moves the kept moment as near to the present as is safe. */
export async function moveMoment(tx: Tx, counted: Counted, placeId: string): Promise<void> {
  await tx.rows(hold, [placeId]);
  // Asked before the counting statement begins: who is not open any more by then can be seen by it.
  const latest = await tx.first(moment, []);
  if (latest) await tx.rows(STATEMENTS[counted].move, [placeId, latest.at]);
}
