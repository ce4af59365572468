import { slowSql, sql, type Query, type SlowQuery, type Tx } from "../platform/db/index.ts";
import type { Revoking } from "./model.ts";

// On hold (6) the time of renewal is kept for the release; until then the renewal passes it over.
const revoke = sql<{ id: string }>(`
  UPDATE certificates SET phase = 2, revoked_at = $2, revocation_reason = $3, crl_entry = $4, renew_at = CASE WHEN $3 = 6 THEN renew_at END, updated_at = $5
  WHERE id = $1 AND (revoked_at IS NULL OR (revocation_reason = 6 AND $3 <> 6)) RETURNING id`);
const release = sql<{ id: string }>(`
  UPDATE certificates SET phase = CASE WHEN not_after <= $2 THEN 1 ELSE 0 END, revoked_at = NULL, revocation_reason = NULL, crl_entry = NULL,
    renew_at = CASE WHEN not_after > $2 THEN renew_at END, updated_at = $2
  WHERE id = $1 AND revoked_at IS NOT NULL AND revocation_reason = 6 RETURNING id`);
// A mark is identified by the transaction that wrote it, not by its time: clocks repeat and differ, and a
// change that began earlier may commit later. `at` only says since when.
const markChanged = sql(`
  INSERT INTO crl_changes AS c (authority_key_id, shard, at) VALUES ($1, $2, $3)
  ON CONFLICT (authority_key_id, shard) DO UPDATE SET at = greatest(c.at, $3)`);
