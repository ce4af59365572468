import { slowSql, sql, type Query, type SlowQuery, type Tx } from "../../platform/db/index.ts";
import type { CalendarCertificate } from "./model.ts";

export interface CalendarRow {
  readonly id: string;
  readonly projectId: string;
  readonly createdAt: Date;
  readonly lastUsedAt: Date | null;
}

const COLUMNS = `c.id, c.project_id AS "projectId", c.created_at AS "createdAt", c.last_used_at AS "lastUsedAt"`;
const insert = sql(`INSERT INTO alert_calendars (id, project_id, created_at) VALUES ($1, $2, $3)`);
const list = sql<CalendarRow>(
  `SELECT ${COLUMNS} FROM alert_calendars c WHERE c.project_id = $1 ORDER BY c.created_at, c.id LIMIT 1000`,
);
const inOrg = sql<CalendarRow>(
  `SELECT ${COLUMNS} FROM alert_calendars c JOIN projects p ON p.id = c.project_id WHERE c.id = $1 AND p.org_id = $2`,
);
const byId = sql<CalendarRow>(`SELECT ${COLUMNS} FROM alert_calendars c WHERE c.id = $1`);
const remove = sql<{ id: string }>(`DELETE FROM alert_calendars WHERE id = $1 RETURNING id`);
const used = sql(`UPDATE alert_calendars SET last_used_at = $2 WHERE id = $1`);
const upcoming = slowSql<CalendarCertificate>(`
  SELECT id, common_name AS "commonName", serial_number AS "serialNumber", not_after AS "notAfter" FROM certificates
  WHERE project_id = $1 AND phase = 0 AND renewed_by_id IS NULL AND not_after > $2 ORDER BY not_after, id LIMIT $3`);

export const insertCalendar = (tx: Tx, row: { id: string; projectId: string; at: Date }) =>
  tx.defer(insert, [row.id, row.projectId, row.at]);
export const listCalendarsOf = (q: Query, projectId: string) => q.rows(list, [projectId]);
export const findCalendar = (q: Query, orgId: string, id: string) => q.first(inOrg, [id, orgId]);
export const findCalendarById = (q: Query, id: string) => q.first(byId, [id]);
export const removeCalendar = (tx: Tx, id: string) => tx.first(remove, [id]);
export const markCalendarUsed = (tx: Tx, id: string, at: Date) => tx.defer(used, [id, at]);
export const readUpcoming = (q: SlowQuery, projectId: string, now: Date, limit: number) =>
  q.rows(upcoming, [projectId, now, limit]);
