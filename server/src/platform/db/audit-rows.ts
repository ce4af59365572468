/** A row of the audit log, as it is sent: with the change it describes, or many at once in a batch. */
import type { Actor } from "../actor.ts";
import { newId } from "../ids.ts";
import type { AuditEntry, SlowQuery } from "./handles.ts";
import { columnsOf, sql } from "./statement.ts";

const COLUMNS =
  "id, at, org_id, project_id, event, actor_type, actor_id, actor_name, ip, user_agent, request_id, metadata";

/** Its values in the order of the columns. */
export type AuditRow = readonly unknown[];

/** Of one row. A page may hold a thousand of them, and large rows would make large pages. */
const MOST_CHARACTERS = 16_384;
const MOST_OF_A_VALUE = 1024;

function shortened(value: unknown): unknown {
  const text = JSON.stringify(value) ?? "";
  if (text.length <= MOST_OF_A_VALUE) return value;
  if (Array.isArray(value)) return { count: value.length };
  return typeof value === "string" ? `${value.slice(0, 200)}…` : { characters: text.length };
}

/** What does not fit is replaced by its size, and marked so. */
function metadataOf(metadata: Readonly<Record<string, unknown>>): string {
  const text = JSON.stringify(metadata);
  if (text.length <= MOST_CHARACTERS) return text;
  const kept = Object.entries(metadata).map(([key, value]) => [key, shortened(value)] as const);
  const short = JSON.stringify({ ...Object.fromEntries(kept), isShortened: true });
  return short.length <= MOST_CHARACTERS ? short : JSON.stringify({ isShortened: true });
}

export function auditRow(at: Date, actor: Actor, entry: AuditEntry): AuditRow {
  const { caller } = actor;
  return [
    newId(at.getTime()),
    at,
    entry.orgId,
    entry.projectId ?? null,
    entry.event,
    actor.kind,
    actor.id,
    actor.name,
    caller?.ip ?? null,
    caller?.userAgent ?? null,
    caller?.requestId ?? null,
    metadataOf(entry.metadata ?? {}),
  ];
}

export const insertAudit = sql(`
  INSERT INTO audit_log (${COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`);

const insertMany = sql(`
  INSERT INTO audit_log (${COLUMNS})
  SELECT r.id, r.at, r.org_id, r.project_id, r.event, r.actor_type, r.actor_id, r.actor_name, r.ip, r.user_agent, r.request_id, r.metadata::jsonb
  FROM unnest($1::uuid[], $2::timestamptz[], $3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::uuid[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[])
    AS r (${COLUMNS})`);

/** Many in one statement. */
export const insertAuditRows = (tx: SlowQuery, rows: readonly AuditRow[]) =>
  tx.rows(insertMany, columnsOf(rows));
