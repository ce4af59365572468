/** The due set, the facts that wait, the pending notices and the messages made of them. */
import { sql, slowSql, type Query, type SlowQuery, type Tx } from "../../platform/db/index.ts";
import type { AlertRow } from "../model.ts";
import { ALERT_COLUMNS } from "../store.ts";
import type { NoticeCertificateRow } from "./model.ts";

const NAMES = `ARRAY(SELECT alt ->> 'value' FROM jsonb_array_elements(c.alt_names) AS alt)`;
const CERTIFICATE = `c.id, c.project_id AS "projectId", c.application_id AS "applicationId", c.serial_number AS "serialNumber", c.common_name AS "commonName",
  ${NAMES} AS san, p.slug AS "profileName", c.not_before AS "notBefore", c.not_after AS "notAfter", c.revoked_at AS "revokedAt",
  c.revocation_reason AS "revocationReason", c.is_ca AS "isCa"`;
/** A CA certificate, seen as one of the inventory. */
const AUTHORITY = `ac.id, a.project_id AS "projectId", NULL::uuid AS "applicationId", ac.serial_number AS "serialNumber",
  coalesce(a.subject ->> 'commonName', a.name) AS "commonName", ARRAY[]::text[] AS san, NULL::text AS "profileName", ac.not_before AS "notBefore",
  ac.not_after AS "notAfter", NULL::timestamptz AS "revokedAt", NULL::smallint AS "revocationReason", true AS "isCa"`;
const AUTHORITIES = `authority_certificates ac JOIN certificate_authorities a ON a.active_certificate_id = ac.id AND a.deleted_at IS NULL`;

export interface DueWindow {
  readonly projectId: string;
  readonly low: Date;
  /** With `low`, the last certificate already seen; the greatest id to begin after a moment. */
  readonly lowId: string;
  readonly high: Date;
}

/** What one answer may hold at most, and pages of each window that it is made of. */
const ROWS_AT_ONCE = 10_000;
const PAGES = [2000, 200, 20];
/** Of names: the first of a window is always read, more of them only up to this. */
const BYTES_AT_ONCE = 4 * 1024 * 1024;
/** What the database keeps of many names may be packed as well as this; unpacking all to know it would take too long. */
const PACKED = 64;
const NAMES_BYTES = `CASE WHEN pg_column_size(l.alt_names) < 500 THEN 1 ELSE ${PACKED} END * pg_column_size(l.alt_names)`;

export interface DueRow extends NoticeCertificateRow {
  readonly window: number;
  /** Behind this one there may be further ones in its window. */
  readonly hasMore: boolean;
}

// All windows in one statement; each walks the index of live `notAfter` and stops after a page.
const dueBy = (page: number) =>
  slowSql<DueRow>(`
  SELECT w.n::integer - 1 AS window, d.*
  FROM unnest($1::uuid[], $2::timestamptz[], $3::uuid[], $4::timestamptz[]) WITH ORDINALITY AS w(project_id, low, low_id, high, n)
  CROSS JOIN LATERAL (
    SELECT ${CERTIFICATE}, c.k < c.found OR c.found = ${page} AS "hasMore" FROM (
      SELECT l.*, count(*) OVER () AS found, row_number() OVER ends AS k, sum(${NAMES_BYTES}) OVER ends AS bytes FROM (
        SELECT * FROM certificates
        WHERE project_id = w.project_id AND phase = 0 AND renewed_by_id IS NULL AND (not_after, id) > (w.low, w.low_id) AND not_after <= w.high
        ORDER BY not_after, id LIMIT ${page}) l
      WINDOW ends AS (ORDER BY l.not_after, l.id ROWS UNBOUNDED PRECEDING)) c
    LEFT JOIN certificate_profiles p ON p.id = c.profile_id
    WHERE c.k = 1 OR c.bytes <= $5) d
  ORDER BY w.n, d."notAfter", d.id`);
