import type { Writable } from "node:stream";
import type pg from "pg";

/**
 * Statements that are sent in one go should leave in one piece: one system call here, one wake-up of the database
 * there. Whatever is written to this connection until the present run of microtasks ends travels together.
 */
export function corkForThisTick(client: pg.ClientBase): void {
  // pg has no word for this; its stream is what its own pipelining corks, too.
  const { stream } = (client as unknown as { connection: { stream: Writable } }).connection;
  if (stream.writableCorked > 0) return;
  stream.cork();
  process.nextTick(() => stream.uncork());
}
