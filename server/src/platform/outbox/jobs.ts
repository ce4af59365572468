import { sql, type Db } from "../db/index.ts";
import type { Job } from "../jobs/index.ts";
import { RETENTION_SECONDS } from "./tail.ts";

// The database's own clock on both sides: this is upkeep, and the rows' times are the database's too.
const sweep = sql(`
  WITH gone AS (DELETE FROM outbox WHERE at < clock_timestamp() - make_interval(secs => $1) RETURNING seq)
  UPDATE outbox_swept SET seq = greatest(seq, (SELECT max(seq) FROM gone)) WHERE EXISTS (SELECT 1 FROM gone)`);

/** Nothing is kept for replay: a row is gone long after every node has read it. */
export const outboxJobs = (db: Db): Job[] => [
  {
    name: "outbox-sweep",
    everySeconds: 15,
    run: async () => void (await db.write((tx) => tx.rows(sweep, [RETENTION_SECONDS]), { audited: false })),
  },
];
