/** Borrowing connections: from pools that may get no more of them, and that may lead to another server than before. */
import type pg from "pg";
import { isFull } from "./errors.ts";
import type { SessionClient } from "@keyward/pg-pipeline";

/** For how long we ask for no more connections where the database gave us none. */
const CONTENT_MS = 10_000;
const wished = new WeakMap<pg.Pool, number>();

/** Since when connections lead where the address leads now. */
const renewals = new WeakMap<pg.Pool, number>();
export const isCurrent = (pool: pg.Pool, client: pg.PoolClient): boolean =>
  (client as unknown as SessionClient).askedAt >= (renewals.get(pool) ?? Number.NEGATIVE_INFINITY);

export const renewPool = (pool: pg.Pool): void => void renewals.set(pool, performance.now());

/** Where the database gives no more connections, the open ones are shared: one becomes free soon. */
export async function borrow(pool: pg.Pool): Promise<pg.PoolClient> {
  for (;;) {
    try {
      const client = await pool.connect();
      if (isCurrent(pool, client)) return client;
      client.release(true);
    } catch (error) {
      const { options, totalCount } = pool;
      if (!isFull(error) || totalCount === 0) throw error;
      if (!wished.has(pool)) {
        wished.set(pool, options.max);
        setTimeout(() => {
          options.max = wished.get(pool) ?? options.max;
          wished.delete(pool);
        }, CONTENT_MS).unref();
      }
      options.max = Math.min(options.max, totalCount);
    }
  }
}
