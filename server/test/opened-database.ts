/** A database of its own, opened as a node opens it, for tests of what stands below the rooms. */
import { systemClock } from "../src/platform/clock.ts";
import { openDatabase, type Database } from "../src/platform/db/index.ts";
import { createTestDatabase, stopOwnPostgres, type TestDatabase } from "./postgres.ts";

export interface OpenedDatabase {
  readonly test: TestDatabase;
  readonly database: Database;
  close(): Promise<void>;
}

/** `prepare` is for what must be there before the first connection. */
export async function openTestDatabase(
  connections: number,
  prepare: (test: TestDatabase) => Promise<void> = async () => undefined,
): Promise<OpenedDatabase> {
  const test = await createTestDatabase();
  await prepare(test);
  const { connection } = test;
  const database = openDatabase({ connection, connections, clock: systemClock, onError: () => undefined });
  return {
    test,
    database,
    async close() {
      await database.close();
      await test.drop();
      await stopOwnPostgres();
    },
  };
}
