import { slowSql, sql, type WriteTx, type Query, type Tx } from "../platform/db/index.ts";
import type { IssuanceContext, InventoryFacts } from "./model.ts";
import { keyFingerprint } from "@keyward/x509";

interface RequestRow {
  readonly id: string;
  readonly projectId: string;
  readonly orgId: string;
  readonly profileId: string | null;
  readonly applicationId: string | null;
  readonly authorityId: string | null;
  readonly authorityCertificateId: string | null;
  readonly certificateId: string;
  readonly serialNumber: string;
  readonly status: "pending" | "issued" | "failed";
  readonly error: string | null;
  readonly tbs: Buffer | null;
  readonly context: IssuanceContext | null;
  readonly dataKeyId: string | null;
  readonly sealedKey: Buffer | null;
  readonly requestDigest: Buffer | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

const COLUMNS = `r.id, r.project_id AS "projectId", p.org_id AS "orgId", r.profile_id AS "profileId", r.application_id AS "applicationId", r.authority_id AS "authorityId",
  r.authority_certificate_id AS "authorityCertificateId", r.certificate_id AS "certificateId", r.serial_number AS "serialNumber", r.status, r.error, r.tbs, r.context,
  r.data_key_id AS "dataKeyId", r.sealed_key AS "sealedKey", r.request_digest AS "requestDigest", r.created_at AS "createdAt", r.updated_at AS "updatedAt"`;

const byKey = sql<RequestRow>(
  `SELECT ${COLUMNS} FROM certificate_requests r JOIN projects p ON p.id = r.project_id WHERE r.project_id = $1 AND r.idempotency_key = $2`,
);
const inOrg = sql<RequestRow>(
  `SELECT ${COLUMNS} FROM certificate_requests r JOIN projects p ON p.id = r.project_id WHERE r.id = $1 AND p.org_id = $2`,
);
const insert = sql(`
  INSERT INTO certificate_requests (id, project_id, profile_id, application_id, authority_id, authority_certificate_id, certificate_id, serial_number, status,
    tbs, context, data_key_id, sealed_key, idempotency_key, request_digest, created_at, updated_at)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'pending', $9, $10, $11, $12, $13, $14, $15, $15)`);
const markIssued = sql(
  `UPDATE certificate_requests SET status = 'issued', tbs = NULL, context = NULL, sealed_key = NULL, updated_at = $2 WHERE id = $1`,
);
const insertCertificate = sql(`
  INSERT INTO certificates (id, project_id, profile_id, application_id, authority_id, authority_key_id, authority_certificate_id, renewed_from_id, not_before, not_after,
    created_at, updated_at, renew_at, crl_shard, is_ca, source, serial_number, common_name, key_algorithm, signature_algorithm, search_text, alt_names, key_fingerprint)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)`);
const insertBody = sql(
  `INSERT INTO certificate_bodies (certificate_id, der, chain, details, data_key_id, sealed_key) VALUES ($1, $2, $3, $4, $5, $6)`,
);
const linkRenewed = sql<{ id: string }>(`
  UPDATE certificates SET renewed_by_id = $2, renew_at = NULL, renewal_error = NULL, updated_at = $3
  WHERE id = $1 AND (renewed_by_id IS NULL OR renewed_by_id = $2) AND revoked_at IS NULL RETURNING id`);
const fail = sql(
  `UPDATE certificate_requests SET status = 'failed', error = $2, tbs = NULL, sealed_key = NULL, updated_at = $3 WHERE id = $1 AND status = 'pending'`,
);
const blocked = sql<{ found: boolean }>(
  `SELECT true AS found FROM blocked_keys WHERE key_fingerprint = $1 AND (org_id = $2 OR org_id IS NULL) LIMIT 1`,
);
const abandon = sql(`
  UPDATE certificate_requests SET status = 'failed', error = 'The request was interrupted before it was signed and stored.', tbs = NULL, sealed_key = NULL, updated_at = $3
  WHERE status = 'pending' AND created_at < CASE WHEN idempotency_key IS NULL THEN $1::timestamptz ELSE $2::timestamptz END`);
const forget = slowSql<{ id: string }>(
  `DELETE FROM certificate_requests WHERE id IN (SELECT id FROM certificate_requests WHERE created_at < $1 ORDER BY created_at LIMIT $2) RETURNING id`,
);

export const findRequestByKey = (q: Query, projectId: string, key: string) =>
  q.first(byKey, [projectId, key]);
export const findRequestInOrg = (q: Query, orgId: string, id: string) => q.first(inOrg, [id, orgId]);
/** By the organisation itself, or before there was one list for each. */
export const isBlockedKey = async (q: Query, orgId: string, publicKey: Buffer): Promise<boolean> =>
  (await q.first(blocked, [Buffer.from(keyFingerprint(publicKey), "hex"), orgId])) !== undefined;

export interface NewRequest extends Omit<RequestRow, "orgId" | "status" | "error" | "updatedAt"> {
  readonly idempotencyKey: string | null;
}

export const insertRequest = (tx: WriteTx, row: NewRequest): void =>
  tx.defer(insert, [
    row.id,
    row.projectId,
    row.profileId,
    row.applicationId,
    row.authorityId,
    row.authorityCertificateId,
    row.certificateId,
    row.serialNumber,
    row.tbs,
    JSON.stringify(row.context),
    row.dataKeyId,
    row.sealedKey,
    row.idempotencyKey,
    row.requestDigest,
    row.createdAt,
  ]);
export const failRequest = (tx: WriteTx, id: string, error: string, at: Date): void =>
  tx.defer(fail, [id, error, at]);
/** False if it has a successor already, or is revoked. */
export const linkSuccessor = async (tx: Tx, id: string, successorId: string, at: Date): Promise<boolean> =>
  (await tx.first(linkRenewed, [id, successorId, at])) !== undefined;
export const settleRequest = (tx: WriteTx, id: string, at: Date): void => tx.defer(markIssued, [id, at]);

export interface NewCertificate {
  readonly id: string;
  readonly projectId: string;
  readonly profileId: string | null;
  readonly applicationId: string | null;
  readonly authorityId: string | null;
  readonly authorityKeyId: string | null;
  readonly authorityCertificateId: string | null;
  readonly renewedFromId: string | null;
  readonly renewAt: Date | null;
  readonly crlShard: number | null;
  readonly source: "issued" | "imported";
  readonly at: Date;
  readonly facts: InventoryFacts;
  readonly details: Record<string, unknown>;
  readonly der: Buffer;
  readonly chain: readonly Buffer[] | null;
  readonly dataKeyId: string | null;
  readonly sealedKey: Buffer | null;
}

export function addCertificate(tx: WriteTx, row: NewCertificate): void {
  const { facts } = row;
  tx.defer(insertCertificate, [
    row.id,
    row.projectId,
    row.profileId,
    row.applicationId,
    row.authorityId,
    row.authorityKeyId,
    row.authorityCertificateId,
    row.renewedFromId,
    facts.notBefore,
    facts.notAfter,
    row.at,
    row.renewAt,
    row.crlShard,
    facts.isCa,
    row.source,
    facts.serialNumber,
    facts.commonName,
    facts.keyAlgorithm,
    facts.signatureAlgorithm,
    facts.searchText,
    JSON.stringify(facts.altNames),
    facts.keyFingerprint,
  ]);
  tx.defer(insertBody, [
    row.id,
    row.der,
    row.chain,
    JSON.stringify(row.details),
    row.dataKeyId,
    row.sealedKey,
  ]);
}

/** Requests that nobody will finish: those without an Idempotency-Key soon, those that may be retried a day later. */
export const abandonRequests = (
  tx: WriteTx,
  limits: { readonly plain: Date; readonly keyed: Date; readonly at: Date },
): void => tx.defer(abandon, [limits.plain, limits.keyed, limits.at]);
/** How many of the oldest are gone. */
export const forgetRequests = async (tx: Tx, before: Date, most: number): Promise<number> =>
  (await tx.rows(forget, [before, most])).length;
