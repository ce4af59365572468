import { slowSql, sql, type Query, type SlowQuery, type Tx } from "../../platform/db/index.ts";
import type { NoticeContent } from "../../notifications/index.ts";
import type { DeliveryVerdict } from "./model.ts";

interface DeliveryRow {
  readonly id: string;
  readonly alertId: string;
  readonly messageId: string;
  readonly channelId: string;
  readonly channelType: string;
  readonly destination: string;
  readonly status: "pending" | "delivered" | "failed";
  readonly attempts: number;
  readonly nextAt: Date;
  readonly firstAttemptAt: Date | null;
  readonly lastAttemptAt: Date | null;
  readonly deliveredAt: Date | null;
  readonly lastError: string | null;
  /** Of several recipients those that still have to get it, by their index; null for all. */
  readonly remainingRecipients: number[] | null;
  readonly createdAt: Date;
}

export interface ClaimedDelivery extends DeliveryRow {
  readonly firstAttemptAt: Date;
  readonly content: NoticeContent;
}

export interface ListedDelivery extends DeliveryRow {
  readonly kind: string;
  readonly total: number;
  readonly certificateIds: string[];
}

const COLUMNS = `d.id, d.alert_id AS "alertId", d.message_id AS "messageId", d.channel_id AS "channelId", d.channel_type AS "channelType", d.destination, d.status,
  d.attempts, d.next_at AS "nextAt", d.first_attempt_at AS "firstAttemptAt", d.last_attempt_at AS "lastAttemptAt", d.delivered_at AS "deliveredAt",
  d.last_error AS "lastError", d.left_to AS "remainingRecipients", d.created_at AS "createdAt"`;

// A few per destination, whichever became due first there: a thousand for a dead receiver do not delay one
// for a working one. And organisations take turns, the fewest in flight first: a hundred dead receivers of one do
// not delay another's. Rows that another node is claiming at this moment are skipped, and so are those that
// this node is sending ($7): a machine that was paused longer than its claims are valid must not repeat what it is about to
// mark as sent. Receivers are found along the index, one after the other: what a claim costs does not grow with what waits.
const claim = slowSql<ClaimedDelivery>(`
  WITH RECURSIVE used AS (
    SELECT destination, split_part(destination, '/', 1) AS org, used FROM unnest($3::text[], $6::integer[]) AS u(destination, used)
  ), receivers AS (
    (SELECT destination FROM alert_deliveries WHERE status = 'pending' ORDER BY destination LIMIT 1)
    UNION ALL
    SELECT (SELECT d.destination FROM alert_deliveries d WHERE d.status = 'pending' AND d.destination > s.destination ORDER BY d.destination LIMIT 1)
    FROM receivers s WHERE s.destination IS NOT NULL
  ), due AS (
    SELECT n.destination, split_part(n.destination, '/', 1) AS org, $4::integer - coalesce(u.used, 0) AS free, n.next_at
    FROM (
      SELECT s.destination, (SELECT d.next_at FROM alert_deliveries d WHERE d.status = 'pending' AND d.destination = s.destination ORDER BY d.next_at LIMIT 1) AS next_at
      FROM receivers s WHERE s.destination IS NOT NULL) n
    LEFT JOIN used u ON u.destination = n.destination WHERE n.next_at <= $1 AND $4::integer > coalesce(u.used, 0)
  ), ends AS (
    SELECT d.destination, d.free FROM due d LEFT JOIN (SELECT org, sum(used) AS used FROM used GROUP BY org) o ON o.org = d.org
    ORDER BY coalesce(o.used, 0) + $4::integer * (row_number() OVER (PARTITION BY d.org ORDER BY d.next_at) - 1), d.next_at
  ), chosen AS (
    SELECT c.id FROM ends e CROSS JOIN LATERAL (
      SELECT id FROM alert_deliveries WHERE destination = e.destination AND status = 'pending' AND next_at <= $1 AND id <> ALL ($7::uuid[])
      ORDER BY next_at LIMIT e.free FOR UPDATE SKIP LOCKED) c
    LIMIT $5
  )
  UPDATE alert_deliveries d SET next_at = $2, attempts = d.attempts + 1, first_attempt_at = coalesce(d.first_attempt_at, $1), updated_at = $1
  FROM chosen, alert_messages m WHERE d.id = chosen.id AND m.id = d.message_id
  RETURNING ${COLUMNS}, m.content`);
