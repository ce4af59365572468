import { escapeLike, searchSql, sql, type Query, type SlowQuery, type Tx } from "../../platform/db/index.ts";

export interface ListedProject {
  readonly id: string;
  readonly name: string;
  readonly slug: string;
  readonly type: string;
  readonly orgId: string;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  readonly hasAdmin: boolean;
}

/**
 * Somebody who can let others in, and does not go by themselves. An identity of the project itself does not count: only
 * who has rights in the project can make credentials for it.
 */
const hasAdmin = (projectId: string): string => `
  EXISTS (SELECT 1 FROM memberships m JOIN membership_roles r ON r.membership_id = m.id LEFT JOIN identities i ON i.id = m.identity_id
    WHERE m.project_id = ${projectId} AND r.role = 'admin' AND NOT r.is_temporary AND i.project_id IS NULL)`;

const FOUND = `FROM projects p WHERE org_id = $1 AND ($2::text IS NULL OR name ILIKE $2 OR slug ILIKE $2)`;
const page = searchSql<ListedProject>(`
  SELECT id, name, slug, type, org_id AS "orgId", created_at AS "createdAt", updated_at AS "updatedAt", ${hasAdmin("p.id")} AS "hasAdmin" ${FOUND}
  ORDER BY created_at, id LIMIT $3 OFFSET $4`);
const count = searchSql<{ count: number }>(`SELECT count(*) AS count ${FOUND}`);
const led = sql<{ isLed: boolean }>(`SELECT ${hasAdmin("$1")} AS "isLed"`);
const place = sql<{ id: string; createdAt: Date }>(`
  SELECT id, created_at AS "createdAt" FROM memberships WHERE project_id = $1 AND (identity_id = $2 OR user_id = $2) FOR UPDATE`);
const addAdmin = sql(`
  INSERT INTO membership_roles (id, membership_id, role) SELECT $1, $2, 'admin'
  WHERE NOT EXISTS (SELECT 1 FROM membership_roles WHERE membership_id = $2 AND role = 'admin' AND NOT is_temporary)`);
const touch = sql(`UPDATE memberships SET updated_at = $2 WHERE id = $1`);

export async function pageOfAllProjects(
  q: SlowQuery,
  orgId: string,
  { offset, limit, search }: { offset: number; limit: number; search?: string | undefined },
): Promise<{ projects: ListedProject[]; count: number }> {
  const pattern = search === undefined ? null : `%${escapeLike(search)}%`;
  const [projects, total] = await Promise.all([
    q.rows(page, [orgId, pattern, limit, offset]),
    q.first(count, [orgId, pattern]),
  ]);
  return { projects, count: total?.count ?? 0 };
}

export const isLed = async (q: Query, projectId: string): Promise<boolean> =>
  (await q.first(led, [projectId]))?.isLed ?? false;

/** Someone's membership in a project, if there is one, with nobody else changing it until the end. */
export const lockPlaceOf = (tx: Tx, projectId: string, actorId: string) =>
  tx.first(place, [projectId, actorId]);
export async function addAdminRole(tx: Tx, membershipId: string, roleId: string, at: Date): Promise<void> {
  await tx.rows(addAdmin, [roleId, membershipId]);
  await tx.rows(touch, [membershipId, at]);
}
