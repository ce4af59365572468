/** The due set, the facts that wait, the occasions and the messages made of them. */
import { sql, slowSql, type Query, type Tx } from "../../platform/db/index.ts";
import type { AlertRow } from "../model.ts";
import { ALERT_COLUMNS } from "../store.ts";
import type { CertificateRow } from "./model.ts";

const NAMES = `ARRAY(SELECT alt ->> 'value' FROM jsonb_array_elements(c.alt_names) AS alt)`;
const CERTIFICATE = `c.id, c.project_id AS "projectId", c.application_id AS "applicationId", c.serial_number AS "serialNumber", c.common_name AS "commonName",
  ${NAMES} AS san, p.slug AS "profileName", c.not_before AS "notBefore", c.not_after AS "notAfter", c.revoked_at AS "revokedAt",
  c.revocation_reason AS "revocationReason", c.is_ca AS "isCa"`;
/** An authority's own certificate, seen as one of the inventory. */
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

export const PAGE = 2000;

// All windows in one statement; each walks the index of live ends and stops after a page.
const due = slowSql<CertificateRow & { readonly window: number }>(`
  SELECT w.n::integer - 1 AS window, d.*
  FROM unnest($1::uuid[], $2::timestamptz[], $3::uuid[], $4::timestamptz[]) WITH ORDINALITY AS w(project_id, low, low_id, high, n)
  CROSS JOIN LATERAL (
    SELECT ${CERTIFICATE} FROM (
      SELECT * FROM certificates
      WHERE project_id = w.project_id AND phase = 0 AND renewed_by_id IS NULL AND (not_after, id) > (w.low, w.low_id) AND not_after <= w.high
      ORDER BY not_after, id LIMIT ${PAGE}) c
    LEFT JOIN certificate_profiles p ON p.id = c.profile_id) d`);
const dueAuthorities = slowSql<CertificateRow>(`
  SELECT ${AUTHORITY} FROM ${AUTHORITIES} WHERE a.project_id = ANY($1::uuid[]) AND ac.not_after > $2
    AND NOT EXISTS (SELECT 1 FROM certificates c WHERE c.id = ac.id)`);
const byIds = sql<CertificateRow>(`
  SELECT ${CERTIFICATE} FROM certificates c LEFT JOIN certificate_profiles p ON p.id = c.profile_id WHERE c.id = ANY($1::uuid[])
  UNION ALL SELECT ${AUTHORITY} FROM ${AUTHORITIES} WHERE ac.id = ANY($1::uuid[]) AND NOT EXISTS (SELECT 1 FROM certificates c WHERE c.id = ac.id)`);

const HAS_CHANNEL = `EXISTS (SELECT 1 FROM alert_channels c WHERE c.alert_id = a.id AND c.enabled)`;
const expiring = slowSql<AlertRow>(
  `SELECT ${ALERT_COLUMNS} FROM alerts a WHERE a.event_type = 'expiration' AND a.enabled AND ${HAS_CHANNEL}`,
);
const ofProjects = sql<AlertRow>(
  `SELECT ${ALERT_COLUMNS} FROM alerts a WHERE a.project_id = ANY($1::uuid[]) AND a.enabled AND ${HAS_CHANNEL}`,
);
// A fingerprint of a project's alerts: any that comes, goes or changes alters it.
const fingerprints = sql<{ projectId: string; fingerprint: string }>(`
  SELECT project_id AS "projectId", count(*) || ' ' || max(updated_at) || ' ' || sum(extract(epoch FROM updated_at)) AS fingerprint
  FROM alerts WHERE project_id = ANY($1::uuid[]) GROUP BY project_id`);
const readCursor = sql<{ at: Date }>(`SELECT evaluated_until AS at FROM alert_cursor`);
const moveCursor = sql(`
  INSERT INTO alert_cursor (evaluated_until) VALUES ($1) ON CONFLICT (only_one) DO UPDATE SET evaluated_until = $1`);
