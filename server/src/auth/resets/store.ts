import { sql, type Query, type Tx } from "../../platform/db/index.ts";
import { holdUser } from "../../users/index.ts";

interface NewReset {
  readonly id: string;
  readonly userId: string;
  readonly digest: Buffer;
  readonly expiresAt: Date;
  readonly at: Date;
}

const insert = sql<{ id: string }>(`
  INSERT INTO password_resets (id, user_id, digest, expires_at, created_at)
  SELECT $1, $2, $3, $4, $5 WHERE (SELECT count(*) FROM password_resets WHERE user_id = $2 AND expires_at > $5) < $6
  RETURNING id`);
const find = sql<{ userId: string }>(
  `SELECT user_id AS "userId" FROM password_resets WHERE digest = $1 AND expires_at > $2`,
);
// Of many who take at once the row lock lets one through; the others find nothing.
const take = sql<{ userId: string }>(
  `DELETE FROM password_resets WHERE digest = $1 AND expires_at > $2 RETURNING user_id AS "userId"`,
);
const remove = sql(`DELETE FROM password_resets WHERE id = $1`);
const removeAll = sql(`DELETE FROM password_resets WHERE user_id = $1`);
const sweep = sql(`DELETE FROM password_resets WHERE expires_at <= $1`);

/** False if as many are open as may be. */
export async function insertReset(tx: Tx, reset: NewReset, most: number): Promise<boolean> {
  // One at a time per person: who asks twice at once is counted twice.
  await holdUser(tx, reset.userId);
  const { id, userId, digest, expiresAt, at } = reset;
  return (await tx.first(insert, [id, userId, digest, expiresAt, at, most])) !== undefined;
}
export const findReset = (q: Query, digest: Buffer, now: Date) => q.first(find, [digest, now]);
export const takeReset = (tx: Tx, digest: Buffer, now: Date) => tx.first(take, [digest, now]);
export const dropReset = (tx: Tx, id: string) => tx.rows(remove, [id]);
export const dropResetsOf = (tx: Tx, userId: string) => tx.rows(removeAll, [userId]);
export const sweepResets = (tx: Tx, now: Date) => tx.rows(sweep, [now]);