// `attempts` is the claim's number: a node that lost its claim to another changes nothing any more.
const delivered = sql<{ id: string }>(`
  UPDATE alert_deliveries SET status = 'delivered', delivered_at = $3, last_attempt_at = $3, last_error = $4, left_to = NULL, updated_at = $3
  WHERE id = $1 AND attempts = $2 AND status = 'pending' RETURNING id`);
const failed = sql<{ id: string }>(`
  UPDATE alert_deliveries SET status = 'failed', last_attempt_at = $3, last_error = $4, updated_at = $3 WHERE id = $1 AND attempts = $2 AND status = 'pending' RETURNING id`);
const postponed = sql<{ id: string }>(`
  UPDATE alert_deliveries SET next_at = $4, last_attempt_at = $3, last_error = $5, left_to = coalesce($7, left_to), updated_at = $3,
    attempts = CASE WHEN $6 THEN attempts ELSE attempts - 1 END, first_attempt_at = CASE WHEN $6 THEN first_attempt_at END
  WHERE id = $1 AND attempts = $2 AND status = 'pending' RETURNING id`);
// Not an attempt: nothing was sent. What was delivered before and is not worth a repeat stays delivered.
const ended = sql<{ id: string }>(`
  UPDATE alert_deliveries SET status = CASE WHEN delivered_at IS NULL THEN 'failed' ELSE 'delivered' END, last_error = $4, attempts = attempts - 1, updated_at = $3
  WHERE id = $1 AND attempts = $2 AND status = 'pending' RETURNING id`);

/** Bounded: a figure for a chart is not worth reading millions of rows. */
const waiting = sql<{ count: number; oldestAt: Date | null }>(`
  SELECT count(*) AS count, min(created_at) AS "oldestAt" FROM (SELECT created_at FROM alert_deliveries WHERE status = 'pending' LIMIT 100000) d`);

const LISTED = `${COLUMNS}, m.kind, m.total, ARRAY(SELECT (c ->> 'id')::uuid FROM jsonb_array_elements(m.content -> 'certificates') AS c) AS "certificateIds"`;
// One statement per state, so that each is planned for its own index.
const listWhere = (condition: string) =>
  sql<ListedDelivery>(`
  SELECT ${LISTED} FROM alert_deliveries d JOIN alert_messages m ON m.id = d.message_id
  WHERE d.alert_id = $1 AND ${condition} ORDER BY d.created_at DESC, d.id DESC LIMIT $2 OFFSET $3`);
const listAll = listWhere("true");
const listByStatus: Readonly<Record<string, typeof listAll>> = {
  pending: listWhere("d.status = 'pending'"),
  failed: listWhere("d.status = 'failed'"),
  delivered: listWhere("d.status = 'delivered'"),
};
const count = sql<{ total: number }>(
  `SELECT coalesce(sum(count), 0)::bigint AS total FROM alert_delivery_counts WHERE alert_id = $1 AND ($2::text IS NULL OR status = $2)`,
);
const one = sql<ListedDelivery>(
  `SELECT ${LISTED} FROM alert_deliveries d JOIN alert_messages m ON m.id = d.message_id WHERE d.alert_id = $1 AND d.id = $2`,
);
// A claim moves updated_at ahead of the last attempt, a verdict brings them together: in between, somebody is sending.
const isBeingSent = (d: string, now: string) =>
  `(${d}.status = 'pending' AND ${d}.next_at > ${now} AND (${d}.last_attempt_at IS NULL OR ${d}.last_attempt_at < ${d}.updated_at))`;
const again = sql<{ id: string }>(`
  UPDATE alert_deliveries d SET status = 'pending', next_at = $2, first_attempt_at = NULL, updated_at = $2
  WHERE d.id = $1 AND NOT ${isBeingSent("d", "$2")} RETURNING d.id`);
// The channel's settings changed or it is enabled again: what waits for it is due now, and gets another day.
const retryNow = sql(`
  UPDATE alert_deliveries d SET destination = $2, next_at = CASE WHEN ${isBeingSent("d", "$3")} THEN d.next_at ELSE $3 END, first_attempt_at = NULL,
    left_to = CASE WHEN $4 THEN NULL ELSE d.left_to END
  WHERE d.channel_id = $1 AND d.status = 'pending'`);
