import { sql, type Query, type Tx } from "../../platform/db/index.ts";
import type { UniversalAuthSettings } from "./contract.ts";

export interface UniversalAuthRow {
  readonly id: string;
  readonly identityId: string;
  readonly clientId: string;
  readonly accessTokenTTL: number;
  readonly accessTokenMaxTTL: number;
  readonly accessTokenPeriod: number;
  readonly accessTokenNumUsesLimit: number;
  readonly accessTokenTrustedIps: string[];
  readonly clientSecretTrustedIps: string[];
  readonly lockoutEnabled: boolean;
  readonly lockoutThreshold: number;
  readonly lockoutDurationSeconds: number;
  readonly lockoutCounterResetSeconds: number;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

export interface ClientSecretRow {
  readonly id: string;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  readonly description: string;
  readonly clientSecretPrefix: string;
  readonly clientSecretNumUses: number;
  readonly clientSecretNumUsesLimit: number;
  readonly clientSecretTTL: number;
  readonly clientSecretLastUsedAt: Date | null;
  readonly identityUAId: string;
  readonly isClientSecretRevoked: boolean;
}

/** Everything that a login depends on, in one query. */
export interface LoginState extends UniversalAuthRow {
  readonly orgId: string;
  /** The project that the identity belongs to; null for one of the organisation. */
  readonly projectId: string | null;
  readonly orgSlug: string;
  readonly identityName: string;
  readonly lockedUntil: Date | null;
  readonly hasFailures: boolean;
  readonly secretId: string | null;
  readonly secretUses: number | null;
  readonly secretUsesLimit: number | null;
  readonly secretExpiresAt: Date | null;
  readonly secretIsRevoked: boolean | null;
}

const COLUMNS = `u.id, u.identity_id AS "identityId", u.client_id AS "clientId", u.access_token_ttl AS "accessTokenTTL",
  u.access_token_max_ttl AS "accessTokenMaxTTL", u.access_token_period AS "accessTokenPeriod", u.access_token_uses_limit AS "accessTokenNumUsesLimit",
  u.access_token_trusted_ips AS "accessTokenTrustedIps", u.client_secret_trusted_ips AS "clientSecretTrustedIps", u.lockout_enabled AS "lockoutEnabled",
  u.lockout_threshold AS "lockoutThreshold", u.lockout_seconds AS "lockoutDurationSeconds", u.lockout_reset_seconds AS "lockoutCounterResetSeconds",
  u.created_at AS "createdAt", u.updated_at AS "updatedAt"`;
const SECRET = `c.id, c.created_at AS "createdAt", c.updated_at AS "updatedAt", c.description, c.prefix AS "clientSecretPrefix", c.uses AS "clientSecretNumUses",
  c.uses_limit AS "clientSecretNumUsesLimit", c.ttl AS "clientSecretTTL", c.last_used_at AS "clientSecretLastUsedAt", c.universal_auth_id AS "identityUAId",
  c.is_revoked AS "isClientSecretRevoked"`;

const login = sql<LoginState>(`
  SELECT ${COLUMNS}, i.org_id AS "orgId", i.project_id AS "projectId", o.slug AS "orgSlug", i.name AS "identityName", l.locked_until AS "lockedUntil", l.subject_id IS NOT NULL AS "hasFailures",
    c.id AS "secretId", c.uses AS "secretUses", c.uses_limit AS "secretUsesLimit", c.expires_at AS "secretExpiresAt", c.is_revoked AS "secretIsRevoked"
  FROM universal_auths u JOIN identities i ON i.id = u.identity_id JOIN organizations o ON o.id = i.org_id
  LEFT JOIN client_secrets c ON c.universal_auth_id = u.id AND c.digest = $2
  LEFT JOIN lockouts l ON l.subject_id = i.id AND l.method = 'universal-auth' AND l.address = $3
  WHERE u.client_id = $1`);
const insert = sql<UniversalAuthRow>(`
  INSERT INTO universal_auths AS u (id, identity_id, client_id, access_token_ttl, access_token_max_ttl, access_token_period, access_token_uses_limit,
    access_token_trusted_ips, client_secret_trusted_ips, lockout_enabled, lockout_threshold, lockout_seconds, lockout_reset_seconds, created_at, updated_at)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $14) RETURNING ${COLUMNS}`);
const update = sql<UniversalAuthRow>(`
  UPDATE universal_auths u SET access_token_ttl = $2, access_token_max_ttl = $3, access_token_period = $4, access_token_uses_limit = $5,
    access_token_trusted_ips = $6, client_secret_trusted_ips = $7, lockout_enabled = $8, lockout_threshold = $9, lockout_seconds = $10,
    lockout_reset_seconds = $11, updated_at = $12 WHERE u.identity_id = $1 RETURNING ${COLUMNS}`);
const remove = sql<UniversalAuthRow>(
  `DELETE FROM universal_auths u WHERE u.identity_id = $1 RETURNING ${COLUMNS}`,
);
const lockByIdentity = sql<UniversalAuthRow>(
  `SELECT ${COLUMNS} FROM universal_auths u WHERE u.identity_id = $1 FOR UPDATE`,
);
const byIdentity = sql<UniversalAuthRow>(`SELECT ${COLUMNS} FROM universal_auths u WHERE u.identity_id = $1`);
const addMethod = sql(
  `UPDATE identities SET auth_methods = array_append(array_remove(auth_methods, $2), $2), updated_at = $3 WHERE id = $1`,
);
const dropMethod = sql(
  `UPDATE identities SET auth_methods = array_remove(auth_methods, $2), updated_at = $3 WHERE id = $1`,
);

const insertSecret = sql<ClientSecretRow>(`
  INSERT INTO client_secrets AS c (id, universal_auth_id, digest, prefix, description, uses_limit, ttl, expires_at, created_at, updated_at)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9) RETURNING ${SECRET}`);
const secrets = sql<ClientSecretRow>(
  `SELECT ${SECRET} FROM client_secrets c WHERE c.universal_auth_id = $1 ORDER BY c.created_at, c.id`,
);
const secret = sql<ClientSecretRow>(
  `SELECT ${SECRET} FROM client_secrets c WHERE c.universal_auth_id = $1 AND c.id = $2`,
);
const revokeSecret = sql<ClientSecretRow>(
  `UPDATE client_secrets c SET is_revoked = true, updated_at = $3 WHERE c.universal_auth_id = $1 AND c.id = $2 RETURNING ${SECRET}`,
);
const IS_USABLE = `NOT c.is_revoked AND (c.expires_at IS NULL OR c.expires_at > $3) AND (c.uses_limit = 0 OR c.uses < c.uses_limit)`;
const usable = sql<{ count: number }>(`
  SELECT count(*) AS count FROM (SELECT FROM client_secrets c WHERE c.universal_auth_id = $1 AND ${IS_USABLE} LIMIT $2) n`);
// A token goes with its secret: one that lives keeps a secret that has ended, but not a revoked one, which ends it too.
const forgetOld = sql(`
  DELETE FROM client_secrets WHERE id IN (
    SELECT old.id FROM (
      SELECT c.id, c.is_revoked, c.created_at FROM client_secrets c WHERE c.universal_auth_id = $1 AND NOT (${IS_USABLE}) ORDER BY c.created_at DESC OFFSET $2) old
    WHERE old.is_revoked OR NOT EXISTS (SELECT FROM access_tokens t WHERE t.client_secret_id = old.id AND NOT t.is_revoked AND t.expires_at > $3) LIMIT 10)`);
const useSecret = sql<{ id: string }>(
  `UPDATE client_secrets SET uses = uses + 1, last_used_at = $2 WHERE id = $1 AND uses < uses_limit AND NOT is_revoked RETURNING id`,
);
// Like last uses of tokens: in one order, and past whatever somebody holds. Those are answered and come again.
const countUses = sql<{ id: string }>(`
  WITH noted AS (
    SELECT n.id, n.uses, n.at FROM unnest($1::uuid[], $2::bigint[], $3::timestamptz[]) AS n (id, uses, at) JOIN client_secrets c ON c.id = n.id),
  free AS (
    SELECT c.id FROM client_secrets c WHERE c.id = ANY (SELECT id FROM noted) ORDER BY c.id FOR NO KEY UPDATE SKIP LOCKED),
  counted AS (
    UPDATE client_secrets c SET uses = c.uses + noted.uses, last_used_at = greatest(c.last_used_at, noted.at)
    FROM noted JOIN free ON free.id = noted.id WHERE c.id = noted.id RETURNING c.id)
  SELECT id FROM noted WHERE NOT EXISTS (SELECT FROM counted WHERE counted.id = noted.id)`);
const noteLogins = sql<{ id: string }>(`
  WITH noted AS (
    SELECT n.id, max(n.at) AS at FROM unnest($1::uuid[], $2::timestamptz[]) AS n (id, at) JOIN identities i ON i.id = n.id
    WHERE i.last_login_at IS NULL OR i.last_login_at < n.at OR i.last_login_method IS DISTINCT FROM 'universal-auth' GROUP BY n.id),
  free AS (
    SELECT i.id FROM identities i WHERE i.id = ANY (SELECT id FROM noted) ORDER BY i.id FOR NO KEY UPDATE SKIP LOCKED),
  written AS (
    UPDATE identities i SET last_login_method = 'universal-auth', last_login_at = greatest(i.last_login_at, noted.at)
    FROM noted JOIN free ON free.id = noted.id WHERE i.id = noted.id RETURNING i.id)
  SELECT id FROM noted WHERE NOT EXISTS (SELECT FROM written WHERE written.id = noted.id)`);

export const findLogin = (q: Query, clientId: string, digest: Buffer, address: string) =>
  q.first(login, [clientId, digest, address]);
/** In the order in which both statements name the columns. */
const settingsOf = (s: UniversalAuthSettings) => [
  s.accessTokenTTL,
  s.accessTokenMaxTTL,
  s.accessTokenPeriod,
  s.accessTokenNumUsesLimit,
  s.accessTokenTrustedIps,
  s.clientSecretTrustedIps,
  s.lockoutEnabled,
  s.lockoutThreshold,
  s.lockoutDurationSeconds,
  s.lockoutCounterResetSeconds,
];
export const insertUniversalAuth = (
  tx: Tx,
  ids: { id: string; identityId: string; clientId: string },
  s: UniversalAuthSettings,
  at: Date,
) => tx.first(insert, [ids.id, ids.identityId, ids.clientId, ...settingsOf(s), at]);
export const updateUniversalAuth = (tx: Tx, identityId: string, s: UniversalAuthSettings, at: Date) =>
  tx.first(update, [identityId, ...settingsOf(s), at]);
export const deleteUniversalAuth = (tx: Tx, identityId: string) => tx.first(remove, [identityId]);
export const findUniversalAuth = (q: Query, identityId: string) => q.first(byIdentity, [identityId]);
export const addAuthMethod = (tx: Tx, identityId: string, method: string, at: Date) =>
  tx.rows(addMethod, [identityId, method, at]);
export const dropAuthMethod = (tx: Tx, identityId: string, method: string, at: Date) =>
  tx.rows(dropMethod, [identityId, method, at]);

interface NewSecretRow {
  readonly id: string;
  readonly universalAuthId: string;
  readonly digest: Buffer;
  readonly prefix: string;
  readonly description: string;
  readonly usesLimit: number;
  readonly ttl: number;
  readonly expiresAt: Date | null;
  readonly at: Date;
}

/** Those that still let somebody in. */
export const countClientSecrets = async (q: Query, authId: string, most: number, now: Date) =>
  (await q.first(usable, [authId, most, now]))?.count ?? 0;
/** Of those that let nobody in only so many are kept to be shown; of the others a few go at a time. */
export const forgetOldSecrets = (tx: Tx, authId: string, kept: number, now: Date): void =>
  tx.defer(forgetOld, [authId, kept, now]);
export const insertClientSecret = (tx: Tx, s: NewSecretRow) =>
  tx.first(insertSecret, [
    s.id,
    s.universalAuthId,
    s.digest,
    s.prefix,
    s.description,
    s.usesLimit,
    s.ttl,
    s.expiresAt,
    s.at,
  ]);
export const listClientSecrets = (q: Query, authId: string) => q.rows(secrets, [authId]);
export const findClientSecret = (q: Query, authId: string, id: string) => q.first(secret, [authId, id]);
export const revokeClientSecret = (tx: Tx, authId: string, id: string, at: Date) =>
  tx.first(revokeSecret, [authId, id, at]);
export const useClientSecret = (tx: Tx, id: string, at: Date) => tx.first(useSecret, [id, at]);

export interface NotedUse {
  uses: number;
  at: Date;
  readonly identityId: string;
}
const idsOf = (rows: readonly { readonly id: string }[]): Set<string> => new Set(rows.map(({ id }) => id));
/** Answers which client secrets and which identities somebody held. */
export const noteClientSecretUses = async (tx: Tx, uses: ReadonlyMap<string, NotedUse>) => {
  const values = [...uses.values()];
  const at = values.map((u) => u.at);
  const [secrets, identities] = await Promise.all([
    tx.rows(countUses, [[...uses.keys()], values.map((u) => u.uses), at]),
    tx.rows(noteLogins, [values.map((u) => u.identityId), at]),
  ]);
  return { heldSecrets: idsOf(secrets), heldIdentities: idsOf(identities) };
};

/** As it is now, and until this transaction ends. */
export const lockUniversalAuth = (tx: Tx, identityId: string) => tx.first(lockByIdentity, [identityId]);
