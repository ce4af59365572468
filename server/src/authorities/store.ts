import { counterOf } from "../platform/bound.ts";
import { slowSql, sql, type Query, type SlowQuery, type Tx } from "../platform/db/index.ts";
import type { AuthorityRow } from "./model.ts";

export interface AuthorityKeyRow {
  readonly id: string;
  readonly authorityId: string;
  readonly keyAlgorithm: string;
  readonly publicKey: Buffer;
  readonly dataKeyId: string;
  readonly sealedKey: Buffer;
  readonly crlShards: number;
  readonly createdAt: Date;
}

export interface AuthorityCertificateRow {
  readonly id: string;
  readonly authorityId: string;
  readonly keyId: string;
  readonly version: number;
  readonly serialNumber: string;
  readonly notBefore: Date;
  readonly notAfter: Date;
  readonly der: Buffer;
  readonly chain: readonly Buffer[];
}

const SELECT = `
  SELECT a.id, a.project_id AS "projectId", p.org_id AS "orgId", a.name, a.kind, a.status, a.key_algorithm AS "keyAlgorithm", a.subject, a.parent_id AS "parentId",
    a.max_path_length AS "maxPathLength", a.name_constraints AS "nameConstraints", a.crl_urls AS "crlUrls", a.has_managed_crl AS "hasManagedCrl", a.crl_shards AS "crlShards",
    a.active_key_id AS "activeKeyId", a.active_certificate_id AS "activeCertificateId", a.created_at AS "createdAt", a.updated_at AS "updatedAt",
    c.serial_number AS "serialNumber", c.not_before AS "notBefore", c.not_after AS "notAfter", c.der
  FROM certificate_authorities a JOIN projects p ON p.id = a.project_id LEFT JOIN authority_certificates c ON c.id = a.active_certificate_id`;
const inOrg = sql<AuthorityRow>(`${SELECT} WHERE a.id = $1 AND p.org_id = $2 AND a.deleted_at IS NULL`);
const ofProject = sql<AuthorityRow>(
  `${SELECT} WHERE a.project_id = $1 AND a.deleted_at IS NULL ORDER BY a.name, a.id`,
);
const named = sql<{ id: string }>(
  `SELECT id FROM certificate_authorities WHERE project_id = $1 AND name = $2 AND deleted_at IS NULL`,
);
const insert = sql(`
  INSERT INTO certificate_authorities (id, project_id, name, kind, status, key_algorithm, subject, parent_id, max_path_length, name_constraints, crl_urls, has_managed_crl,
    crl_shards, active_key_id, created_at, updated_at)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $15)`);