// Only if nobody changed the alert meanwhile: a change asks for a new look.
const setLooked = sql(`
  UPDATE alerts a SET looked_at = $3 FROM unnest($1::uuid[], $2::timestamptz[]) AS w(id, updated_at) WHERE a.id = w.id AND a.updated_at = w.updated_at`);

export interface Waiting {
  readonly certificateId: string;
  readonly alertId: string;
  readonly occasion: string;
  readonly notAfter: Date;
  readonly detail?: string | undefined;
}

// An alert that was deleted since it was read takes its occasions with it; the join keeps that from being an error.
const insertOccasions = sql(`
  INSERT INTO alert_occasions (certificate_id, alert_id, occasion, not_after, detail, created_at)
  SELECT w.certificate_id, w.alert_id, w.occasion, w.not_after, w.detail, $6
  FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::timestamptz[], $5::text[]) AS w(certificate_id, alert_id, occasion, not_after, detail)
  JOIN alerts a ON a.id = w.alert_id ON CONFLICT DO NOTHING`);
const waitingAlerts = slowSql<AlertRow>(`
  SELECT ${ALERT_COLUMNS} FROM alerts a WHERE a.id IN (SELECT DISTINCT alert_id FROM alert_occasions WHERE message_id IS NULL) AND a.enabled AND ${HAS_CHANNEL}`);
const lockAlert = sql<AlertRow>(`SELECT ${ALERT_COLUMNS} FROM alerts a WHERE a.id = $1 FOR UPDATE`);
// Waiting for a digest, some have been replaced or revoked or have ended: nobody needs to hear of them any more.
const dropOver = sql(`
  DELETE FROM alert_occasions o USING certificates c
  WHERE o.alert_id = $1 AND o.message_id IS NULL AND c.id = o.certificate_id AND (c.phase <> 0 OR c.renewed_by_id IS NOT NULL OR c.not_after <= $2)`);
const urgent = sql<{ certificateId: string; detail: string | null }>(`
  SELECT certificate_id AS "certificateId", detail FROM alert_occasions WHERE alert_id = $1 AND message_id IS NULL ORDER BY not_after, certificate_id LIMIT $2`);
const assign = sql<{ total: number }>(`
  WITH told AS (UPDATE alert_occasions SET message_id = $2 WHERE alert_id = $1 AND message_id IS NULL RETURNING 1) SELECT count(*) AS total FROM told`);
const setGathered = sql(`UPDATE alerts SET gathered_at = $2 WHERE id = $1`);

const insertMessageRow = sql(
  `INSERT INTO alert_messages (id, alert_id, kind, content, total, created_at) VALUES ($1, $2, $3, $4, $5, $6)`,
);
// One delivery per channel that is enabled at this moment; for a resolution only where it was told before.
const insertDeliveryRows = sql(`
  INSERT INTO alert_deliveries (id, alert_id, message_id, channel_id, channel_type, destination, status, next_at, created_at, updated_at)
  SELECT gen_random_uuid(), c.alert_id, $2, c.id, c.channel_type, c.destination, 'pending', $3, $3, $3
  FROM alert_channels c WHERE c.alert_id = $1 AND c.enabled AND ($4::text[] IS NULL OR c.channel_type = ANY($4))`);

const takeInbox = sql<InboxRow>(`
  SELECT id, name, project_id AS "projectId", certificate_id AS "certificateId", data FROM alert_inbox ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED`);
const removeInbox = sql(`DELETE FROM alert_inbox WHERE id = ANY($1::bigint[])`);
const toldAlerts = sql<{ alertId: string; certificateId: string }>(`
  SELECT DISTINCT o.alert_id AS "alertId", o.certificate_id AS "certificateId" FROM alert_occasions o JOIN alerts a ON a.id = o.alert_id AND a.event_type = 'expiration'
  WHERE o.certificate_id = ANY($1::uuid[]) AND o.message_id IS NOT NULL
    AND EXISTS (SELECT 1 FROM alert_channels c WHERE c.alert_id = o.alert_id AND c.enabled AND c.channel_type = ANY($2::text[]))`);

