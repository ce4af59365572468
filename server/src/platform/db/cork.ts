import type { Socket } from "node:net";
import type pg from "pg";

// pg has no word for either of these; its stream is what its own pipelining corks, too.
const streamOf = (client: pg.ClientBase): Socket =>
  (client as unknown as { connection: { stream: Socket } }).connection.stream;

/** Cuts a connection off without a word, because there may be nobody left to hear it. */
export const sever = (client: pg.ClientBase): void => void streamOf(client).destroy();

/**
 * Statements that are sent in one go should leave in one piece: one system call here, one wake-up of the database
 * there. Whatever is written to this connection until the present run of microtasks ends travels together.
 */
export function corkForThisTick(client: pg.ClientBase): void {
  const stream = streamOf(client);
  if (stream.writableCorked > 0) return;
  stream.cork();
  process.nextTick(() => stream.uncork());
}