const due = PAGES.map((page) => ({ page, statement: dueBy(page) }));
const dueAuthorities = slowSql<NoticeCertificateRow>(`
  SELECT ${AUTHORITY} FROM ${AUTHORITIES} WHERE a.project_id = ANY($1::uuid[]) AND ac.not_after > $2
    AND NOT EXISTS (SELECT 1 FROM certificates c WHERE c.id = ac.id)`);
const byIds = sql<NoticeCertificateRow>(`
  SELECT ${CERTIFICATE} FROM certificates c LEFT JOIN certificate_profiles p ON p.id = c.profile_id WHERE c.id = ANY($1::uuid[])
  UNION ALL SELECT ${AUTHORITY} FROM ${AUTHORITIES} WHERE ac.id = ANY($1::uuid[]) AND NOT EXISTS (SELECT 1 FROM certificates c WHERE c.id = ac.id)`);

const HAS_CHANNEL = `EXISTS (SELECT 1 FROM alert_channels c WHERE c.alert_id = a.id AND c.enabled)`;
const expiring = slowSql<AlertRow>(
  `SELECT ${ALERT_COLUMNS} FROM alerts a WHERE a.event_type = 'expiration' AND a.enabled AND ${HAS_CHANNEL}`,
);
const ofProjects = sql<AlertRow>(
  `SELECT ${ALERT_COLUMNS} FROM alerts a WHERE a.project_id = ANY($1::uuid[]) AND a.enabled AND ${HAS_CHANNEL}`,
);
const byAlertIds = sql<AlertRow>(`SELECT ${ALERT_COLUMNS} FROM alerts a WHERE a.id = ANY($1::uuid[])`);
// Increases with every alert that is created, changed or deleted.
const stamps = sql<{ projectId: string; stamp: number }>(`
  SELECT scope_id AS "projectId", sum(changes)::bigint AS stamp FROM alert_counts WHERE scope_id = ANY($1::uuid[]) GROUP BY scope_id`);
const readCursor = sql<{ at: Date }>(`SELECT evaluated_until AS at FROM alert_cursor`);
const moveCursor = sql(`
  INSERT INTO alert_cursor (evaluated_until) VALUES ($1) ON CONFLICT (only_one) DO UPDATE SET evaluated_until = $1`);
// Only if nobody changed the alert meanwhile: a change needs a new scan.
const setLooked = sql(`
  UPDATE alerts a SET looked_at = $3::timestamptz FROM unnest($1::uuid[], $2::timestamptz[]) AS w(id, updated_at) WHERE a.id = w.id AND a.updated_at = w.updated_at`);

export interface PendingNotice {
  readonly certificateId: string;
  readonly alertId: string;
  readonly notice: string;
  readonly notAfter: Date;
  readonly detail?: string | undefined;
}

// An alert that was deleted since it was read takes its pending notices with it; the join keeps that from being an error. What
// was reported daily is not reported once more when the alert is changed to report once.
const insertNotices = sql(`
  INSERT INTO alert_occasions (certificate_id, alert_id, occasion, not_after, detail, created_at)
  SELECT w.certificate_id, w.alert_id, w.occasion, w.not_after, w.detail, $6
  FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::timestamptz[], $5::text[]) AS w(certificate_id, alert_id, occasion, not_after, detail)
  JOIN alerts a ON a.id = w.alert_id
  WHERE w.occasion <> '' OR NOT EXISTS (
    SELECT 1 FROM alert_occasions t WHERE t.certificate_id = w.certificate_id AND t.alert_id = w.alert_id AND t.occasion LIKE 'day:%' AND t.message_id IS NOT NULL)
  ON CONFLICT DO NOTHING`);
// From alert to alert along the index of what waits, counting no further than matters: the fewest come first.
const waitingAlerts = slowSql<WaitingAlert>(`
  WITH RECURSIVE w AS (
    (SELECT alert_id FROM alert_occasions WHERE message_id IS NULL ORDER BY alert_id LIMIT 1)
    UNION ALL
    SELECT (SELECT o.alert_id FROM alert_occasions o WHERE o.message_id IS NULL AND o.alert_id > w.alert_id ORDER BY o.alert_id LIMIT 1)
    FROM w WHERE w.alert_id IS NOT NULL)
  SELECT a.id, a.digest, a.gathered_at AS "gatheredAt", n.count FROM w JOIN alerts a ON a.id = w.alert_id
  CROSS JOIN LATERAL (SELECT count(*) FROM (SELECT 1 FROM alert_occasions o WHERE o.alert_id = a.id AND o.message_id IS NULL LIMIT 10000) s) n
  WHERE a.enabled AND ${HAS_CHANNEL} ORDER BY n.count, a.id`);