const sweepOccasions = slowSql(`DELETE FROM alert_occasions WHERE not_after < $1`);
const sweepMessages = slowSql(`
  DELETE FROM alert_messages m WHERE m.created_at < $1 AND NOT EXISTS (SELECT 1 FROM alert_deliveries d WHERE d.message_id = m.id AND d.status = 'pending')`);

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
  readonly at: Date;
}

export const readDue = (q: Query, windows: readonly DueWindow[]) =>
  q.rows(due, [
    windows.map((w) => w.projectId),
    windows.map((w) => w.low),
    windows.map((w) => w.lowId),
    windows.map((w) => w.high),
  ]);
export const readDueAuthorities = (q: Query, projectIds: readonly string[], now: Date) =>
  q.rows(dueAuthorities, [projectIds, now]);
export const readCertificates = (q: Query, ids: readonly string[]) => q.rows(byIds, [ids]);
export const readExpiring = (q: Query) => q.rows(expiring);
export const readAlertsOf = (q: Query, projectIds: readonly string[]) => q.rows(ofProjects, [projectIds]);
export const readFingerprints = (q: Query, projectIds: readonly string[]) =>
  q.rows(fingerprints, [projectIds]);
export const readEvaluatedUntil = async (q: Query): Promise<Date | null> =>
  (await q.first(readCursor))?.at ?? null;
export const writeEvaluatedUntil = (tx: Tx, at: Date) => tx.later(moveCursor, [at]);
export const markLooked = (tx: Tx, alerts: readonly Pick<AlertRow, "id" | "updatedAt">[], at: Date) =>
  tx.later(setLooked, [alerts.map((a) => a.id), alerts.map((a) => a.updatedAt), at]);
export const addOccasions = (tx: Tx, all: readonly Waiting[], at: Date) =>
  tx.later(insertOccasions, [
    all.map((o) => o.certificateId),
    all.map((o) => o.alertId),
    all.map((o) => o.occasion),
    all.map((o) => o.notAfter),
    all.map((o) => o.detail ?? null),
    at,
  ]);
export const readWaitingAlerts = (q: Query) => q.rows(waitingAlerts);
export const lockForGathering = (tx: Tx, alertId: string) => tx.first(lockAlert, [alertId]);
export const dropOccasionsThatAreOver = (tx: Tx, alertId: string, now: Date) =>
  tx.rows(dropOver, [alertId, now]);
export const readMostUrgent = (tx: Tx, alertId: string, limit: number) => tx.rows(urgent, [alertId, limit]);
export const assignOccasions = async (tx: Tx, alertId: string, messageId: string): Promise<number> =>
  (await tx.first(assign, [alertId, messageId]))?.total ?? 0;
export const markGathered = (tx: Tx, alertId: string, at: Date) => tx.later(setGathered, [alertId, at]);

/** A message and its deliveries; `onlyTypes` limits it to some kinds of channel. */
export function addMessage(tx: Tx, m: MessageRow, onlyTypes: readonly string[] | null): void {
  tx.later(insertMessageRow, [m.id, m.alertId, m.kind, JSON.stringify(m.content), m.total, m.at]);
  tx.later(insertDeliveryRows, [m.alertId, m.id, m.at, onlyTypes]);
}
export const takeFacts = (tx: Tx, limit: number) => tx.rows(takeInbox, [limit]);
export const removeFacts = (tx: Tx, ids: readonly number[]) => tx.later(removeInbox, [ids]);
export const findToldAlerts = (
  q: Query,
  certificateIds: readonly string[],
  channelTypes: readonly string[],
) => q.rows(toldAlerts, [certificateIds, channelTypes]);
export async function sweepHistory(tx: Tx, occasionsBefore: Date, messagesBefore: Date): Promise<void> {
  await tx.rows(sweepOccasions, [occasionsBefore]);
  await tx.rows(sweepMessages, [messagesBefore]);
}
