import { counterOf } from "../platform/bound.ts";
import { escapeLike, slowSql, sql, type Query, type SlowQuery, type Tx } from "../platform/db/index.ts";

export interface ApplicationRow {
  readonly id: string;
  readonly projectId: string;
  readonly name: string;
  readonly description: string | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}
interface AttachedRow {
  readonly applicationId: string;
  readonly profileId: string;
  readonly profileSlug: string;
  readonly profileDescription: string | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

const COLUMNS = `a.id, a.project_id AS "projectId", a.name, a.description, a.created_at AS "createdAt", a.updated_at AS "updatedAt"`;
const inOrg = sql<ApplicationRow>(
  `SELECT ${COLUMNS} FROM pki_applications a JOIN projects p ON p.id = a.project_id WHERE a.id = $1 AND p.org_id = $2`,
);
const byName = sql<ApplicationRow>(
  `SELECT ${COLUMNS} FROM pki_applications a WHERE a.project_id = $1 AND a.name = $2`,
);
const list = slowSql<ApplicationRow & { profileCount: number; certificateCount: number }>(`
  SELECT ${COLUMNS}, (SELECT count(*) FROM pki_application_profiles ap WHERE ap.application_id = a.id) AS "profileCount",
    (SELECT count(*) FROM certificates c WHERE c.application_id = a.id) AS "certificateCount"
  FROM pki_applications a WHERE a.project_id = $1 AND lower(a.name) LIKE $2 AND ($5::uuid[] IS NULL OR a.id = ANY($5)) ORDER BY a.name, a.id OFFSET $3 LIMIT $4`);
const names = slowSql<{ id: string; name: string }>(
  `SELECT a.id, a.name FROM pki_applications a WHERE a.project_id = $1 AND lower(a.name) LIKE $2 ORDER BY a.name, a.id LIMIT $3`,
);
const count = slowSql<{ count: number }>(
  `SELECT count(*) AS count FROM pki_applications a WHERE a.project_id = $1 AND lower(a.name) LIKE $2`,
);
const insert = sql(
  `INSERT INTO pki_applications (id, project_id, name, description, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6)`,
);
const update = sql(`UPDATE pki_applications SET name = $2, description = $3, updated_at = $4 WHERE id = $1`);
const remove = sql(`DELETE FROM pki_applications WHERE id = $1`);
const attach = sql(
  `INSERT INTO pki_application_profiles (application_id, profile_id, created_at, updated_at) VALUES ($1, $2, $3, $3) ON CONFLICT DO NOTHING`,
);
const detach = sql(`DELETE FROM pki_application_profiles WHERE application_id = $1 AND profile_id = $2`);
const attached = sql<AttachedRow>(`
  SELECT ap.application_id AS "applicationId", ap.profile_id AS "profileId", f.slug AS "profileSlug", f.description AS "profileDescription",
    ap.created_at AS "createdAt", ap.updated_at AS "updatedAt"
  FROM pki_application_profiles ap JOIN certificate_profiles f ON f.id = ap.profile_id WHERE ap.application_id = $1 ORDER BY f.slug, f.id`);
const isAttached = sql<{ found: boolean }>(
  `SELECT true AS found FROM pki_application_profiles WHERE application_id = $1 AND profile_id = $2`,
);
const known = sql<{ id: string }>(
  `SELECT id FROM certificate_profiles WHERE project_id = $1 AND id = ANY($2)`,
);

const likeOf = (search: string | undefined): string => `%${escapeLike((search ?? "").toLowerCase())}%`;
export const findApplication = (q: Query, orgId: string, id: string) => q.first(inOrg, [id, orgId]);
export const findApplicationByName = (q: Query, projectId: string, name: string) =>
  q.first(byName, [projectId, name]);
/** All, or of some that were found already those in `ids`. */
export const listApplications = (
  q: SlowQuery,
  projectId: string,
  page: {
    search?: string | undefined;
    offset: number;
    limit: number;
    ids?: readonly string[] | undefined;
  },
) => q.rows(list, [projectId, likeOf(page.search), page.offset, page.limit, page.ids ?? null]);
export const listApplicationNames = (
  q: SlowQuery,
  projectId: string,
  search: string | undefined,
  most: number,
) => q.rows(names, [projectId, likeOf(search), most]);
export const countApplications = async (
  q: SlowQuery,
  projectId: string,
  search: string | undefined,
): Promise<number> => (await q.first(count, [projectId, likeOf(search)]))?.count ?? 0;
export const countAllApplications = counterOf("pki_applications WHERE project_id = $1");
export const insertApplication = (tx: Tx, row: ApplicationRow): void =>
  tx.defer(insert, [row.id, row.projectId, row.name, row.description, row.createdAt, row.updatedAt]);
export const updateApplication = (tx: Tx, row: ApplicationRow): void =>
  tx.defer(update, [row.id, row.name, row.description, row.updatedAt]);
export const deleteApplication = (tx: Tx, id: string): void => tx.defer(remove, [id]);
export const attachProfile = (tx: Tx, applicationId: string, profileId: string, at: Date): void =>
  tx.defer(attach, [applicationId, profileId, at]);
export const detachProfile = (tx: Tx, applicationId: string, profileId: string): void =>
  tx.defer(detach, [applicationId, profileId]);
export const listAttached = (q: Query, applicationId: string) => q.rows(attached, [applicationId]);
export const hasAttached = async (q: Query, applicationId: string, profileId: string): Promise<boolean> =>
  (await q.first(isAttached, [applicationId, profileId])) !== undefined;
export const knownProfiles = async (
  q: Query,
  projectId: string,
  ids: readonly string[],
): Promise<Set<string>> => new Set((await q.rows(known, [projectId, ids])).map(({ id }) => id));