const lockAlerts = sql<AlertRow>(
  `SELECT ${ALERT_COLUMNS} FROM alerts a WHERE a.id = ANY($1::uuid[]) ORDER BY a.id FOR UPDATE`,
);
// While they waited, the alert was made one of another kind: it would say "was revoked" of what only ends soon. ('fact' is
// how those that wait for a digest were called before they said their kind.)
const dropForeign = slowSql(`
  DELETE FROM alert_occasions o USING alerts a
  WHERE o.alert_id = ANY($1::uuid[]) AND o.message_id IS NULL AND a.id = o.alert_id AND split_part(o.occasion, ':', 1) <> ALL (
    CASE a.event_type WHEN 'expiration' THEN ARRAY['', 'day'] WHEN 'renewal-failed' THEN ARRAY['failed'] ELSE ARRAY[a.event_type, 'fact'] END)`);
// Other filters, another `alertBefore`: the next scan finds those that still match.
const dropExpiries = sql(`
  DELETE FROM alert_occasions WHERE alert_id = $1 AND message_id IS NULL AND split_part(occasion, ':', 1) IN ('', 'day')`);
// While they waited, some have been replaced or revoked or have expired: they need not be reported any more.
const dropOver = slowSql(`
  DELETE FROM alert_occasions o USING certificates c
  WHERE o.alert_id = ANY($1::uuid[]) AND o.message_id IS NULL AND c.id = o.certificate_id AND (c.phase <> 0 OR c.renewed_by_id IS NOT NULL OR c.not_after <= $2)`);
const urgent = slowSql<UrgentRow>(`
  SELECT w.id AS "alertId", o.certificate_id AS "certificateId", o.detail FROM unnest($1::uuid[]) AS w(id)
  CROSS JOIN LATERAL (
    SELECT certificate_id, detail, not_after FROM alert_occasions WHERE alert_id = w.id AND message_id IS NULL ORDER BY not_after, certificate_id LIMIT $2) o
  ORDER BY o.not_after, o.certificate_id`);
// A part of each alert's at a time: a hundred thousand in one statement might take longer than a statement may.
const assign = slowSql<{ alertId: string; total: number }>(`
  WITH part AS (
    SELECT o.certificate_id, o.alert_id, o.occasion, w.message_id FROM unnest($1::uuid[], $2::uuid[]) AS w(alert_id, message_id)
    CROSS JOIN LATERAL (SELECT * FROM alert_occasions WHERE alert_id = w.alert_id AND message_id IS NULL LIMIT $3) o
  ), told AS (
    UPDATE alert_occasions o SET message_id = p.message_id FROM part p
    WHERE o.certificate_id = p.certificate_id AND o.alert_id = p.alert_id AND o.occasion = p.occasion RETURNING o.alert_id
  ) SELECT alert_id AS "alertId", count(*) AS total FROM told GROUP BY alert_id`);
const setGathered = sql(`UPDATE alerts SET gathered_at = $2 WHERE id = ANY($1::uuid[])`);

const insertMessageRows = sql(`
  INSERT INTO alert_messages (id, alert_id, kind, content, total, created_at)
  SELECT w.id, w.alert_id, w.kind, w.content::jsonb, w.total, $6
  FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::integer[]) AS w(id, alert_id, kind, content, total)`);
