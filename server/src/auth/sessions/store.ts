import { slowSql, sql, type Query, type Tx } from "../../platform/db/index.ts";

export interface SessionState {
  readonly id: string;
  readonly userId: string;
  readonly email: string;
  readonly orgId: string | null;
  readonly isInstanceAdmin: boolean;
}

// Only while the password is still the one that was checked: a change that came in between wins.
const openRoot = sql<{ id: string }>(`
  INSERT INTO user_sessions (id, root_id, user_id, org_id, expires_at, created_at)
  SELECT $1, $1, u.id, NULL, $3, $4 FROM users u WHERE u.id = $2 AND u.password_hash = $5 FOR SHARE
  RETURNING id`);
// A branch lives as long as the login it goes back to, and comes only from a session that is alive at this moment.
const openBranch = sql<{ expiresAt: Date }>(`
  INSERT INTO user_sessions (id, root_id, user_id, org_id, expires_at, created_at)
  SELECT $1, s.root_id, s.user_id, $3, s.expires_at, $4 FROM user_sessions s
  WHERE s.id = $2 AND NOT s.is_revoked AND s.expires_at > $4 FOR SHARE
  RETURNING expires_at AS "expiresAt"`);
// A session for an organisation ends with the membership there. And every one ends with the login it goes back to, also
// one that was being opened while that login was ended, and was seen by nobody then.
const state = sql<SessionState>(`
  SELECT s.id, u.id AS "userId", u.email, s.org_id AS "orgId", u.is_instance_admin AS "isInstanceAdmin"
  FROM user_sessions s JOIN user_sessions r ON r.id = s.root_id JOIN users u ON u.id = s.user_id
  WHERE s.id = $1 AND NOT s.is_revoked AND NOT r.is_revoked
    AND (s.org_id IS NULL OR EXISTS (SELECT 1 FROM memberships m WHERE m.org_id = s.org_id AND m.project_id IS NULL AND m.user_id = u.id))`);
const revoke = sql(`
  UPDATE user_sessions SET is_revoked = true WHERE root_id = (SELECT root_id FROM user_sessions WHERE id = $1)`);
const revokeAll = sql(`UPDATE user_sessions SET is_revoked = true WHERE user_id = $1`);
const revokeInOrg = sql(`UPDATE user_sessions SET is_revoked = true WHERE org_id = $1 AND user_id = $2`);
const sweep = slowSql<{ id: string }>(`
  DELETE FROM user_sessions WHERE id IN (SELECT id FROM user_sessions WHERE expires_at < $1 LIMIT $2) RETURNING id`);

interface RootSession {
  readonly id: string;
  readonly userId: string;
  readonly passwordHash: string;
  readonly expiresAt: Date;
  readonly at: Date;
}

export const insertRootSession = (tx: Tx, s: RootSession) =>
  tx.first(openRoot, [s.id, s.userId, s.expiresAt, s.at, s.passwordHash]);
export const insertBranchSession = (tx: Tx, s: { id: string; parentId: string; orgId: string; at: Date }) =>
  tx.first(openBranch, [s.id, s.parentId, s.orgId, s.at]);
export const findSession = (q: Query, id: string) => q.first(state, [id]);
/** The session's whole tree: the login it goes back to and every organisation selected from it. */
export const revokeSession = (tx: Tx, id: string) => tx.rows(revoke, [id]);
export const revokeSessions = (tx: Tx, userId: string) => tx.rows(revokeAll, [userId]);
/** For who leaves an organisation: without this, a session would come back to life if they were ever invited again. */
export const revokeOrgSessions = (tx: Tx, orgId: string, userId: string) =>
  tx.rows(revokeInOrg, [orgId, userId]);
export const sweepSessions = async (tx: Tx, before: Date, batch: number) =>
  (await tx.rows(sweep, [before, batch])).length;