// What waited for a removed channel goes to this one, unless the message was sent there or will be; one of each
// message at a time. A node that is sending to the old one at this moment has lost its claim: its number is outdated.
const adopt = slowSql(`
  UPDATE alert_deliveries d SET channel_id = $2, channel_type = $3, destination = $4, next_at = $5, first_attempt_at = NULL, left_to = NULL, updated_at = $5,
    attempts = d.attempts + CASE WHEN ${isBeingSent("d", "$5")} THEN 1 ELSE 0 END
  WHERE d.id IN (
    SELECT DISTINCT ON (o.message_id) o.id FROM alert_deliveries o JOIN alert_messages m ON m.id = o.message_id
    WHERE o.alert_id = $1 AND o.status = 'pending' AND NOT EXISTS (SELECT 1 FROM alert_channels c WHERE c.id = o.channel_id)
      AND (o.channel_type = $3 OR ($6 AND m.kind <> 'resolution'))
      AND NOT EXISTS (SELECT 1 FROM alert_deliveries t WHERE t.message_id = o.message_id AND t.channel_id = $2 AND t.status <> 'failed')
    ORDER BY o.message_id, o.id)`);
const endOrphans = slowSql(`
  UPDATE alert_deliveries d SET status = 'failed', last_error = 'The channel was removed.', updated_at = $2
  WHERE d.alert_id = $1 AND d.status = 'pending' AND NOT EXISTS (SELECT 1 FROM alert_channels c WHERE c.id = d.channel_id)`);

const LIVE = `c.phase = 0 AND c.renewed_by_id IS NULL AND c.not_after > $1`;
const AUTHORITIES = `authority_certificates c JOIN certificate_authorities a ON a.active_certificate_id = c.id AND a.deleted_at IS NULL
  AND c.not_after > $1 AND NOT EXISTS (SELECT 1 FROM certificates i WHERE i.id = c.id)`;
const anyLive = sql<{ isLive: boolean }>(`
  SELECT EXISTS (SELECT 1 FROM certificates c WHERE c.id = ANY($2::uuid[]) AND ${LIVE})
    OR EXISTS (SELECT 1 FROM ${AUTHORITIES} WHERE c.id = ANY($2::uuid[])) AS "isLive"`);
const anyLiveNotified = slowSql<{ isLive: boolean }>(`
  SELECT EXISTS (SELECT 1 FROM alert_occasions o JOIN certificates c ON c.id = o.certificate_id WHERE o.alert_id = $2 AND o.message_id = $3 AND ${LIVE})
    OR EXISTS (SELECT 1 FROM alert_occasions o JOIN ${AUTHORITIES} ON c.id = o.certificate_id WHERE o.alert_id = $2 AND o.message_id = $3) AS "isLive"`);
// An attempt counts as sent: nobody knows what a receiver made of a request that failed half-way. So does a message that
// is so old that it was deleted: resolving what was never opened does no harm.
const notifiedThere = sql<{ isTold: boolean; busyUntil: Date | null }>(`
  SELECT EXISTS (
      SELECT 1 FROM alert_occasions o WHERE o.certificate_id = ANY($3::uuid[]) AND o.alert_id = $1 AND o.message_id IS NOT NULL AND (
        NOT EXISTS (SELECT 1 FROM alert_messages m WHERE m.id = o.message_id)
        OR EXISTS (SELECT 1 FROM alert_deliveries d WHERE d.message_id = o.message_id AND d.channel_id = $2 AND (d.status = 'delivered' OR d.attempts > 0)))) AS "isTold",
    (SELECT max(d.next_at) FROM alert_deliveries d JOIN alert_messages m ON m.id = d.message_id
      WHERE d.alert_id = $1 AND d.channel_id = $2 AND d.status = 'pending' AND m.kind <> 'resolution' AND d.created_at <= $4) AS "busyUntil"`);
const insertMessage = sql(
  `INSERT INTO alert_messages (id, alert_id, kind, content, total, created_at) VALUES ($1, $2, 'test', $3, $4, $5)`,
);
const insertDone = sql(`
  INSERT INTO alert_deliveries (id, alert_id, message_id, channel_id, channel_type, destination, status, attempts, next_at, first_attempt_at, last_attempt_at,
    delivered_at, last_error, created_at, updated_at)
  VALUES ($1, $2, $3, $4, $5, $6, $7, 1, $8, $8, $8, $9, $10, $8, $8)`);

interface ClaimWish {
  readonly now: Date;
  readonly until: Date;
  /** How many this node has in flight, by destination. */
  readonly underWay: ReadonlyMap<string, number>;
  /** The ids of those. */
  readonly sending: readonly string[];
  readonly perDestination: number;
  readonly limit: number;
}

export const claimDeliveries = (tx: Tx, w: ClaimWish) =>
  tx.rows(claim, [
    w.now,
    w.until,
    [...w.underWay.keys()],
    w.perDestination,
    w.limit,
    [...w.underWay.values()],
    w.sending,
  ]);
