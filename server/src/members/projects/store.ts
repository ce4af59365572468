import { escapeLike, searchSql, sql, type Query, type SlowQuery, type Tx } from "../../platform/db/index.ts";
import { HELD_ROLES, type HeldRoleJson } from "../../memberships/index.ts";

export interface ProjectMemberRow {
  readonly id: string;
  readonly projectId: string;
  readonly projectName: string;
  readonly projectType: string;
  readonly userId: string;
  readonly email: string;
  readonly firstName: string;
  readonly lastName: string;
  readonly roles: HeldRoleJson[];
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

const FROM = `FROM memberships m JOIN users u ON u.id = m.user_id`;
const SELECT = `
  SELECT m.id, m.project_id AS "projectId", p.name AS "projectName", p.type AS "projectType", u.id AS "userId", u.email,
    u.first_name AS "firstName", u.last_name AS "lastName", ${HELD_ROLES} AS roles, m.created_at AS "createdAt", m.updated_at AS "updatedAt"
  ${FROM} JOIN projects p ON p.id = m.project_id`;
const matches = (parameter: string): string =>
  `(u.email ILIKE ${parameter} OR u.first_name ILIKE ${parameter} OR u.last_name ILIKE ${parameter})`;
const PAGE = `ORDER BY m.created_at, m.id LIMIT $2 OFFSET $3`;

const one = sql<ProjectMemberRow>(`${SELECT} WHERE m.project_id = $1 AND m.id = $2`);
const page = sql<ProjectMemberRow>(`${SELECT} WHERE m.project_id = $1 ${PAGE}`);
const searchPage = searchSql<ProjectMemberRow>(
  `${SELECT} WHERE m.project_id = $1 AND ${matches("$4")} ${PAGE}`,
);
const count = sql<{ count: number }>(
  `SELECT count(*) AS count FROM memberships WHERE project_id = $1 AND user_id IS NOT NULL`,
);
const countSearch = searchSql<{ count: number }>(
  `SELECT count(*) AS count ${FROM} WHERE m.project_id = $1 AND ${matches("$2")}`,
);
// The share lock makes a removal from the organisation wait, so that nobody stays behind in a project of it.
const colleagues = sql<{ userId: string }>(`
  SELECT u.id AS "userId" ${FROM} WHERE m.org_id = $1 AND m.project_id IS NULL AND u.email = ANY($2) ORDER BY m.id FOR SHARE OF m`);
const lock = sql<{ id: string }>(`SELECT id FROM memberships WHERE id = $1 FOR UPDATE`);

export const findProjectMember = (q: Query, projectId: string, id: string) => q.first(one, [projectId, id]);
/** Those of the addresses that belong to people of the organisation. */
export const holdColleagues = async (tx: Tx, orgId: string, emails: readonly string[]): Promise<string[]> =>
  (await tx.rows(colleagues, [orgId, emails])).map((row) => row.userId);
export const lockMembership = (tx: Tx, id: string) => tx.first(lock, [id]);

export async function pageOfProjectMembers(
  q: SlowQuery,
  projectId: string,
  asked: { readonly offset: number; readonly limit: number; readonly search?: string | undefined },
): Promise<{ rows: ProjectMemberRow[]; totalCount: number }> {
  const { offset, limit, search } = asked;
  const pattern = search === undefined ? undefined : `%${escapeLike(search)}%`;
  const [rows, total] = await Promise.all([
    pattern === undefined
      ? q.rows(page, [projectId, limit, offset])
      : q.rows(searchPage, [projectId, limit, offset, pattern]),
    pattern === undefined ? q.first(count, [projectId]) : q.first(countSearch, [projectId, pattern]),
  ]);
  return { rows, totalCount: total?.count ?? 0 };
}
