import { sql, type Query, type Tx } from "../../platform/db/index.ts";

export interface SessionState {
  readonly id: string;
  readonly userId: string;
  readonly email: string;
  readonly orgId: string | null;
  readonly isInstanceAdmin: boolean;
}

const insert = sql(
  `INSERT INTO user_sessions (id, user_id, org_id, expires_at, created_at) VALUES ($1, $2, $3, $4, $5)`,
);
// A session for an organisation ends with the membership there.
const state = sql<SessionState>(`
  SELECT s.id, u.id AS "userId", u.email, s.org_id AS "orgId", u.is_instance_admin AS "isInstanceAdmin"
  FROM user_sessions s JOIN users u ON u.id = s.user_id
  WHERE s.id = $1 AND NOT s.is_revoked
    AND (s.org_id IS NULL OR EXISTS (SELECT 1 FROM memberships m WHERE m.org_id = s.org_id AND m.project_id IS NULL AND m.user_id = u.id))`);
const member = sql<{ id: string }>(
  `SELECT id FROM memberships WHERE org_id = $1 AND project_id IS NULL AND user_id = $2`,
);
const revoke = sql(`UPDATE user_sessions SET is_revoked = true WHERE id = $1`);
const revokeAll = sql(`UPDATE user_sessions SET is_revoked = true WHERE user_id = $1`);
const sweep = sql(`DELETE FROM user_sessions WHERE expires_at < $1`);

export const insertSession = (
  tx: Tx,
  s: { id: string; userId: string; orgId: string | null; expiresAt: Date; at: Date },
): void => tx.later(insert, [s.id, s.userId, s.orgId, s.expiresAt, s.at]);
export const findSession = (q: Query, id: string) => q.first(state, [id]);
export const isOrgMember = async (q: Query, orgId: string, userId: string) =>
  (await q.first(member, [orgId, userId])) !== undefined;
export const revokeSession = (tx: Tx, id: string) => tx.rows(revoke, [id]);
export const revokeSessions = (tx: Tx, userId: string) => tx.rows(revokeAll, [userId]);
export const sweepSessions = (tx: Tx, before: Date) => tx.rows(sweep, [before]);