// One delivery per channel that is enabled at this moment. A resolution is for channels of some kinds, also for one that
// is disabled: it is held like everything that waits there, and an incident does not stay open for good.
const insertDeliveryRows = sql(`
  INSERT INTO alert_deliveries (id, alert_id, message_id, channel_id, channel_type, destination, status, next_at, created_at, updated_at)
  SELECT gen_random_uuid(), c.alert_id, w.message_id, c.id, c.channel_type, c.destination, 'pending', $3, $3, $3
  FROM unnest($1::uuid[], $2::uuid[]) AS w(alert_id, message_id)
  JOIN alert_channels c ON c.alert_id = w.alert_id AND CASE WHEN $4::text[] IS NULL THEN c.enabled ELSE c.channel_type = ANY($4) END`);

// One node at a time for each project; a lock per fact would be one more write per fact.
const enterInbox = sql<{ isOurs: boolean }>(
  `SELECT pg_try_advisory_xact_lock(hashtextextended('alert-inbox', hashtextextended($1::uuid::text, 0))) AS "isOurs"`,
);
const takeInbox = sql<InboxRow>(`
  SELECT id, name, project_id AS "projectId", certificate_id AS "certificateId", data FROM alert_inbox WHERE project_id = $1 ORDER BY id LIMIT $2`);
// From project to project along the index: what it costs does not depend on how much waits.
const waitingProjects = slowSql<WaitingProject>(`
  WITH RECURSIVE w AS (
    (SELECT project_id FROM alert_inbox ORDER BY project_id LIMIT 1)
    UNION ALL
    SELECT (SELECT i.project_id FROM alert_inbox i WHERE i.project_id > w.project_id ORDER BY i.project_id LIMIT 1) FROM w WHERE w.project_id IS NOT NULL
  ) SELECT w.project_id AS "projectId", p.org_id AS "orgId" FROM w LEFT JOIN projects p ON p.id = w.project_id WHERE w.project_id IS NOT NULL`);
const removeInbox = sql(`DELETE FROM alert_inbox WHERE id = ANY($1::bigint[])`);
const notifiedAlerts = sql<{ alertId: string; certificateId: string }>(`
  SELECT DISTINCT o.alert_id AS "alertId", o.certificate_id AS "certificateId" FROM alert_occasions o JOIN alerts a ON a.id = o.alert_id AND a.event_type IN ('expiration', 'renewal-failed')
  WHERE o.certificate_id = ANY($1::uuid[]) AND o.message_id IS NOT NULL
    AND EXISTS (SELECT 1 FROM alert_channels c WHERE c.alert_id = o.alert_id AND c.channel_type = ANY($2::text[]))`);

// A renewal that failed and then succeeded before anyone was told needs nobody's attention.
const dropFailures = sql(`
  DELETE FROM alert_occasions o USING alerts a
  WHERE o.certificate_id = ANY($1::uuid[]) AND o.message_id IS NULL AND a.id = o.alert_id AND a.event_type = 'renewal-failed'`);

// Some at a time, so that no statement and no transaction grows with what there is to delete.
const sweepNotices = slowSql<{ count: number }>(`
  WITH gone AS (
    DELETE FROM alert_occasions WHERE ctid = ANY(ARRAY(SELECT ctid FROM alert_occasions WHERE not_after < $1 LIMIT $2)) RETURNING 1)
  SELECT count(*) FROM gone`);
// The deliveries first and all at once: each message would take its own along one by one.
const sweepMessages = slowSql<{ count: number }>(`
  WITH old AS (
    SELECT m.id FROM alert_messages m
    WHERE m.created_at < $1 AND NOT EXISTS (SELECT 1 FROM alert_deliveries d WHERE d.message_id = m.id AND d.status = 'pending') LIMIT $2
  ), deliveries AS (DELETE FROM alert_deliveries d USING old WHERE d.message_id = old.id
  ), gone AS (DELETE FROM alert_messages m USING old WHERE m.id = old.id RETURNING 1)
  SELECT count(*) FROM gone`);

