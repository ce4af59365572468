import { sql, type Tx } from "../../platform/db/index.ts";

export interface RefusalRow {
  readonly id: string;
  readonly at: Date;
  readonly orgId: string;
  readonly projectId: string | null;
  readonly event: string;
  readonly actorType: string;
  readonly actorId: string;
  readonly actorName: string;
  readonly ip: string;
  readonly userAgent: string;
  readonly requestId: string;
  readonly metadata: string;
}

const COLUMNS = [
  "id",
  "at",
  "orgId",
  "projectId",
  "event",
  "actorType",
  "actorId",
  "actorName",
  "ip",
  "userAgent",
  "requestId",
  "metadata",
] as const;

const insert = sql(`
  INSERT INTO audit_log (id, at, org_id, project_id, event, actor_type, actor_id, actor_name, ip, user_agent, request_id, metadata)
  SELECT r.id, r.at, r.org_id, r.project_id, r.event, r.actor_type, r.actor_id, r.actor_name, r.ip, r.user_agent, r.request_id, r.metadata::jsonb
  FROM unnest($1::uuid[], $2::timestamptz[], $3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::uuid[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[])
    AS r (id, at, org_id, project_id, event, actor_type, actor_id, actor_name, ip, user_agent, request_id, metadata)`);

/** Many refusals in one statement. */
export const insertRefusals = (tx: Tx, rows: readonly RefusalRow[]) =>
  tx.rows(
    insert,
    COLUMNS.map((column) => rows.map((row) => row[column])),
  );
