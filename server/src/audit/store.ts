import { escapeLike, searchSql, type SlowQuery } from "../platform/db/index.ts";
import type { AuditLogRow, Position } from "./model.ts";

const COLUMNS = `id, at, org_id AS "orgId", project_id AS "projectId", event, actor_type AS "actorType", actor_id AS "actorId",
  actor_name AS "actorName", ip, user_agent AS "userAgent", request_id AS "requestId", metadata`;

export interface AuditFilter {
  /** Null = what concerns no organisation. */
  readonly orgId: string | null;
  readonly projectId: string | undefined;
  readonly from: Date;
  readonly to: Date | undefined;
  readonly events: readonly string[] | undefined;
  readonly actorType: string | undefined;
  readonly actorId: string | undefined;
  readonly userAgent: string | undefined;
  readonly after: Position | undefined;
  readonly limit: number;
  readonly offset: number;
}

/**
 * The text holds only the conditions that were asked for, and its plan is made for their values: with an
 * organisation or project given, one index per month yields the rows in order, and reading stops at the limit.
 */
export function auditPageQuery(filter: AuditFilter): { readonly text: string; readonly values: unknown[] } {
  const values: unknown[] = [];
  const put = (value: unknown): string => `$${values.push(value)}`;
  const orgId = filter.orgId === null ? "NULL" : put(filter.orgId);
  const where = [`at >= ${put(filter.from)}`];
  if (filter.orgId === null) where.push("org_id IS NULL");
  else if (filter.projectId === undefined) where.push(`org_id = ${orgId}`);
  // Said so that it is checked but no index is searched by it: a planner that hopes to meet a quiet project's rows
  // soon while walking through its organisation's walks through all of them.
  else where.push(`project_id = ${put(filter.projectId)}`, `org_id IS NOT DISTINCT FROM ${orgId}`);
  if (filter.to !== undefined) where.push(`at <= ${put(filter.to)}`);
  if (filter.after !== undefined) {
    const at = put(filter.after.at);
    // The first half says nothing new, but it is the half by which whole months are passed over.
    where.push(`at <= ${at}`, `(at, id) < (${at}, ${put(filter.after.id)})`);
  }
  if (filter.events !== undefined) where.push(`event = ANY(${put(filter.events)})`);
  if (filter.actorType !== undefined) where.push(`actor_type = ${put(filter.actorType)}`);
  if (filter.actorId !== undefined) where.push(`actor_id = ${put(filter.actorId)}`);
  if (filter.userAgent !== undefined)
    where.push(`user_agent ILIKE ${put(`%${escapeLike(filter.userAgent)}%`)}`);
  const page = `LIMIT ${put(filter.limit)} OFFSET ${put(filter.offset)}`;
  const text = `SELECT ${COLUMNS} FROM audit_log WHERE ${where.join(" AND ")} ORDER BY at DESC, id DESC ${page}`;
  return { text, values };
}

export function pageOfAudit(q: SlowQuery, filter: AuditFilter): Promise<AuditLogRow[]> {
  const { text, values } = auditPageQuery(filter);
  return q.rows(searchSql<AuditLogRow>(text), values);
}
