import { counterOf } from "../platform/bound.ts";
import { escapeLike, slowSql, sql, type Query, type SlowQuery, type Tx } from "../platform/db/index.ts";
import type { PolicyRules } from "../policies/contract.ts";
import type { ProfileDefaults, ProfileQuery } from "./contract.ts";

export interface ProfileRow {
  readonly id: string;
  readonly projectId: string;
  readonly orgId: string;
  readonly authorityId: string | null;
  readonly policyId: string;
  readonly slug: string;
  readonly description: string | null;
  readonly issuerType: "ca" | "self-signed";
  readonly enrollmentType: string;
  readonly defaults: ProfileDefaults | null;
  readonly externalConfigs: Record<string, unknown> | null;
  readonly autoRenew: boolean;
  readonly renewBeforeDays: number | null;
  readonly renewBeforePercent: number | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  readonly authority: { readonly id: string; readonly name: string; readonly status: string } | null;
  readonly policyName: string;
  readonly policyDescription: string | null;
  readonly policyRules: PolicyRules;
}

const SELECT = `
  SELECT f.id, f.project_id AS "projectId", p.org_id AS "orgId", f.authority_id AS "authorityId", f.policy_id AS "policyId", f.slug, f.description, f.issuer_type AS "issuerType",
    f.enrollment_type AS "enrollmentType", f.defaults, f.external_configs AS "externalConfigs", f.auto_renew AS "autoRenew", f.renew_before_days AS "renewBeforeDays",
    f.renew_before_percent AS "renewBeforePercent", f.created_at AS "createdAt", f.updated_at AS "updatedAt",
    CASE WHEN a.id IS NOT NULL THEN json_build_object('id', a.id, 'name', a.name, 'status', a.status) END AS authority,
    y.name AS "policyName", y.description AS "policyDescription", y.rules AS "policyRules"
  FROM certificate_profiles f JOIN projects p ON p.id = f.project_id JOIN certificate_policies y ON y.id = f.policy_id
  LEFT JOIN certificate_authorities a ON a.id = f.authority_id`;

const byId = sql<ProfileRow>(`${SELECT} WHERE f.id = $1`);
const held = sql<ProfileRow>(`${SELECT} WHERE f.id = $1 FOR UPDATE OF f`);
const bySlug = sql<ProfileRow>(`${SELECT} WHERE f.project_id = $1 AND f.slug = $2`);
const FILTER = `f.project_id = $1 AND lower(f.slug) LIKE $2 AND ($3::uuid IS NULL OR f.authority_id = $3) AND ($4::text IS NULL OR f.issuer_type = $4)
  AND ($5::uuid IS NULL OR EXISTS (SELECT 1 FROM pki_application_profiles ap WHERE ap.profile_id = f.id AND ap.application_id = $5))`;
const ofProject = slowSql<ProfileRow>(`${SELECT} WHERE ${FILTER} ORDER BY f.slug, f.id OFFSET $6 LIMIT $7`);
const slugs = slowSql<{ id: string; slug: string }>(
  `SELECT f.id, f.slug FROM certificate_profiles f WHERE ${FILTER} ORDER BY f.slug, f.id LIMIT $6`,
);
const byIds = slowSql<ProfileRow>(`${SELECT} WHERE f.id = ANY($1) ORDER BY f.slug, f.id`);
const count = sql<{ count: number }>(`SELECT count(*) AS count FROM certificate_profiles f WHERE ${FILTER}`);
const insert = sql(`
  INSERT INTO certificate_profiles (id, project_id, authority_id, policy_id, slug, description, issuer_type, enrollment_type, defaults, external_configs, auto_renew,
    renew_before_days, renew_before_percent, created_at, updated_at)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`);
const update = sql<{ id: string }>(`
  UPDATE certificate_profiles SET authority_id = $2, policy_id = $3, slug = $4, description = $5, issuer_type = $6, defaults = $7, external_configs = $8, auto_renew = $9,
    renew_before_days = $10, renew_before_percent = $11, updated_at = $12 WHERE id = $1 RETURNING id`);
const remove = sql<{ id: string }>(`DELETE FROM certificate_profiles WHERE id = $1 RETURNING id`);
const ownsAuthority = sql<{ found: boolean }>(
  `SELECT true AS found FROM certificate_authorities WHERE id = $1 AND project_id = $2 AND deleted_at IS NULL`,
);
const ownsPolicy = sql<{ found: boolean }>(
  `SELECT true AS found FROM certificate_policies WHERE id = $1 AND project_id = $2`,
);

export type ProfileWrite = Omit<
  ProfileRow,
  "orgId" | "authority" | "policyName" | "policyDescription" | "policyRules"
>;

const json = (value: unknown): string | null =>
  value === null || value === undefined ? null : JSON.stringify(value);
const filterOf = (projectId: string, query: ProfileQuery): unknown[] => [
  projectId,
  `%${escapeLike((query.search ?? "").toLowerCase())}%`,
  query.caId ?? null,
  query.issuerType ?? null,
  query.applicationId ?? null,
];

export const findProfile = (q: Query, id: string) => q.first(byId, [id]);
/** As it is now, and nobody else's to change until the transaction ends. */
export const holdProfile = (tx: Tx, id: string) => tx.first(held, [id]);
export const findProfileBySlug = (q: Query, projectId: string, slug: string) =>
  q.first(bySlug, [projectId, slug]);
export const listProfiles = (q: SlowQuery, projectId: string, query: ProfileQuery) =>
  q.rows(ofProject, [...filterOf(projectId, query), query.offset, query.limit]);
export const listProfileSlugs = (q: SlowQuery, projectId: string, query: ProfileQuery, most: number) =>
  q.rows(slugs, [...filterOf(projectId, query), most]);
export const listProfilesById = (q: SlowQuery, ids: readonly string[]) => q.rows(byIds, [ids]);
export const countProfiles = async (q: Query, projectId: string, query: ProfileQuery): Promise<number> =>
  (await q.first(count, filterOf(projectId, query)))?.count ?? 0;
export const countAllProfiles = counterOf("certificate_profiles WHERE project_id = $1");
export const insertProfile = (tx: Tx, row: ProfileWrite): void =>
  tx.defer(insert, [
    row.id,
    row.projectId,
    row.authorityId,
    row.policyId,
    row.slug,
    row.description,
    row.issuerType,
    row.enrollmentType,
    json(row.defaults),
    json(row.externalConfigs),
    row.autoRenew,
    row.renewBeforeDays,
    row.renewBeforePercent,
    row.createdAt,
    row.updatedAt,
  ]);
export const updateProfile = (tx: Tx, row: ProfileWrite): void =>
  tx.defer(update, [
    row.id,
    row.authorityId,
    row.policyId,
    row.slug,
    row.description,
    row.issuerType,
    json(row.defaults),
    json(row.externalConfigs),
    row.autoRenew,
    row.renewBeforeDays,
    row.renewBeforePercent,
    row.updatedAt,
  ]);
export const deleteProfile = (tx: Tx, id: string): void => tx.defer(remove, [id]);
export const hasAuthority = async (q: Query, projectId: string, id: string): Promise<boolean> =>
  (await q.first(ownsAuthority, [id, projectId])) !== undefined;
export const hasPolicy = async (q: Query, projectId: string, id: string): Promise<boolean> =>
  (await q.first(ownsPolicy, [id, projectId])) !== undefined;
