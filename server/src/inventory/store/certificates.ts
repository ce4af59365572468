import {
  escapeLike,
  searchSql,
  slowSql,
  sql,
  type Query,
  type SlowQuery,
  type Tx,
} from "../../platform/db/index.ts";
import type { CertificateDetails, CertificateQuery, CertificateRow, Cursor } from "../model.ts";
import { uncount } from "./maintenance.ts";

const LEAN = `c.id, c.project_id AS "projectId", p.org_id AS "orgId", c.profile_id AS "profileId", c.application_id AS "applicationId", c.authority_id AS "authorityId",
  c.authority_key_id AS "authorityKeyId", c.authority_certificate_id AS "authorityCertificateId", c.renewed_from_id AS "renewedFromId", c.renewed_by_id AS "renewedById",
  c.not_before AS "notBefore", c.not_after AS "notAfter", c.created_at AS "createdAt", c.updated_at AS "updatedAt", c.revoked_at AS "revokedAt", c.renew_at AS "renewAt",
  c.renewal_error AS "renewalError", c.revocation_reason AS "revocationReason", c.crl_shard AS "crlShard", c.is_ca AS "isCa", c.source, c.serial_number AS "serialNumber",
  c.common_name AS "commonName", c.key_algorithm AS "keyAlgorithm", c.signature_algorithm AS "signatureAlgorithm", c.alt_names AS "altNames", c.key_fingerprint AS "keyFingerprint"`;
const FULL = `${LEAN}, b.details, b.der, coalesce(b.chain, ARRAY(SELECT ac.der FROM authority_certificates ac WHERE ac.id = c.authority_certificate_id)
    || coalesce((SELECT ac.chain FROM authority_certificates ac WHERE ac.id = c.authority_certificate_id), '{}')) AS chain,
  b.data_key_id AS "dataKeyId", b.sealed_key AS "sealedKey", f.slug AS "profileSlug", a.name AS "authorityName", ap.name AS "applicationName"`;
const FROM = `FROM certificates c JOIN projects p ON p.id = c.project_id`;
const JOINS = `JOIN certificate_bodies b ON b.certificate_id = c.id LEFT JOIN certificate_profiles f ON f.id = c.profile_id
  LEFT JOIN certificate_authorities a ON a.id = c.authority_id LEFT JOIN pki_applications ap ON ap.id = c.application_id`;

const inOrg = sql<CertificateRow>(`SELECT ${FULL} ${FROM} ${JOINS} WHERE c.id = $1 AND p.org_id = $2`);
const byId = sql<CertificateRow>(`SELECT ${FULL} ${FROM} ${JOINS} WHERE c.id = $1`);
const latest = sql<{ id: string }>(
  `SELECT id FROM certificates c WHERE c.profile_id = $1 AND c.phase = 0 AND c.not_after > $2 AND c.not_before <= $2 ORDER BY c.created_at DESC, c.id DESC LIMIT 1`,
);
const remove = sql(`DELETE FROM certificates WHERE id = $1`);
const removeBody = sql(`DELETE FROM certificate_bodies WHERE certificate_id = $1`);
const setRenewal = sql(
  `UPDATE certificates SET renew_at = $2, renewal_attempts = 0, renewal_error = NULL, updated_at = $3 WHERE id = $1`,
);

const setOwnRenewal = sql(
  `UPDATE certificate_bodies SET details = details || $2::jsonb WHERE certificate_id = $1`,
);

/** `at` keeps the microseconds that a JavaScript date would lose. */
export type FoundCertificate = Omit<
  CertificateRow,
  "details" | "der" | "chain" | "dataKeyId" | "sealedKey" | "authorityName" | "applicationName"
> & { readonly at: string };

const CONDITIONS = `c.project_id = $1
  AND ($2::text IS NULL OR c.search_text LIKE $2)
  AND ($3::text IS NULL OR CASE $3 WHEN 'revoked' THEN c.phase = 2 WHEN 'active' THEN c.phase = 0 AND c.not_after > $4 ELSE c.phase < 2 AND c.not_after <= $4 END)
  AND ($5::uuid IS NULL OR c.profile_id = $5) AND ($6::uuid IS NULL OR c.application_id = $6) AND ($7::uuid IS NULL OR c.authority_id = $7)
  AND ($8::text IS NULL OR c.key_algorithm = $8) AND ($9::text IS NULL OR c.source = $9)
  AND ($10::timestamptz IS NULL OR c.not_after < $10) AND ($11::timestamptz IS NULL OR c.created_at < $11)
  AND ($12::timestamptz IS NULL OR (c.created_at, c.id) < ($12, $13::uuid))`;
// Unnamed, so that the absent conditions are gone before it is planned.
const searching = (more: string) => `
  SELECT ${LEAN}, f.slug AS "profileSlug", to_char(c.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS at ${more}
  ${FROM} LEFT JOIN certificate_profiles f ON f.id = c.profile_id WHERE ${CONDITIONS} ORDER BY c.created_at DESC, c.id DESC LIMIT $14`;