const insertKey = sql(
  `INSERT INTO authority_keys (id, authority_id, key_algorithm, public_key, data_key_id, sealed_key, crl_shards, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
);
// Only what was said: who gives it a new name at the moment when another disables or renews it must not undo that.
const update = sql(`
  UPDATE certificate_authorities SET name = coalesce($2, name), status = coalesce($3, status), crl_urls = coalesce($4, crl_urls),
    has_managed_crl = coalesce($5, has_managed_crl), updated_at = $6 WHERE id = $1`);
// The parent is the active certificate's: one from elsewhere has none here. An authority's certificates that were issued
// here are in the inventory under the same id, with the authority that issued them.
const choose = sql(`
  UPDATE certificate_authorities SET active_certificate_id = $2, active_key_id = $3,
    parent_id = (SELECT c.authority_id FROM certificates c WHERE c.id = $2)
  WHERE id = $1 AND EXISTS (SELECT FROM authority_certificates WHERE id = $2)`);
const activate = sql(`
  UPDATE certificate_authorities SET active_certificate_id = $2, active_key_id = $3, parent_id = $4, updated_at = $5,
    status = CASE WHEN status = 'pending-certificate' THEN 'active' ELSE status END WHERE id = $1`);
// Itself and those above it.
const ancestors = sql<{ id: string }>(`
  WITH RECURSIVE up AS (
    SELECT id, parent_id FROM certificate_authorities WHERE id = $1
    UNION SELECT a.id, a.parent_id FROM certificate_authorities a JOIN up ON a.id = up.parent_id)
  SELECT id FROM up`);
const hasIssuedWith = sql<{ found: boolean }>(
  `SELECT true AS found FROM certificates WHERE authority_id = $1 AND authority_key_id = $2 LIMIT 1`,
);
const insertCertificate = sql(`
  INSERT INTO authority_certificates (id, authority_id, key_id, version, serial_number, not_before, not_after, der, chain, created_at)
  VALUES ($1, $2, $3, (SELECT coalesce(max(version), 0) + 1 FROM authority_certificates WHERE authority_id = $2), $4, $5, $6, $7, $8, $9)`);
const remove = sql(
  `UPDATE certificate_authorities SET deleted_at = $2, status = 'disabled', updated_at = $2 WHERE id = $1`,
);
const keyById = sql<AuthorityKeyRow>(`
  SELECT id, authority_id AS "authorityId", key_algorithm AS "keyAlgorithm", public_key AS "publicKey", data_key_id AS "dataKeyId", sealed_key AS "sealedKey",
    crl_shards AS "crlShards", created_at AS "createdAt" FROM authority_keys WHERE id = $1`);
const CERTIFICATE = `id, authority_id AS "authorityId", key_id AS "keyId", version, serial_number AS "serialNumber", not_before AS "notBefore", not_after AS "notAfter", der, chain`;
const certificates = sql<AuthorityCertificateRow>(
  `SELECT ${CERTIFICATE} FROM authority_certificates WHERE authority_id = $1 ORDER BY version DESC`,
);
const certificate = sql<AuthorityCertificateRow>(
  `SELECT ${CERTIFICATE} FROM authority_certificates WHERE id = $1`,
);

// Neither active nor of the last day, and nothing that lives or is underway stands on it: what it certified shows it as
// its issuer, and is asked for in the lists of its key.
const unneeded = slowSql<{ id: string }>(`
  SELECT ac.id FROM authority_certificates ac JOIN certificate_authorities a ON a.id = ac.authority_id
  WHERE a.id = $1 AND ac.id IS DISTINCT FROM a.active_certificate_id AND ac.created_at < $2
    AND NOT EXISTS (SELECT FROM certificates c WHERE c.project_id = a.project_id AND c.authority_certificate_id = ac.id AND c.not_after > $3)
    AND NOT EXISTS (SELECT FROM certificate_requests r WHERE r.project_id = a.project_id AND r.authority_certificate_id = ac.id)
  ORDER BY ac.version LIMIT 10`);
const hold = sql(`SELECT id FROM certificate_authorities WHERE id = $1 FOR NO KEY UPDATE`);
const forget = sql(`
  DELETE FROM authority_certificates WHERE authority_id = $1 AND id = ANY ($2::uuid[])
    AND id IS DISTINCT FROM (SELECT active_certificate_id FROM certificate_authorities WHERE id = $1)`);

const json = (value: unknown): string | null => (value === null ? null : JSON.stringify(value));

export const findAuthority = (q: Query, orgId: string, id: string) => q.first(inOrg, [id, orgId]);
export const listAuthorities = (q: Query, projectId: string) => q.rows(ofProject, [projectId]);
export const hasAuthorityNamed = async (q: Query, projectId: string, name: string): Promise<boolean> =>
  (await q.first(named, [projectId, name])) !== undefined;
export const findAuthorityKey = (q: Query, id: string) => q.first(keyById, [id]);
export const listAuthorityCertificates = (q: Query, authorityId: string) =>
  q.rows(certificates, [authorityId]);
export const findAuthorityCertificate = (q: Query, id: string) => q.first(certificate, [id]);

type NewAuthorityRow = Omit<
  AuthorityRow,
  "orgId" | "activeCertificateId" | "updatedAt" | "serialNumber" | "notBefore" | "notAfter" | "der"
>;
export const countAuthorities = counterOf(
  "certificate_authorities WHERE project_id = $1 AND deleted_at IS NULL",
);
export const countAuthorityCertificates = counterOf("authority_certificates WHERE authority_id = $1");
/** The oldest that were made before `madeBefore` and have certified nothing that ends after `endingAfter`. */
export const unneededCertificates = async (
  q: SlowQuery,
  authorityId: string,
  madeBefore: Date,
  endingAfter: Date,
): Promise<string[]> => (await q.rows(unneeded, [authorityId, madeBefore, endingAfter])).map(({ id }) => id);
export const forgetCertificates = async (tx: Tx, authorityId: string, ids: readonly string[]) => {
  await tx.rows(hold, [authorityId]);
  await tx.rows(forget, [authorityId, ids]);
};
export const insertAuthority = (tx: Tx, row: NewAuthorityRow): void =>
  tx.defer(insert, [
    row.id,
    row.projectId,
    row.name,
    row.kind,
    row.status,
    row.keyAlgorithm,
    json(row.subject),
    row.parentId,
    row.maxPathLength,
    json(row.nameConstraints),
    row.crlUrls,
    row.hasManagedCrl,
    row.crlShards,
    row.activeKeyId,
    row.createdAt,
  ]);
export const insertAuthorityKey = (tx: Tx, row: AuthorityKeyRow): void =>
  tx.defer(insertKey, [
    row.id,
    row.authorityId,
    row.keyAlgorithm,
    row.publicKey,
    row.dataKeyId,
    row.sealedKey,
    row.crlShards,
    row.createdAt,
  ]);
interface ChosenCertificate {
  readonly id: string;
  readonly keyId: string;
}
interface AuthorityPatch {
  readonly name?: string | undefined;
  readonly status?: string | undefined;
  readonly crlUrls?: readonly string[] | undefined;
  readonly hasManagedCrl?: boolean | undefined;
  readonly chosen?: ChosenCertificate | undefined;
}
export function updateAuthority(tx: Tx, id: string, patch: AuthorityPatch, at: Date): void {
  const { name, status, crlUrls, hasManagedCrl, chosen } = patch;
  tx.defer(update, [id, name ?? null, status ?? null, crlUrls ?? null, hasManagedCrl ?? null, at]);
  if (chosen) tx.defer(choose, [id, chosen.id, chosen.keyId]);
}
export const isAbove = async (q: Query, id: string, belowId: string): Promise<boolean> =>
  (await q.rows(ancestors, [belowId])).some((each) => each.id === id);
export const hasIssued = async (q: Query, authorityId: string, keyId: string): Promise<boolean> =>
  (await q.first(hasIssuedWith, [authorityId, keyId])) !== undefined;
export const deleteAuthority = (tx: Tx, id: string, at: Date): void => tx.defer(remove, [id, at]);

/** A further certificate, which becomes the active one. */
export function addAuthorityCertificate(
  tx: Tx,
  row: Omit<AuthorityCertificateRow, "version">,
  parentId: string | null,
  at: Date,
): void {
  tx.defer(insertCertificate, [
    row.id,
    row.authorityId,
    row.keyId,
    row.serialNumber,
    row.notBefore,
    row.notAfter,
    row.der,
    row.chain,
    at,
  ]);
  tx.defer(activate, [row.authorityId, row.id, row.keyId, parentId, at]);
}
