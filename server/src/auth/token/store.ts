import { sql, type Query, type Tx } from "../../platform/db/index.ts";
import type { TokenAuthSettings } from "./contract.ts";

export interface TokenAuthRow {
  readonly id: string;
  readonly identityId: string;
  readonly accessTokenTTL: number;
  readonly accessTokenMaxTTL: number;
  readonly accessTokenPeriod: number;
  readonly accessTokenNumUsesLimit: number;
  readonly accessTokenTrustedIps: string[];
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

const COLUMNS = `id, identity_id AS "identityId", access_token_ttl AS "accessTokenTTL", access_token_max_ttl AS "accessTokenMaxTTL",
  access_token_period AS "accessTokenPeriod", access_token_uses_limit AS "accessTokenNumUsesLimit", access_token_trusted_ips AS "accessTokenTrustedIps",
  created_at AS "createdAt", updated_at AS "updatedAt"`;
const insert = sql<TokenAuthRow>(`
  INSERT INTO token_auths (id, identity_id, access_token_ttl, access_token_max_ttl, access_token_period, access_token_uses_limit, access_token_trusted_ips, created_at, updated_at)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8) RETURNING ${COLUMNS}`);
const update = sql<TokenAuthRow>(`
  UPDATE token_auths SET access_token_ttl = $2, access_token_max_ttl = $3, access_token_period = $4, access_token_uses_limit = $5,
    access_token_trusted_ips = $6, updated_at = $7 WHERE identity_id = $1 RETURNING ${COLUMNS}`);
const remove = sql<TokenAuthRow>(`DELETE FROM token_auths WHERE identity_id = $1 RETURNING ${COLUMNS}`);
const lockByIdentity = sql<TokenAuthRow>(
  `SELECT ${COLUMNS} FROM token_auths WHERE identity_id = $1 FOR UPDATE`,
);
const byIdentity = sql<TokenAuthRow>(`SELECT ${COLUMNS} FROM token_auths WHERE identity_id = $1`);
const claimMethod = sql(`UPDATE identities SET auth_methods = '{token-auth}' WHERE id = $1`);

export const insertTokenAuth = (
  tx: Tx,
  ids: { id: string; identityId: string },
  s: TokenAuthSettings,
  at: Date,
) =>
  tx.first(insert, [
    ids.id,
    ids.identityId,
    s.accessTokenTTL,
    s.accessTokenMaxTTL,
    s.accessTokenPeriod,
    s.accessTokenNumUsesLimit,
    s.accessTokenTrustedIps,
    at,
  ]);
/** For an identity that comes into being in the same transaction: both statements travel with its own. */
export function foundTokenAuth(
  tx: Tx,
  ids: { id: string; identityId: string },
  s: TokenAuthSettings,
  at: Date,
): void {
  tx.defer(insert, [
    ids.id,
    ids.identityId,
    s.accessTokenTTL,
    s.accessTokenMaxTTL,
    s.accessTokenPeriod,
    s.accessTokenNumUsesLimit,
    s.accessTokenTrustedIps,
    at,
  ]);
  tx.defer(claimMethod, [ids.identityId]);
}
export const updateTokenAuth = (tx: Tx, identityId: string, s: TokenAuthSettings, at: Date) =>
  tx.first(update, [
    identityId,
    s.accessTokenTTL,
    s.accessTokenMaxTTL,
    s.accessTokenPeriod,
    s.accessTokenNumUsesLimit,
    s.accessTokenTrustedIps,
    at,
  ]);
export const deleteTokenAuth = (tx: Tx, identityId: string) => tx.first(remove, [identityId]);
export const findTokenAuth = (q: Query, identityId: string) => q.first(byIdentity, [identityId]);

/** As it is now, and until this transaction ends. */
export const lockTokenAuth = (tx: Tx, identityId: string) => tx.first(lockByIdentity, [identityId]);
