import { sql, type Db } from "../db/index.ts";
import type { Job } from "../jobs/index.ts";
import { RETENTION_SECONDS } from "./tail.ts";
import { SUM_MODULUS } from "./told.ts";

// The database's own clock on both sides: this is maintenance, and the rows' times are the database's too. By number, so
// that exactly the rows below a number are deleted; and their count and sum are kept (see told.ts).
const sweep = sql(`
  WITH old AS (SELECT max(seq) AS seq FROM outbox WHERE at < clock_timestamp() - make_interval(secs => $1)),
       gone AS (DELETE FROM outbox USING old WHERE outbox.seq <= old.seq RETURNING outbox.at),
       total AS (SELECT count(*) AS count, sum((extract(epoch FROM at) * 1000000)::bigint) AS sum FROM gone)
  UPDATE outbox_swept s
  SET seq = greatest(s.seq, old.seq), count = s.count + total.count, sum = mod(s.sum + total.sum, ${SUM_MODULUS})::bigint
  FROM old, total WHERE total.count > 0`);

/** Nothing is kept for replay: a row is gone long after every node has read it. */
export const outboxJobs = (db: Db): Job[] => [
  {
    name: "outbox-sweep",
    everySeconds: 15,
    run: async () => void (await db.write((tx) => tx.rows(sweep, [RETENTION_SECONDS]), { audited: false })),
  },
];
