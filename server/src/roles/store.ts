import { slowSql, sql, type Query, type Tx } from "../platform/db/index.ts";
import { HOLDER_LIMITS, weightOf, type Rule, type RuleWeight } from "../permissions/index.ts";

export interface RoleRow {
  readonly id: string;
  readonly orgId: string;
  readonly projectId: string | null;
  readonly slug: string;
  readonly name: string;
  readonly description: string | null;
  readonly rules: Rule[];
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

export interface RoleScope {
  readonly orgId: string;
  readonly projectId: string | null;
}

const COLUMNS = `id, org_id AS "orgId", project_id AS "projectId", slug, name, description, rules, created_at AS "createdAt", updated_at AS "updatedAt"`;
const IN_SCOPE = `org_id = $1 AND project_id IS NOT DISTINCT FROM $2`;
const insert = sql<RoleRow>(`
  INSERT INTO roles (id, org_id, project_id, slug, name, description, rules, created_at, updated_at, rule_count, pattern_characters)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8, $9, $10) RETURNING ${COLUMNS}`);
const weigh = sql<{ count: number; bytes: number }>(`
  SELECT count(*) AS count, coalesce(sum(octet_length(rules::text)), 0)::bigint AS bytes FROM roles WHERE ${IN_SCOPE}`);
// Somebody for whom the role would be too much with this weight, whatever else they hold and however often they hold it.
const overburdened = slowSql<{ membershipId: string }>(`
  SELECT h.membership_id AS "membershipId" FROM membership_roles h JOIN roles c ON c.id = h.role_id
  WHERE h.membership_id IN (SELECT membership_id FROM membership_roles WHERE role_id = $1)
  GROUP BY h.membership_id
  HAVING coalesce(sum(c.rule_count) FILTER (WHERE c.id <> $1), 0) + $2 * count(*) FILTER (WHERE c.id = $1) > $4
    OR coalesce(sum(c.pattern_characters) FILTER (WHERE c.id <> $1), 0) + $3 * count(*) FILTER (WHERE c.id = $1) > $5
  LIMIT 1`);
const list = sql<RoleRow>(`SELECT ${COLUMNS} FROM roles WHERE ${IN_SCOPE} ORDER BY created_at, id`);
const bySlug = sql<RoleRow>(`SELECT ${COLUMNS} FROM roles WHERE ${IN_SCOPE} AND slug = $3`);
const byId = sql<RoleRow>(`SELECT ${COLUMNS} FROM roles WHERE ${IN_SCOPE} AND id = $3`);
const lockById = sql<RoleRow>(`SELECT ${COLUMNS} FROM roles WHERE ${IN_SCOPE} AND id = $3 FOR UPDATE`);
const update = sql<RoleRow>(`
  UPDATE roles SET slug = $2, name = $3, description = $4, rules = $5, updated_at = $6, rule_count = $7, pattern_characters = $8
  WHERE id = $1 RETURNING ${COLUMNS}`);
const remove = sql<{ id: string }>(`DELETE FROM roles WHERE id = $1 RETURNING id`);
// Who is leaving right now is waited for: a role cannot be put into a membership that is gone when it counts.
const holdHolders = sql(`
  SELECT id FROM memberships WHERE id IN (SELECT membership_id FROM membership_roles WHERE role_id = $1) ORDER BY id FOR KEY SHARE`);
// A membership that held nothing but this role stays a membership, without rights.
const keepMemberships = sql(`
  INSERT INTO membership_roles (id, membership_id, role)
  SELECT gen_random_uuid(), h.membership_id, 'no-access' FROM membership_roles h WHERE h.role_id = $1
    AND NOT EXISTS (SELECT 1 FROM membership_roles o WHERE o.membership_id = h.membership_id AND o.role_id IS DISTINCT FROM $1)
  GROUP BY h.membership_id`);

const weightsOf = (rules: readonly Rule[]): [number, number] => {
  const { rules: count, patternCharacters } = weightOf(rules);
  return [count, patternCharacters];
};

export const insertRole = (
  tx: Tx,
  r: {
    id: string;
    scope: RoleScope;
    slug: string;
    name: string;
    description: string | null;
    rules: readonly Rule[];
    at: Date;
  },
) =>
  tx.first(insert, [
    r.id,
    r.scope.orgId,
    r.scope.projectId,
    r.slug,
    r.name,
    r.description,
    JSON.stringify(r.rules),
    r.at,
    ...weightsOf(r.rules),
  ]);
export const weighRoles = async (tx: Query, scope: RoleScope) =>
  (await tx.first(weigh, [scope.orgId, scope.projectId])) ?? { count: 0, bytes: 0 };
export const findOverburdened = (tx: Tx, id: string, { rules, patternCharacters }: RuleWeight) =>
  tx.first(overburdened, [
    id,
    rules,
    patternCharacters,
    HOLDER_LIMITS.rules,
    HOLDER_LIMITS.patternCharacters,
  ]);
export const listRoles = (q: Query, scope: RoleScope) => q.rows(list, [scope.orgId, scope.projectId]);
export const findRoleBySlug = (q: Query, scope: RoleScope, slug: string) =>
  q.first(bySlug, [scope.orgId, scope.projectId, slug]);
export const findRole = (q: Query, scope: RoleScope, id: string) =>
  q.first(byId, [scope.orgId, scope.projectId, id]);
/** As it is now, and until this transaction ends. */
export const lockRole = (tx: Tx, scope: RoleScope, id: string) =>
  tx.first(lockById, [scope.orgId, scope.projectId, id]);
export const updateRole = (tx: Tx, r: RoleRow, at: Date) =>
  tx.first(update, [r.id, r.slug, r.name, r.description, JSON.stringify(r.rules), at, ...weightsOf(r.rules)]);
/** After `lockRole`: transactions that assign the role right now were waited for, and are counted among its holders. */
export async function deleteRole(tx: Tx, id: string) {
  await tx.rows(holdHolders, [id]);
  await tx.rows(keepMemberships, [id]);
  return tx.first(remove, [id]);
}
