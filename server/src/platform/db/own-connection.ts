/** A dedicated connection for one purpose, closed when that is done, whatever the state of the network. */
import type pg from "pg";
import type { Database, Purpose } from "./database.ts";
import { translate } from "./errors.ts";
import { sever } from "@keyward/pg-pipeline";

const GOODBYE_MS = 1000;

/** Closes it cleanly; if the server does not answer, closes the socket. */
async function end(client: pg.Client): Promise<void> {
  const timer = setTimeout(() => sever(client), GOODBYE_MS);
  await client.end().catch(() => undefined);
  clearTimeout(timer);
}

export async function withOwnConnection<T>(
  database: Database,
  purpose: Purpose,
  work: (client: pg.Client) => Promise<T>,
): Promise<T> {
  const client = await database.connect(purpose);
  try {
    return await work(client);
  } catch (error) {
    throw translate(error);
  } finally {
    await end(client);
  }
}
