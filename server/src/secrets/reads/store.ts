import { sql, type Tx } from "../../platform/db/index.ts";

export interface ReadEntry {
  readonly id: string;
  readonly at: Date;
  readonly orgId: string;
  readonly projectId: string;
  readonly event: string;
  readonly actorType: string;
  readonly actorId: string | null;
  readonly actorName: string;
  readonly ip: string | null;
  readonly userAgent: string | null;
  readonly requestId: string | null;
  readonly metadata: string;
}

const insert = sql(`
  INSERT INTO audit_log (id, at, org_id, project_id, event, actor_type, actor_id, actor_name, ip, user_agent, request_id, metadata)
  SELECT r.id, r.at, r.org_id, r.project_id, r.event, r.actor_type, r.actor_id, r.actor_name, r.ip, r.user_agent, r.request_id, r.metadata::jsonb
  FROM unnest($1::uuid[], $2::timestamptz[], $3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::uuid[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[])
    AS r (id, at, org_id, project_id, event, actor_type, actor_id, actor_name, ip, user_agent, request_id, metadata)`);

/** Many readings in one statement. */
export const insertReads = (tx: Tx, rows: readonly ReadEntry[]) =>
  tx.rows(insert, [
    rows.map((r) => r.id),
    rows.map((r) => r.at),
    rows.map((r) => r.orgId),
    rows.map((r) => r.projectId),
    rows.map((r) => r.event),
    rows.map((r) => r.actorType),
    rows.map((r) => r.actorId),
    rows.map((r) => r.actorName),
    rows.map((r) => r.ip),
    rows.map((r) => r.userAgent),
    rows.map((r) => r.requestId),
    rows.map((r) => r.metadata),
  ]);
