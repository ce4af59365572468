import { slowSql, sql, type WriteTx, type Query, type SlowQuery, type Tx } from "../../platform/db/index.ts";

/** Everything a request with this token is checked against. */
export interface TokenState {
  readonly id: string;
  readonly identityId: string;
  readonly identityName: string;
  readonly orgId: string;
  /** The project that the identity goes with; null for one of the organisation. */
  readonly projectId: string | null;
  readonly isInstanceAdmin: boolean;
  readonly authMethod: string;
  readonly usesLimit: number;
  readonly trustedIps: string[] | null;
}

export interface TokenRow {
  readonly id: string;
  readonly identityId: string;
  readonly authMethod: string;
  readonly name: string | null;
  readonly clientSecretId: string | null;
  readonly ttl: number;
  readonly maxTtl: number;
  readonly period: number;
  readonly uses: number;
  readonly usesLimit: number;
  readonly isRevoked: boolean;
  readonly expiresAt: Date;
  readonly lastUsedAt: Date | null;
  readonly lastRenewedAt: Date | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

const COLUMNS = `t.id, t.identity_id AS "identityId", t.auth_method AS "authMethod", t.name, t.client_secret_id AS "clientSecretId", t.ttl,
  t.max_ttl AS "maxTtl", t.period, t.uses, t.uses_limit AS "usesLimit", t.is_revoked AS "isRevoked", t.expires_at AS "expiresAt",
  t.last_used_at AS "lastUsedAt", t.last_renewed_at AS "lastRenewedAt", t.created_at AS "createdAt", t.updated_at AS "updatedAt"`;

const insert = sql(`
  INSERT INTO access_tokens (id, identity_id, auth_method, name, client_secret_id, ttl, max_ttl, period, uses_limit, expires_at, created_at, updated_at)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11)`);
// A token is as good as its client secret, and its trusted addresses are those of its method as they are now.
const state = sql<TokenState>(`
  SELECT t.id, i.id AS "identityId", i.name AS "identityName", i.org_id AS "orgId", i.project_id AS "projectId", i.is_instance_admin AS "isInstanceAdmin",
    t.auth_method AS "authMethod", t.uses_limit AS "usesLimit",
    CASE t.auth_method WHEN 'universal-auth' THEN u.access_token_trusted_ips ELSE k.access_token_trusted_ips END AS "trustedIps"
  FROM access_tokens t JOIN identities i ON i.id = t.identity_id
  LEFT JOIN universal_auths u ON u.identity_id = i.id LEFT JOIN token_auths k ON k.identity_id = i.id
  LEFT JOIN client_secrets c ON c.id = t.client_secret_id
  WHERE t.id = $1 AND NOT t.is_revoked AND (c.id IS NULL OR NOT c.is_revoked)`);
const byId = sql<TokenRow>(`SELECT ${COLUMNS} FROM access_tokens t WHERE t.id = $1`);
const byIdInOrg = sql<TokenRow>(
  `SELECT ${COLUMNS} FROM access_tokens t JOIN identities i ON i.id = t.identity_id WHERE t.id = $1 AND i.org_id = $2`,
);
const ofMethod = slowSql<TokenRow>(`
  SELECT ${COLUMNS} FROM access_tokens t WHERE t.identity_id = $1 AND t.auth_method = $2 ORDER BY t.created_at DESC, t.id DESC LIMIT $3 OFFSET $4`);
const use = sql<{ id: string }>(`
  UPDATE access_tokens SET uses = uses + 1, last_used_at = $2 WHERE id = $1 AND uses < uses_limit AND NOT is_revoked RETURNING id`);
const renew = sql<{ id: string }>(`
  UPDATE access_tokens SET expires_at = $2, last_renewed_at = $3, updated_at = $3
  WHERE id = $1 AND NOT is_revoked AND (uses_limit = 0 OR uses < uses_limit) RETURNING id`);
const rename = sql<TokenRow>(
  `UPDATE access_tokens t SET name = $2, updated_at = $3 WHERE id = $1 RETURNING ${COLUMNS}`,
);
const revoke = sql<{ id: string }>(
  `UPDATE access_tokens SET is_revoked = true, updated_at = $2 WHERE id = $1 AND NOT is_revoked RETURNING id`,
);
const dropOfMethod = sql(`DELETE FROM access_tokens WHERE identity_id = $1 AND auth_method = $2`);
// Nodes share tokens: in one order, and past whatever somebody holds (those are answered), so that nobody ever waits
// for a time. What another node has written down within the minute is good enough.
const touch = sql<{ id: string }>(`
  WITH used AS (
    SELECT u.id, u.at FROM unnest($1::uuid[], $2::timestamptz[]) AS u (id, at) JOIN access_tokens t ON t.id = u.id
    WHERE t.last_used_at IS NULL OR t.last_used_at <= u.at - interval '1 minute'),
  free AS (
    SELECT t.id FROM access_tokens t WHERE t.id = ANY (SELECT id FROM used) ORDER BY t.id FOR NO KEY UPDATE SKIP LOCKED),
  touched AS (
    UPDATE access_tokens t SET last_used_at = greatest(t.last_used_at, used.at)
    FROM used JOIN free ON free.id = used.id WHERE t.id = used.id RETURNING t.id)
  SELECT id FROM used WHERE NOT EXISTS (SELECT FROM touched WHERE touched.id = used.id)`);
const sweep = slowSql<{ id: string }>(`
  DELETE FROM access_tokens WHERE id IN (SELECT id FROM access_tokens WHERE expires_at < $1 LIMIT $2) RETURNING id`);

interface NewToken {
  readonly id: string;
  readonly identityId: string;
  readonly authMethod: string;
  readonly name: string | null;
  readonly clientSecretId: string | null;
  readonly ttl: number;
  readonly maxTtl: number;
  readonly period: number;
  readonly usesLimit: number;
  readonly expiresAt: Date;
  readonly at: Date;
}

export const insertToken = (tx: WriteTx, t: NewToken): void =>
  tx.defer(insert, [
    t.id,
    t.identityId,
    t.authMethod,
    t.name,
    t.clientSecretId,
    t.ttl,
    t.maxTtl,
    t.period,
    t.usesLimit,
    t.expiresAt,
    t.at,
  ]);
export const findTokenState = (q: Query, id: string) => q.first(state, [id]);
export const findToken = (q: Query, id: string) => q.first(byId, [id]);
export const findTokenInOrg = (q: Query, id: string, orgId: string) => q.first(byIdInOrg, [id, orgId]);
export const listTokens = (
  q: SlowQuery,
  identityId: string,
  method: string,
  page: { offset: number; limit: number },
) => q.rows(ofMethod, [identityId, method, page.limit, page.offset]);
export const useToken = (tx: Tx, id: string, at: Date) => tx.first(use, [id, at]);
export const renewTokenUntil = (tx: Tx, id: string, until: Date, at: Date) =>
  tx.first(renew, [id, until, at]);
export const renameToken = (tx: Tx, id: string, name: string | null, at: Date) =>
  tx.first(rename, [id, name, at]);
export const revokeToken = (tx: Tx, id: string, at: Date) => tx.first(revoke, [id, at]);
export const dropTokensOfMethod = (tx: Tx, identityId: string, method: string) =>
  tx.rows(dropOfMethod, [identityId, method]);
/** Answers those that somebody held. */
export const touchTokens = async (tx: Tx, used: ReadonlyMap<string, Date>): Promise<string[]> =>
  (await tx.rows(touch, [[...used.keys()], [...used.values()]])).map(({ id }) => id);
export const sweepTokens = async (tx: Tx, before: Date, batch: number) =>
  (await tx.rows(sweep, [before, batch])).length;
