import { sql, type Query } from "../platform/db/index.ts";
import { keyFingerprint } from "@keyward/x509";

export interface IssuerRow {
  readonly authorityId: string;
  readonly projectId: string;
  readonly orgId: string;
  readonly name: string;
  readonly status: string;
  readonly isDeleted: boolean;
  readonly crlUrls: string[];
  readonly hasManagedCrl: boolean;
  readonly crlShards: number;
  readonly keyId: string;
  readonly dataKeyId: string;
  readonly sealedKey: Buffer;
  readonly certificateId: string;
  readonly der: Buffer;
  readonly chain: Buffer[];
}

const COLUMNS = `a.id AS "authorityId", a.project_id AS "projectId", p.org_id AS "orgId", a.name, a.status, a.deleted_at IS NOT NULL AS "isDeleted",
  a.crl_urls AS "crlUrls", a.has_managed_crl AS "hasManagedCrl", k.crl_shards AS "crlShards", k.id AS "keyId", k.data_key_id AS "dataKeyId",
  k.sealed_key AS "sealedKey", c.id AS "certificateId", c.der, c.chain`;

const active = sql<IssuerRow>(`
  SELECT ${COLUMNS} FROM certificate_authorities a JOIN projects p ON p.id = a.project_id
  JOIN authority_certificates c ON c.id = a.active_certificate_id JOIN authority_keys k ON k.id = c.key_id
  WHERE a.id = $1`);
// For revocation: the active certificate if it has that key, else its newest, whether or not it still issues.
const ofKey = sql<IssuerRow>(`
  SELECT ${COLUMNS} FROM authority_keys k JOIN certificate_authorities a ON a.id = k.authority_id JOIN projects p ON p.id = a.project_id
  JOIN authority_certificates c ON c.key_id = k.id
  WHERE k.id = $1 ORDER BY (c.id IS NOT DISTINCT FROM a.active_certificate_id) DESC, c.version DESC LIMIT 1`);

// Found by key, which has an index, and compared by their bytes: so one that was signed by a CA here and then
// imported into another is found as well.
const lineage = sql<LineageRow>(`
  SELECT c.id, c.project_id AS "projectId", c.common_name AS "commonName", c.revoked_at IS NOT NULL AS "isRevoked", b.der = $3 AS "isFirst"
  FROM certificates c JOIN certificate_bodies b ON b.certificate_id = c.id
  WHERE c.key_fingerprint = ANY($1::bytea[]) AND b.der = ANY($2::bytea[])`);

export interface LineageRow {
  readonly id: string;
  readonly projectId: string;
  readonly commonName: string;
  readonly isRevoked: boolean;
  /** The CA's own, not one above it. */
  readonly isFirst: boolean;
}

/** What the inventory knows of a CA's certificate and of those above it. */
export const findLineage = (
  q: Query,
  chain: readonly { readonly der: Buffer; readonly publicKey: Buffer }[],
): Promise<LineageRow[]> =>
  q.rows(lineage, [
    chain.map(({ publicKey }) => Buffer.from(keyFingerprint(publicKey), "hex")),
    chain.map(({ der }) => der),
    chain[0]?.der ?? null,
  ]);

export const findActiveIssuer = (q: Query, authorityId: string) => q.first(active, [authorityId]);
export const findIssuerOfKey = (q: Query, keyId: string) => q.first(ofKey, [keyId]);
