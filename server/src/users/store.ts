import { sql, type Query, type Tx } from "../platform/db/index.ts";

export interface UserRow {
  readonly id: string;
  readonly email: string;
  readonly firstName: string;
  readonly lastName: string;
  readonly passwordHash: string | null;
  readonly isInstanceAdmin: boolean;
}

const COLUMNS = `id, email, first_name AS "firstName", last_name AS "lastName", password_hash AS "passwordHash", is_instance_admin AS "isInstanceAdmin"`;
const insert = sql<UserRow>(`
  INSERT INTO users (id, email, first_name, last_name, password_hash, is_instance_admin, created_at, updated_at)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $7) RETURNING ${COLUMNS}`);
const byEmail = sql<UserRow>(`SELECT ${COLUMNS} FROM users WHERE email = $1`);
const byId = sql<UserRow>(`SELECT ${COLUMNS} FROM users WHERE id = $1`);
const admins = sql<UserRow>(
  `SELECT ${COLUMNS} FROM users WHERE is_instance_admin ORDER BY created_at LIMIT 100`,
);
const lock = sql(`SELECT id FROM users WHERE id = $1 FOR NO KEY UPDATE`);
const setPassword = sql(`UPDATE users SET password_hash = $2, updated_at = $3 WHERE id = $1`);

export const insertUser = (tx: Tx, u: UserRow, at: Date) =>
  tx.first(insert, [u.id, u.email, u.firstName, u.lastName, u.passwordHash, u.isInstanceAdmin, at]);
export const findUserByEmail = (q: Query, email: string) => q.first(byEmail, [email]);
export const findUser = (q: Query, id: string) => q.first(byId, [id]);
export const listInstanceAdmins = (q: Query) => q.rows(admins);
/** Lines up those who change what belongs to this person, until the transaction ends. */
export const holdUser = (tx: Tx, id: string) => tx.rows(lock, [id]);
export const setPasswordHash = (tx: Tx, id: string, hash: string, at: Date) =>
  tx.rows(setPassword, [id, hash, at]);
