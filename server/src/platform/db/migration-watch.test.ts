// A process of its own: it waits for tens of seconds, and others need not wait with it.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import pg from "pg";
import { until } from "../../../test/builders.ts";
import { openProxy, type Proxy } from "../../../test/faults/proxy.ts";
import {
  createTestDatabase,
  stopOwnPostgres,
  withClient,
  type TestDatabase,
} from "../../../test/postgres.ts";
import { systemClock } from "../clock.ts";
import { Problem } from "../problem.ts";
import { openDatabase, watchMigration, withOwnConnection, type Database } from "./index.ts";

describe("a migration, which may take as long as it needs", () => {
  let test: TestDatabase;
  let proxy: Proxy;
  let database: Database;
  const blockers: number[] = [];
  const ask = (text: string): Promise<void> =>
    withOwnConnection(database, "migrate", async (client) => {
      const stop = watchMigration(database, client, (pids) => void blockers.push(...pids));
      await client.query(text).finally(stop);
    });

  before(async () => {
    test = await createTestDatabase();
    proxy = await openProxy(test.connection);
    database = openDatabase({
      connection: { ...test.connection, host: "127.0.0.1", port: proxy.port },
      ...{ connections: 1, clock: systemClock, onError: () => undefined },
    });
  });
  after(async () => {
    await database.close();
    await proxy.close();
    await test.drop();
    await stopOwnPostgres();
  });

  it("is shown which session it waits for", async () => {
    const holder = new pg.Client(test.connection);
    await holder.connect();
    const { rows } = await holder.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
    await holder.query("BEGIN; LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE");
    const asked = ask("ALTER TABLE jobs ADD COLUMN more text");
    await until(async () => blockers.length > 0, 60_000);
    assert.equal(blockers[0], rows[0]?.pid);
    await holder.query("ROLLBACK");
    await asked;
    await holder.end();
  });

  it("does not wait for ever on a wire that swallows everything", { timeout: 600_000 }, async () => {
    const asked = ask("SELECT pg_sleep(600)");
    const isAtIt = () =>
      withClient(test.server, test.connection.database, async (client) => {
        const { rowCount } = await client.query(
          "SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()",
        );
        return rowCount === 1;
      });
    await until(isAtIt, 30_000);
    proxy.set({ kind: "silent" });
    await assert.rejects(asked, (error) => error instanceof Problem && error.status === 503);
    proxy.set({ kind: "fair" });
    proxy.cut();
  });
});