const block = sql(
  `INSERT INTO blocked_keys (key_fingerprint, org_id, created_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
);
const sameKey = sql<KeyHolder>(`
  SELECT id, serial_number AS "serialNumber", authority_key_id AS "authorityKeyId", crl_shard AS "crlShard", is_ca AS "isCa" FROM certificates
  WHERE key_fingerprint = $1 AND project_id = $2 AND (phase <> 2 OR revocation_reason = 6) AND authority_key_id IS NOT NULL AND id > $3 ORDER BY id LIMIT $4`);

const list = sql<CrlRow>(
  `SELECT number, this_update AS "thisUpdate", next_update AS "nextUpdate", der FROM crls WHERE authority_key_id = $1 AND shard = $2`,
);
// One value for a whole CRL: the entries were encoded when their certificates were revoked.
const entries = slowSql<{ entries: Buffer | null; latestAt: Date | null }>(`
  SELECT string_agg(crl_entry, ''::bytea) AS entries, max(revoked_at) AS "latestAt" FROM certificates WHERE authority_key_id = $1 AND crl_shard = $2 AND phase = 2 AND not_after > $3`);
const previous = sql<PreviousList>(
  `SELECT number, urls, this_update AS "thisUpdate" FROM crls WHERE authority_key_id = $1 AND shard = $2`,
);
const put = sql<{ number: number }>(`
  INSERT INTO crls AS c (authority_key_id, shard, number, this_update, next_update, der, urls) VALUES ($1, $2, $3, $4, $5, $6, $7)
  ON CONFLICT (authority_key_id, shard) DO UPDATE SET number = $3, this_update = $4, next_update = $5, der = $6, urls = $7 WHERE c.number < $3 RETURNING number`);
const clearChange = sql(
  `DELETE FROM crl_changes WHERE authority_key_id = $1 AND shard = $2 AND xmin::text = $3`,
);
// In the order of the keys, page by page: those that cannot be signed must not block the others for ever.
const PAGE = `(authority_key_id, shard) > ($1::uuid, $2::smallint) ORDER BY authority_key_id, shard LIMIT 200`;
const changed = sql<ListChange>(`
  SELECT c.*, p.org_id AS "orgId" FROM (
    SELECT authority_key_id AS "keyId", shard, xmin::text AS "markedBy" FROM crl_changes WHERE ${PAGE}) c
  LEFT JOIN authority_keys k ON k.id = c."keyId" LEFT JOIN certificate_authorities a ON a.id = k.authority_id LEFT JOIN projects p ON p.id = a.project_id
  ORDER BY c."keyId", c.shard`);
const ageing = sql<ListPlace>(
  `SELECT authority_key_id AS "keyId", shard FROM crls WHERE this_update + (next_update - this_update) / 2 <= $3 AND ${PAGE}`,
);
const keysOf = sql<{
  keyId: string;
  crlShards: number;
}>(`SELECT id AS "keyId", crl_shards AS "crlShards" FROM authority_keys k
  WHERE authority_id = $1 AND EXISTS (SELECT 1 FROM authority_certificates c WHERE c.key_id = k.id) ORDER BY created_at`);

const statusOf = sql<StatusRow>(`
  SELECT c.id, c.revoked_at AS "revokedAt", c.revocation_reason AS "revocationReason" FROM certificates c JOIN authority_keys k ON k.authority_id = c.authority_id
  WHERE k.id = $1 AND c.serial_number = $2`);
const signer = sql<SignerRow>(
  `SELECT der, data_key_id AS "dataKeyId", sealed_key AS "sealedKey", not_after AS "notAfter" FROM ocsp_signers WHERE authority_key_id = $1`,
);
const putSigner = sql(`
  INSERT INTO ocsp_signers (authority_key_id, der, data_key_id, sealed_key, not_after) VALUES ($1, $2, $3, $4, $5)
  ON CONFLICT (authority_key_id) DO UPDATE SET der = $2, data_key_id = $3, sealed_key = $4, not_after = $5`);

/** What a revocation needs to know of a certificate. */
export interface KeyHolder {
  readonly id: string;
  readonly serialNumber: string;
  readonly authorityKeyId: string;
  readonly crlShard: number | null;
  readonly isCa: boolean;
}
export interface KeyPlace {
  readonly keyFingerprint: Buffer;
  readonly projectId: string;
}
export interface CrlRow {
  readonly number: number;
  readonly thisUpdate: Date;
  readonly nextUpdate: Date;
  readonly der: Buffer;
}
export interface SignedList extends CrlRow {
  /** Every address that it names. */
  readonly urls: readonly string[];
}
export interface PreviousList {
  readonly number: number;
  readonly urls: string[];
  readonly thisUpdate: Date | null;
}
interface StatusRow {
  readonly id: string;
  readonly revokedAt: Date | null;
  readonly revocationReason: number | null;
}
export interface SignerRow {
  readonly der: Buffer;
  readonly dataKeyId: string;
  readonly sealedKey: Buffer;
  readonly notAfter: Date;
}
export interface ListPlace {
  readonly keyId: string;
  readonly shard: number;
}
export interface ListChange extends ListPlace {
  /** The transaction that set the mark last. */
  readonly markedBy: string;
  /** Null if nobody has that key any more. */
  readonly orgId: string | null;
}

export const revokeCertificate = (tx: Tx, id: string, { revokedAt, reasonCode, entry }: Revoking, at: Date) =>
  tx.first(revoke, [id, revokedAt, reasonCode, entry, at]);
export const releaseCertificate = (tx: Tx, id: string, at: Date) => tx.first(release, [id, at]);
export const markListChanged = (tx: Tx, { keyId, shard }: ListPlace, at: Date): void =>
  tx.defer(markChanged, [keyId, shard, at]);
export const blockKey = (tx: Tx, orgId: string, fingerprint: Buffer, at: Date): void =>
  tx.defer(block, [fingerprint, orgId, at]);
/** Those that are not revoked for good, in the order of their ids. */
export const certificatesOfKey = (
  q: Query,
  { keyFingerprint, projectId }: KeyPlace,
  after: string,
  most: number,
) => q.rows(sameKey, [keyFingerprint, projectId, after, most]);

export const findList = (q: Query, { keyId, shard }: ListPlace) => q.first(list, [keyId, shard]);
/** Of certificates that end after that moment. */
export const listEntries = async (
  q: SlowQuery,
  { keyId, shard }: ListPlace,
  endingAfter: Date,
): Promise<{ readonly entries: Buffer; readonly latestAt: Date | null }> => {
  const row = await q.first(entries, [keyId, shard, endingAfter]);
  return { entries: row?.entries ?? Buffer.alloc(0), latestAt: row?.latestAt ?? null };
};
export const findPrevious = async (q: Query, { keyId, shard }: ListPlace): Promise<PreviousList> =>
  (await q.first(previous, [keyId, shard])) ?? { number: 0, urls: [], thisUpdate: null };
/** False when another node has stored the same or a later number meanwhile. */
export async function putList(tx: Tx, { keyId, shard }: ListPlace, row: SignedList): Promise<boolean> {
  const { number, thisUpdate, nextUpdate, der, urls } = row;
  return (await tx.first(put, [keyId, shard, number, thisUpdate, nextUpdate, der, urls])) !== undefined;
}
export const clearListChange = (tx: Tx, { keyId, shard, markedBy }: ListChange): void =>
  tx.defer(clearChange, [keyId, shard, markedBy]);
export const BEFORE_ALL_LISTS: ListPlace = { keyId: "00000000-0000-0000-0000-000000000000", shard: 0 };
export const changedLists = (q: Query, after: ListPlace) => q.rows(changed, [after.keyId, after.shard]);
export const ageingLists = (q: Query, after: ListPlace, now: Date) =>
  q.rows(ageing, [after.keyId, after.shard, now]);
export const keysOfAuthority = (q: Query, authorityId: string) => q.rows(keysOf, [authorityId]);

export const findStatus = (q: Query, keyId: string, serialNumber: string) =>
  q.first(statusOf, [keyId, serialNumber]);
export const findSigner = (q: Query, keyId: string) => q.first(signer, [keyId]);
export const storeSigner = (tx: Tx, keyId: string, row: SignerRow): void =>
  tx.defer(putSigner, [keyId, row.der, row.dataKeyId, row.sealedKey, row.notAfter]);
