import { counterOf } from "../platform/bound.ts";
import { escapeLike, slowSql, sql, type Query, type SlowQuery, type Tx } from "../platform/db/index.ts";
import type { PolicyRules } from "./contract.ts";

export interface PolicyRow {
  readonly id: string;
  readonly projectId: string;
  readonly name: string;
  readonly description: string | null;
  readonly rules: PolicyRules;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

const COLUMNS = `c.id, c.project_id AS "projectId", c.name, c.description, c.rules, c.created_at AS "createdAt", c.updated_at AS "updatedAt"`;
const inOrg = sql<PolicyRow>(
  `SELECT ${COLUMNS} FROM certificate_policies c JOIN projects p ON p.id = c.project_id WHERE c.id = $1 AND p.org_id = $2`,
);
const names = slowSql<{ id: string; name: string }>(
  `SELECT c.id, c.name FROM certificate_policies c WHERE c.project_id = $1 AND lower(c.name) LIKE $2 ORDER BY c.name, c.id`,
);
const byIds = slowSql<PolicyRow>(
  `SELECT ${COLUMNS} FROM certificate_policies c WHERE c.id = ANY($1::uuid[]) ORDER BY c.name, c.id`,
);
const insert = sql(
  `INSERT INTO certificate_policies (id, project_id, name, description, rules, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
);
const update = sql<{ id: string }>(
  `UPDATE certificate_policies SET name = $2, description = $3, rules = $4, updated_at = $5 WHERE id = $1 RETURNING id`,
);
const remove = sql<{ id: string }>(`DELETE FROM certificate_policies WHERE id = $1 RETURNING id`);

const likeOf = (search: string | undefined): string => `%${escapeLike((search ?? "").toLowerCase())}%`;

export const findPolicy = (q: Query, orgId: string, id: string) => q.first(inOrg, [id, orgId]);
export const policyNames = (q: SlowQuery, projectId: string, search: string | undefined) =>
  q.rows(names, [projectId, likeOf(search)]);
export const findPolicies = (q: SlowQuery, ids: readonly string[]) => q.rows(byIds, [ids]);
export const countPolicies = counterOf("certificate_policies WHERE project_id = $1");
export const insertPolicy = (tx: Tx, row: PolicyRow): void =>
  tx.defer(insert, [
    row.id,
    row.projectId,
    row.name,
    row.description,
    JSON.stringify(row.rules),
    row.createdAt,
    row.updatedAt,
  ]);
export const updatePolicy = (tx: Tx, row: PolicyRow) =>
  tx.first(update, [row.id, row.name, row.description, JSON.stringify(row.rules), row.updatedAt]);
export const deletePolicy = (tx: Tx, id: string) => tx.first(remove, [id]);