const search = searchSql<FoundCertificate>(searching(""));
// As many of them as have so many bytes of names, as these are stored: to unpack them only to measure them would take
// longer than to send them. At least one.
const PAGE_BYTES = 262_144;
const stream = searchSql<FoundCertificate & { readonly met: number }>(`
  SELECT * FROM (
    SELECT found.*, count(*) OVER ()::int AS met,
      coalesce(sum(found.bytes) OVER (ORDER BY found."createdAt" DESC, found.id DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before
    FROM (${searching(", pg_column_size(c.alt_names) AS bytes")}) found) counted
  WHERE before < ${PAGE_BYTES} ORDER BY "createdAt" DESC, id DESC`);
// Acting on what is found takes the oldest first: what replaces them comes last, and is not met before all are done.
const oldest = searchSql<FoundCertificate>(`
  SELECT ${LEAN}, f.slug AS "profileSlug", '' AS at ${FROM} LEFT JOIN certificate_profiles f ON f.id = c.profile_id
  WHERE ${CONDITIONS} AND ($15::boolean OR c.renewed_by_id IS NULL) ORDER BY c.created_at, c.id LIMIT $14`);
const bodies = slowSql<{ id: string; details: CertificateDetails; hasKey: boolean }>(
  `SELECT certificate_id AS id, details, sealed_key IS NOT NULL AS "hasKey" FROM certificate_bodies WHERE certificate_id = ANY($1)`,
);

/** What rules about certificates can ask for. */
type JudgedCertificate = Pick<
  CertificateRow,
  "id" | "commonName" | "altNames" | "serialNumber" | "details" | "revokedAt" | "notAfter"
>;
const judged = slowSql<JudgedCertificate>(`
  SELECT c.id, c.common_name AS "commonName", c.alt_names AS "altNames", c.serial_number AS "serialNumber", b.details,
    c.revoked_at AS "revokedAt", c.not_after AS "notAfter"
  FROM certificates c JOIN certificate_bodies b ON b.certificate_id = c.id WHERE c.id = ANY($1)`);

interface CertificateReading {
  readonly now: Date;
  readonly after: Cursor | undefined;
  readonly limit: number;
}

const valuesOf = (
  projectId: string,
  query: CertificateQuery,
  { now, after, limit }: CertificateReading,
): unknown[] => [
  projectId,
  query.search ? `%${escapeLike(query.search.toLowerCase())}%` : null,
  query.status ?? null,
  now,
  query.profileId ?? null,
  query.applicationId ?? null,
  query.caId ?? null,
  query.keyAlgorithm ?? null,
  query.source ?? null,
  query.expiresBefore ?? null,
  query.issuedBefore ?? null,
  after?.at ?? null,
  after?.id ?? null,
  limit,
];

export const findCertificate = (q: Query, orgId: string, id: string) => q.first(inOrg, [id, orgId]);
export const findCertificateById = (q: Query, id: string) => q.first(byId, [id]);
export const findLatestActive = (q: Query, profileId: string, now: Date) => q.first(latest, [profileId, now]);
export const searchCertificates = (
  q: SlowQuery,
  projectId: string,
  query: CertificateQuery,
  reading: CertificateReading,
) => q.rows(search, valuesOf(projectId, query, reading));
/** A page of a long answer, by bytes as well as by rows; `met` says how many there were before bytes were counted. */
export const certificatesToStream = (
  q: SlowQuery,
  projectId: string,
  query: CertificateQuery,
  reading: CertificateReading,
) => q.rows(stream, valuesOf(projectId, query, reading));
export const oldestCertificates = (
  q: SlowQuery,
  projectId: string,
  query: CertificateQuery & { readonly isRenewedToo: boolean },
  reading: Omit<CertificateReading, "after">,
) => q.rows(oldest, [...valuesOf(projectId, query, { ...reading, after: undefined }), query.isRenewedToo]);
export const findJudged = (q: SlowQuery, ids: readonly string[]) => q.rows(judged, [ids]);
export const listBodies = (q: SlowQuery, ids: readonly string[]) => q.rows(bodies, [ids]);
/** `own` is what holds for those that replace it too. */
export function setRenewalTime(
  tx: Tx,
  id: string,
  renewAt: Date | null,
  { at, own }: { readonly at: Date; readonly own: Partial<CertificateDetails> },
): void {
  tx.defer(setRenewal, [id, renewAt, at]);
  tx.defer(setOwnRenewal, [id, JSON.stringify(own)]);
}

/** False if somebody else has removed it meanwhile. */
export async function removeCertificate(tx: Tx, id: string): Promise<boolean> {
  if (!(await uncount(tx, id))) return false;
  tx.defer(remove, [id]);
  tx.defer(removeBody, [id]);
  return true;
}