// All that goes with an alert, some of it at a time.
const forgetSome = slowSql<{ count: number }>(`
  WITH messages AS (SELECT id FROM alert_messages WHERE alert_id = $1 LIMIT $2
  ), deliveries AS (DELETE FROM alert_deliveries d USING messages m WHERE d.message_id = m.id
  ), gone AS (DELETE FROM alert_messages m USING messages o WHERE m.id = o.id RETURNING 1
  ), occasions AS (
    DELETE FROM alert_occasions WHERE ctid = ANY(ARRAY(SELECT ctid FROM alert_occasions WHERE alert_id = $1 LIMIT $2)) RETURNING 1)
  SELECT greatest((SELECT count(*) FROM gone), (SELECT count(*) FROM occasions)) AS count`);

export interface WaitingAlert extends Pick<AlertRow, "id" | "digest" | "gatheredAt"> {
  /** How many pending notices wait, of ten thousand or more just that. */
  readonly count: number;
}

export interface UrgentRow {
  readonly alertId: string;
  readonly certificateId: string;
  readonly detail: string | null;
}

/** A project of which facts wait; without an organisation if it is gone. */
export interface WaitingProject {
  readonly projectId: string;
  readonly orgId: string | null;
}

export interface InboxRow {
  readonly id: number;
  readonly name: string;
  readonly projectId: string;
  readonly certificateId: string;
  readonly data: { readonly reason?: unknown; readonly replacedId?: unknown };
}

export interface MessageRow {
  readonly id: string;
  readonly alertId: string;
  readonly kind: string;
  readonly content: unknown;
  readonly total: number;
}

/** A page of each window. Of many windows, and of certificates with very many names, the pages are short. */
export async function readDue(q: SlowQuery, windows: readonly DueWindow[]): Promise<DueRow[]> {
  const [shortest] = due.slice(-1);
  const fitting = due.find(({ page }) => page * windows.length <= ROWS_AT_ONCE) ?? shortest;
  if (!fitting || windows.length === 0) return [];
  return q.rows(fitting.statement, [
    windows.map((w) => w.projectId),
    windows.map((w) => w.low),
    windows.map((w) => w.lowId),
    windows.map((w) => w.high),
    Math.floor(BYTES_AT_ONCE / windows.length),
  ]);
}
export const readDueAuthorities = (q: SlowQuery, projectIds: readonly string[], now: Date) =>
  q.rows(dueAuthorities, [projectIds, now]);
export const readCertificates = (q: Query, ids: readonly string[]) => q.rows(byIds, [ids]);
export const readExpiring = (q: SlowQuery) => q.rows(expiring);
export const readAlertsOf = (q: Query, projectIds: readonly string[]) => q.rows(ofProjects, [projectIds]);
export const readAlerts = (q: Query, ids: readonly string[]) => q.rows(byAlertIds, [ids]);
export const readStamps = (q: Query, projectIds: readonly string[]) => q.rows(stamps, [projectIds]);
export const readEvaluatedUntil = async (q: Query): Promise<Date | null> =>
  (await q.first(readCursor))?.at ?? null;
export const writeEvaluatedUntil = (tx: Tx, at: Date) => tx.defer(moveCursor, [at]);
/** Null: a scan of the whole window is needed. */
export const markLooked = (tx: Tx, alerts: readonly Pick<AlertRow, "id" | "updatedAt">[], at: Date | null) =>
  tx.defer(setLooked, [alerts.map((a) => a.id), alerts.map((a) => a.updatedAt), at]);
export const addNotices = (tx: Tx, all: readonly PendingNotice[], at: Date) =>
  tx.defer(insertNotices, [
    all.map((o) => o.certificateId),
    all.map((o) => o.alertId),
    all.map((o) => o.notice),
    all.map((o) => o.notAfter),
    all.map((o) => o.detail ?? null),
    at,
  ]);
export const readWaitingAlerts = (q: SlowQuery) => q.rows(waitingAlerts);
export const lockForDigest = (tx: Tx, alertIds: readonly string[]) => tx.rows(lockAlerts, [alertIds]);
export const dropNoticesThatAreOver = (tx: Tx, alertIds: readonly string[], now: Date) =>
  tx.rows(dropOver, [alertIds, now]);
export const dropNoticesOfOtherKinds = (tx: Tx, alertIds: readonly string[]) =>
  tx.rows(dropForeign, [alertIds]);
