/** Alerts and their channels. What they report is stored in notices/, what they send in deliveries/. */
import {
  escapeLike,
  searchSql,
  slowSql,
  sql,
  type Query,
  type SlowQuery,
  type Tx,
} from "../platform/db/index.ts";
import type { AlertEventType } from "./contract.ts";
import type { AlertRow } from "./model.ts";

export interface ChannelRow {
  readonly id: string;
  readonly alertId: string;
  readonly position: number;
  readonly channelType: string;
  readonly enabled: boolean;
  readonly destination: string;
  readonly dataKeyId: string;
  readonly settings: Buffer;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

interface LastRunRow {
  readonly alertId: string;
  readonly timestamp: Date;
  readonly error: string | null;
  readonly isFailed: boolean;
}

export const ALERT_COLUMNS = `a.id, a.org_id AS "orgId", a.project_id AS "projectId", a.application_id AS "applicationId", a.name, a.description,
  a.event_type AS "eventType", a.alert_before AS "alertBefore", a.filters, a.enabled, a.is_daily AS "isDaily", a.digest,
  a.looked_at AS "lookedAt", a.gathered_at AS "gatheredAt", a.created_at AS "createdAt", a.updated_at AS "updatedAt"`;
const CHANNEL_COLUMNS = `id, alert_id AS "alertId", position, channel_type AS "channelType", enabled, destination,
  data_key_id AS "dataKeyId", settings, created_at AS "createdAt", updated_at AS "updatedAt"`;

const insert = sql(`
  INSERT INTO alerts (id, org_id, project_id, application_id, name, description, event_type, alert_before, filters, enabled,
    is_daily, digest, gathered_at, created_at, updated_at)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $13, $13)`);
const update = sql(`
  UPDATE alerts SET name = $2, description = $3, event_type = $4, alert_before = $5, filters = $6, enabled = $7, is_daily = $8,
    digest = $9, looked_at = NULL, updated_at = $10 WHERE id = $1`);
const remove = sql<{ id: string }>(`DELETE FROM alerts WHERE id = $1 RETURNING id`);
const byId = sql<AlertRow>(`SELECT ${ALERT_COLUMNS} FROM alerts a WHERE a.id = $1 AND a.org_id = $2`);
// The next writer waits and sees the result of this change.
const locked = sql<AlertRow>(`SELECT ${ALERT_COLUMNS} FROM alerts a WHERE a.id = $1 FOR NO KEY UPDATE`);
const projectsOf = sql<{ projectId: string }>(
  `SELECT DISTINCT project_id AS "projectId" FROM alerts WHERE org_id = $1`,
);

const insertChannelRow = sql(`
  INSERT INTO alert_channels (id, alert_id, position, channel_type, enabled, destination, data_key_id, settings, created_at, updated_at)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
  ON CONFLICT (id) DO UPDATE SET position = $3, channel_type = $4, enabled = $5, destination = $6, data_key_id = $7, settings = $8, updated_at = $10`);
const removeChannels = sql(`DELETE FROM alert_channels WHERE alert_id = $1 AND id <> ALL($2::uuid[])`);
const channelsOf = sql<ChannelRow>(
  `SELECT ${CHANNEL_COLUMNS} FROM alert_channels WHERE alert_id = ANY($1::uuid[]) ORDER BY alert_id, position`,
);
const channelById = sql<ChannelRow & { readonly isAlertEnabled: boolean }>(`
  SELECT c.id, c.alert_id AS "alertId", c.position, c.channel_type AS "channelType", c.enabled, c.destination, c.data_key_id AS "dataKeyId",
    c.settings, c.created_at AS "createdAt", c.updated_at AS "updatedAt", a.enabled AS "isAlertEnabled"
  FROM alert_channels c JOIN alerts a ON a.id = c.alert_id WHERE c.id = $1`);

// The newest message that anything happened to; one channel that did not take it makes the run a failed one.
const lastRuns = sql<LastRunRow>(`
  SELECT w.id AS "alertId", d.at AS timestamp, d.error, d.error IS NOT NULL AS "isFailed"
  FROM unnest($1::uuid[]) AS w(id)
  CROSS JOIN LATERAL (
    SELECT max(d.last_attempt_at) AS at, min(d.last_error) FILTER (WHERE d.status <> 'delivered') AS error
    FROM alert_messages m JOIN alert_deliveries d ON d.message_id = m.id
    WHERE m.alert_id = w.id AND d.last_attempt_at IS NOT NULL
    GROUP BY m.created_at, m.id ORDER BY m.created_at DESC, m.id DESC LIMIT 1) d`);

const applicationProject = sql<{ projectId: string }>(`
  SELECT a.project_id AS "projectId" FROM pki_applications a JOIN projects p ON p.id = a.project_id WHERE a.id = $1 AND p.org_id = $2`);
// Certificates, profiles and authorities live in projects of any type, so what a project holds says more than its type:
// among the caller's own the one where something was last made goes first, then those made for certificates, the oldest
// first. Projects the caller does not belong to count by their type alone.
const certificateProject = slowSql<{ id: string }>(`
  SELECT p.id FROM projects p
  LEFT JOIN memberships m ON m.project_id = p.id AND (m.identity_id = $2 OR m.user_id = $2)
  LEFT JOIN LATERAL (
    SELECT max(at) AS at FROM (
      (SELECT created_at AS at FROM certificates WHERE project_id = p.id ORDER BY created_at DESC LIMIT 1)
      UNION ALL SELECT max(created_at) FROM certificate_profiles WHERE project_id = p.id
      UNION ALL SELECT max(created_at) FROM certificate_authorities WHERE project_id = p.id AND deleted_at IS NULL) made
  ) held ON m.id IS NOT NULL
  WHERE p.org_id = $1 AND (p.type = 'cert-manager' OR held.at IS NOT NULL)
  ORDER BY (m.id IS NULL), held.at DESC NULLS LAST, p.created_at, p.id LIMIT 1`);

export const insertAlert = (tx: Tx, a: Omit<AlertRow, "lookedAt" | "gatheredAt" | "updatedAt">) =>
  tx.defer(insert, [
    a.id,
    a.orgId,
    a.projectId,
    a.applicationId,
    a.name,
    a.description,
    a.eventType,
    a.alertBefore,
    JSON.stringify(a.filters),
    a.enabled,
    a.isDaily,
    a.digest,
    a.createdAt,
  ]);
export const updateAlertRow = (tx: Tx, a: AlertRow) =>
  tx.defer(update, [
    a.id,
    a.name,
    a.description,
    a.eventType,
    a.alertBefore,
    JSON.stringify(a.filters),
    a.enabled,
    a.isDaily,
    a.digest,
    a.updatedAt,
  ]);
export const deleteAlertRow = (tx: Tx, id: string) => tx.first(remove, [id]);
export const findAlert = (q: Query, orgId: string, id: string) => q.first(byId, [id, orgId]);
export const lockAlert = (tx: Tx, id: string) => tx.first(locked, [id]);
export const listAlertProjects = (q: Query, orgId: string) => q.rows(projectsOf, [orgId]);

export const putChannel = (tx: Tx, c: ChannelRow) =>
  tx.defer(insertChannelRow, [
    c.id,
    c.alertId,
    c.position,
    c.channelType,
    c.enabled,
    c.destination,
    c.dataKeyId,
    c.settings,
    c.createdAt,
    c.updatedAt,
  ]);
export const keepOnlyChannels = (tx: Tx, alertId: string, ids: readonly string[]) =>
  tx.defer(removeChannels, [alertId, ids]);
export const findChannels = (q: Query, alertIds: readonly string[]) => q.rows(channelsOf, [alertIds]);
export const findChannel = (q: Query, id: string) => q.first(channelById, [id]);
export const findLastRuns = (q: Query, alertIds: readonly string[]) => q.rows(lastRuns, [alertIds]);
export const findApplicationProject = (q: Query, orgId: string, applicationId: string) =>
  q.first(applicationProject, [applicationId, orgId]);
export const findCertificateProject = (q: SlowQuery, orgId: string, actorId: string) =>
  q.first(certificateProject, [orgId, actorId]);

interface AlertSearch {
  readonly projectIds: readonly string[];
  readonly applicationId: string | undefined;
  readonly search: string | undefined;
  readonly eventType: AlertEventType | undefined;
  readonly enabled: boolean | undefined;
  readonly limit: number;
  readonly offset: number;
}

const FILTERS = `($3::text IS NULL OR a.name ILIKE $3 OR a.description ILIKE $3)
  AND ($4::text IS NULL OR a.event_type = $4) AND ($5::boolean IS NULL OR a.enabled = $5)`;
const WHERE = `a.project_id = ANY($1::uuid[]) AND ($2::uuid IS NULL OR a.application_id = $2) AND ${FILTERS}`;
// Each project's newest by its index, then the newest of those: no project is read beyond the page.
const pageOfProjects = searchSql<AlertRow>(`
  SELECT ${ALERT_COLUMNS} FROM unnest($1::uuid[]) AS w(id)
  CROSS JOIN LATERAL (
    SELECT * FROM alerts a WHERE a.project_id = w.id AND $2::uuid IS NULL AND ${FILTERS}
    ORDER BY a.created_at DESC, a.id DESC LIMIT $6::bigint + $7::bigint) a
  ORDER BY a.created_at DESC, a.id DESC LIMIT $6 OFFSET $7`);
const pageOfApplication = searchSql<AlertRow>(
  `SELECT ${ALERT_COLUMNS} FROM alerts a WHERE ${WHERE} ORDER BY a.created_at DESC, a.id DESC LIMIT $6 OFFSET $7`,
);
const countFound = searchSql<{ total: number }>(`SELECT count(*) AS total FROM alerts a WHERE ${WHERE}`);
const countAll = sql<{ total: number }>(`
  SELECT coalesce(sum(count), 0)::bigint AS total FROM alert_counts
  WHERE scope_id = ANY($1::uuid[]) AND ($2::text IS NULL OR event_type = $2) AND ($3::boolean IS NULL OR enabled = $3)`);

export async function searchAlerts(
  q: SlowQuery,
  s: AlertSearch,
): Promise<{ alerts: AlertRow[]; total: number }> {
  const [eventType, enabled] = [s.eventType ?? null, s.enabled ?? null];
  const term = s.search === undefined ? null : `%${escapeLike(s.search)}%`;
  const values = [s.projectIds, s.applicationId ?? null, term, eventType, enabled];
  const scopes = s.applicationId === undefined ? s.projectIds : [s.applicationId];
  const [alerts, counted] = await Promise.all([
    q.rows(s.applicationId === undefined ? pageOfProjects : pageOfApplication, [
      ...values,
      s.limit,
      s.offset,
    ]),
    // Only a search for words has to look at every alert to know how many it finds.
    term === null ? q.first(countAll, [scopes, eventType, enabled]) : q.first(countFound, values),
  ]);
  return { alerts, total: counted?.total ?? 0 };
}

interface CountWish {
  readonly orgId: string;
  readonly projectId: string;
  /** Shall those with long filters be counted, too? */
  readonly isLarge: boolean;
  readonly most: number;
}

// The project's are counted beside the rows. The organisation's are counted when a project begins and now and then: a
// walk along twenty thousand of them for each new one would be most of what that costs.
const counted = sql<{ inProject: number; inOrganization: number; largeInProject: number }>(`
  SELECT p.n AS "inProject",
    CASE WHEN p.n < 20 OR p.n % 50 = 0 THEN (SELECT count(*) FROM (SELECT 1 FROM alerts WHERE org_id = $1 LIMIT $3) a) ELSE 0 END AS "inOrganization",
    CASE WHEN $4 THEN (SELECT count(*) FROM alerts WHERE project_id = $2 AND octet_length(filters::text) > 4096) ELSE 0 END AS "largeInProject"
  FROM (SELECT coalesce(sum(count), 0)::bigint AS n FROM alert_counts WHERE scope_id = $2) p`);
export const countAlerts = async (q: Query, { orgId, projectId, isLarge, most }: CountWish) =>
  (await q.first(counted, [orgId, projectId, most, isLarge])) ?? {
    inProject: 0,
    inOrganization: 0,
    largeInProject: 0,
  };
