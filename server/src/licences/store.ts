import { slowSql, sql, type Query, type SlowQuery, type Tx } from "../platform/db/index.ts";

export interface LicenceRow {
  readonly id: string;
  readonly orgId: string | null;
  readonly document: string;
  readonly installedAt: Date;
  readonly revokedAt: Date | null;
}

const COLUMNS = `id, org_id AS "orgId", document, installed_at AS "installedAt", revoked_at AS "revokedAt"`;

// Revoked ones last, so that the limit can never hide one that counts behind a heap of those that do not.
const ofOrganization = sql<LicenceRow>(`
  SELECT ${COLUMNS} FROM licences WHERE org_id = $1 OR org_id IS NULL
  ORDER BY revoked_at IS NOT NULL, installed_at DESC, id DESC LIMIT 200`);
const byId = sql<LicenceRow>(`SELECT ${COLUMNS} FROM licences WHERE id = $1`);
const page = slowSql<LicenceRow>(
  `SELECT ${COLUMNS} FROM licences ORDER BY installed_at DESC, id DESC LIMIT $1 OFFSET $2`,
);
const count = sql<{ count: number }>(`SELECT count(*) AS count FROM licences`);
const insert = sql(`INSERT INTO licences (id, org_id, document, installed_at) VALUES ($1, $2, $3, $4)`);
const revoke = sql<LicenceRow>(
  `UPDATE licences SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL RETURNING ${COLUMNS}`,
);
const revokeOwn = sql<{ id: string }>(
  `UPDATE licences SET revoked_at = $2 WHERE org_id = $1 AND revoked_at IS NULL RETURNING id`,
);
const issuers = sql<{ publicKey: Buffer }>(`SELECT public_key AS "publicKey" FROM licence_issuers`);
const insertIssuer = sql<{ id: string }>(`
  INSERT INTO licence_issuers (id, public_key, created_at) VALUES ($1, $2, $3) ON CONFLICT (public_key) DO NOTHING RETURNING id`);

export const licencesOfOrganization = (q: Query, orgId: string) => q.rows(ofOrganization, [orgId]);
export const findLicence = (q: Query, id: string) => q.first(byId, [id]);

export async function pageOfLicences(
  q: SlowQuery,
  limit: number,
  offset: number,
): Promise<{ rows: LicenceRow[]; totalCount: number }> {
  const [rows, total] = await Promise.all([q.rows(page, [limit, offset]), q.first(count)]);
  return { rows, totalCount: total?.count ?? 0 };
}

type NewLicenceRow = Omit<LicenceRow, "revokedAt">;

export const insertLicence = (tx: Tx, row: NewLicenceRow) =>
  tx.rows(insert, [row.id, row.orgId, row.document, row.installedAt]);
export const revokeLicence = (tx: Tx, id: string, at: Date) => tx.first(revoke, [id, at]);
export const revokeLicencesOf = (tx: Tx, orgId: string, at: Date) => tx.rows(revokeOwn, [orgId, at]);

export const issuerKeys = async (q: Query): Promise<Buffer[]> =>
  (await q.rows(issuers)).map((row) => row.publicKey);
/** True if it was not known before. */
export const registerIssuer = async (
  tx: Tx,
  issuer: { id: string; publicKey: Buffer; at: Date },
): Promise<boolean> => (await tx.first(insertIssuer, [issuer.id, issuer.publicKey, issuer.at])) !== undefined;