export const dropWaitingExpiries = (tx: Tx, alertId: string) => tx.defer(dropExpiries, [alertId]);
/** This many of each alert, those that expire soonest first. */
export const readMostUrgent = (tx: Tx, alertIds: readonly string[], limit: number) =>
  tx.rows(urgent, [alertIds, limit]);

const ASSIGNED_AT_ONCE = 5000;

/** Gives all that waits of each alert to that alert's message; answers how many, by alert. */
export async function assignNotices(
  tx: Tx,
  messageIds: ReadonlyMap<string, string>,
): Promise<Map<string, number>> {
  const totals = new Map<string, number>();
  for (;;) {
    const part = await tx.rows(assign, [[...messageIds.keys()], [...messageIds.values()], ASSIGNED_AT_ONCE]);
    for (const { alertId, total } of part) totals.set(alertId, (totals.get(alertId) ?? 0) + total);
    if (part.every(({ total }) => total < ASSIGNED_AT_ONCE)) return totals;
  }
}
export const markGathered = (tx: Tx, alertIds: readonly string[], at: Date) =>
  tx.defer(setGathered, [alertIds, at]);

const MESSAGES_PER_STATEMENT = 1000;

/**
 * Messages and their deliveries; `onlyTypes` limits them to some kinds of channel. All that is done later has to end in
 * the time of one statement, so of very many only the last part is.
 */
export async function addMessages(
  tx: Tx,
  all: readonly MessageRow[],
  at: Date,
  onlyTypes: readonly string[] | null,
): Promise<void> {
  for (let from = 0; from < all.length; from += MESSAGES_PER_STATEMENT) {
    const part = all.slice(from, from + MESSAGES_PER_STATEMENT);
    const [ids, alertIds] = [part.map((m) => m.id), part.map((m) => m.alertId)];
    const kinds = part.map((m) => m.kind);
    const contents = part.map((m) => JSON.stringify(m.content));
    const totals = part.map((m) => m.total);
    const messages = [ids, alertIds, kinds, contents, totals, at];
    const deliveries = [alertIds, ids, at, onlyTypes];
    if (from + MESSAGES_PER_STATEMENT < all.length) {
      await Promise.all([tx.rows(insertMessageRows, messages), tx.rows(insertDeliveryRows, deliveries)]);
    } else {
      tx.defer(insertMessageRows, messages);
      tx.defer(insertDeliveryRows, deliveries);
    }
  }
}
export const readWaitingProjects = (q: SlowQuery) => q.rows(waitingProjects);
/** A project's waiting facts; none while another node is at them. The second statement sees what its predecessor left. */
export async function takeFacts(tx: Tx, projectId: string, limit: number): Promise<InboxRow[]> {
  const [entered, facts] = await Promise.all([
    tx.first(enterInbox, [projectId]),
    tx.rows(takeInbox, [projectId, limit]),
  ]);
  return entered?.isOurs ? facts : [];
}
export const removeFacts = (tx: Tx, ids: readonly number[]) => tx.defer(removeInbox, [ids]);
export const findNotifiedAlerts = (
  q: Query,
  certificateIds: readonly string[],
  channelTypes: readonly string[],
) => q.rows(notifiedAlerts, [certificateIds, channelTypes]);
export const dropWaitingFailures = (tx: Tx, certificateIds: readonly string[]) =>
  tx.defer(dropFailures, [certificateIds]);
/** These answer how many are gone; fewer than asked for: there are no more. */
export const forgetHistoryOf = async (tx: Tx, alertId: string, limit: number): Promise<number> =>
  (await tx.first(forgetSome, [alertId, limit]))?.count ?? 0;
export const forgetNotices = async (tx: Tx, endedBefore: Date, limit: number): Promise<number> =>
  (await tx.first(sweepNotices, [endedBefore, limit]))?.count ?? 0;
export const forgetMessages = async (tx: Tx, madeBefore: Date, limit: number): Promise<number> =>
  (await tx.first(sweepMessages, [madeBefore, limit]))?.count ?? 0;
