/** The networks that people logged in from: kept for 30 days, 16 of each person, by all nodes and over restarts. */
import { sql, type Query, type Tx } from "../../platform/db/index.ts";

const KEPT_DAYS = 30;
const KEPT = 16;

const isThere = sql<{ found: boolean }>(`
  SELECT true AS found FROM known_networks WHERE user_id = $1 AND network = $2 AND let_in_at > $3::timestamptz - make_interval(days => ${KEPT_DAYS})`);
// Once a day is often enough to know it.
const note = sql(`
  INSERT INTO known_networks AS k (user_id, network, let_in_at) VALUES ($1, $2, $3)
  ON CONFLICT (user_id, network) DO UPDATE SET let_in_at = $3 WHERE k.let_in_at < $3::timestamptz - interval '1 day'`);
const forget = sql(`
  DELETE FROM known_networks WHERE user_id = $1 AND network IN (
    SELECT network FROM known_networks WHERE user_id = $1 ORDER BY let_in_at DESC, network OFFSET ${KEPT})`);
const sweep = sql(
  `DELETE FROM known_networks WHERE let_in_at <= $1::timestamptz - make_interval(days => ${KEPT_DAYS})`,
);

export const isKnownNetwork = async (q: Query, userId: string, network: string, now: Date) =>
  (await q.first(isThere, [userId, network, now])) !== undefined;
export const noteNetwork = (tx: Tx, userId: string, network: string, at: Date): void => {
  tx.defer(note, [userId, network, at]);
  tx.defer(forget, [userId]);
};
export const sweepNetworks = (tx: Tx, now: Date) => tx.rows(sweep, [now]);