export const markDelivered = (tx: Tx, d: ClaimedDelivery, now: Date, remark: string | undefined) =>
  tx.first(delivered, [d.id, d.attempts, now, remark ?? null]);
export const markFailed = (tx: Tx, d: ClaimedDelivery, now: Date, error: string) =>
  tx.first(failed, [d.id, d.attempts, now, error]);
export const postpone = (
  tx: Tx,
  d: ClaimedDelivery,
  now: Date,
  to: Extract<DeliveryVerdict, { readonly status: "pending" }>,
) =>
  tx.first(postponed, [
    d.id,
    d.attempts,
    now,
    to.nextAt,
    to.error,
    to.counts,
    to.remainingRecipients ?? null,
  ]);
export const markEnded = (tx: Tx, d: ClaimedDelivery, now: Date, error: string) =>
  tx.first(ended, [d.id, d.attempts, now, error]);
/** Is any of these certificates valid and without a successor? */
export const isAnyLive = async (q: Query, ids: readonly string[], now: Date): Promise<boolean> =>
  (await q.first(anyLive, [now, ids]))?.isLive ?? false;
/** The same of all certificates that a message is about, also of those it does not show. */
export const isAnyNotifiedLive = async (q: SlowQuery, d: DeliveryRow, now: Date): Promise<boolean> =>
  (await q.first(anyLiveNotified, [now, d.alertId, d.messageId]))?.isLive ?? false;
/** Was this channel notified of these certificates, and until when is it busy with older deliveries? */
export const findNotifiedThere = (q: Query, d: DeliveryRow, certificateIds: readonly string[]) =>
  q.first(notifiedThere, [d.alertId, d.channelId, certificateIds, d.createdAt]);
export const retryNowDeliveries = (
  tx: Tx,
  channel: { readonly id: string; readonly destination: string; readonly isChanged: boolean },
  at: Date,
) => tx.defer(retryNow, [channel.id, channel.destination, at, channel.isChanged]);

interface Home {
  readonly id: string;
  readonly channelType: string;
  readonly destination: string;
  readonly enabled: boolean;
}

/**
 * What waits for removed channels moves, under its id, to those the alert has: the same kind first, and those
 * that are enabled. Only what all of them have had already ends here.
 */
export function reassignDeliveries(tx: Tx, alertId: string, channels: readonly Home[], at: Date): void {
  const homes = [...channels].sort((a, b) => Number(b.enabled) - Number(a.enabled));
  for (const isAnyKindFine of [false, true])
    for (const home of homes)
      tx.defer(adopt, [alertId, home.id, home.channelType, home.destination, at, isAnyKindFine]);
  tx.defer(endOrphans, [alertId, at]);
}
export const readWaiting = (q: Query) => q.first(waiting);

export async function listDeliveriesOf(
  q: Query,
  alertId: string,
  query: { readonly status?: string | undefined; readonly limit: number; readonly offset: number },
) {
  const [deliveries, counted] = await Promise.all([
    q.rows(listByStatus[query.status ?? ""] ?? listAll, [alertId, query.limit, query.offset]),
    q.first(count, [alertId, query.status ?? null]),
  ]);
  return { deliveries, total: counted?.total ?? 0 };
}
export const findDelivery = (q: Query, alertId: string, id: string) => q.first(one, [alertId, id]);
/** Nothing comes back if a node is sending it at this moment. */
export const sendAgain = (tx: Tx, id: string, at: Date) => tx.first(again, [id, at]);

interface TestRecord {
  readonly id: string;
  readonly channelId: string;
  readonly channelType: string;
  readonly destination: string;
  readonly error: string | undefined;
}

/** A test is over when it is written down: it is never tried again. */
export function recordTest(
  tx: Tx,
  message: {
    readonly id: string;
    readonly alertId: string;
    readonly content: NoticeContent;
    readonly at: Date;
  },
  results: readonly TestRecord[],
): void {
  tx.defer(insertMessage, [
    message.id,
    message.alertId,
    JSON.stringify(message.content),
    message.content.total,
    message.at,
  ]);
  for (const r of results) {
    const status = r.error === undefined ? "delivered" : "failed";
    tx.defer(insertDone, [
      r.id,
      message.alertId,
      message.id,
      r.channelId,
      r.channelType,
      r.destination,
      status,
      message.at,
      r.error === undefined ? message.at : null,
      r.error ?? null,
    ]);
  }
}
