// A process of its own: it waits for tens of seconds, and others need not wait with it.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { until } from "../../../test/builders.ts";
import { openProxy, type Proxy } from "../../../test/faults/proxy.ts";
import {
  createTestDatabase,
  stopOwnPostgres,
  withClient,
  type TestDatabase,
} from "../../../test/postgres.ts";
import { systemActor } from "../actor.ts";
import { systemClock } from "../clock.ts";
import { notFound } from "../problem.ts";
import { openDatabase, sql, type Database } from "./index.ts";

const STANDSTILL = /^no change got through for \d+ s, though some were asked for$/;
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const one = sql<{ one: number }>(`SELECT 1 AS one`);
const nap = sql(`SELECT pg_sleep($1)`);

describe("writes that all wait", () => {
  let test: TestDatabase;
  let proxy: Proxy;
  let database: Database;
  const change = () =>
    database.write(async (tx) => tx.audit(systemActor("test"), { event: "test", orgId: null }));
  const isStill = async () => database.obstacles().some((obstacle) => STANDSTILL.test(obstacle));
  const goesOn = async () => database.obstacles().length === 0;

  before(async () => {
    test = await createTestDatabase();
    proxy = await openProxy(test.connection);
    database = openDatabase({
      connection: { ...test.connection, host: "127.0.0.1", port: proxy.port },
      ...{ connections: 2, clock: systemClock, onError: () => undefined },
    });
    await Promise.all([change(), change()]);
  });
  after(async () => {
    await database.close();
    await proxy.close();
    await test.drop();
    await stopOwnPostgres();
  });

  it("are a standstill: their connections go silent while reads still work, until one succeeds", async () => {
    proxy.set({ kind: "silent-changes" });
    const asked = Promise.allSettled([change(), change(), change()]);
    await pause(1000);
    assert.deepEqual(database.obstacles(), [], "a moment is no standstill");
    assert.deepEqual(await database.read((q) => q.first(one)), { one: 1 });
    await until(isStill, 30_000);
    assert.deepEqual(await database.read((q) => q.first(one)), { one: 1 });
    proxy.set({ kind: "fair" });
    proxy.cut();
    await asked;
    // No client writes any more, and it is still noticed.
    await until(goesOn, 30_000);
    await change();
  });

  it("are one behind a lock that every write needs, also when all of them time out", async () => {
    await withClient(test.server, test.connection.database, async (client) => {
      await client.query("BEGIN");
      await client.query("LOCK TABLE audit_log IN EXCLUSIVE MODE");
      // It is given up by the database after a while; nobody waits from then on.
      const asked = change().catch(() => undefined);
      await until(isStill, 30_000);
      await asked;
      assert.equal(await isStill(), true);
      await client.query("ROLLBACK");
    });
    await until(goesOn, 30_000);
  });

  it("are one behind a lock on this month's part of the audit log, however many changes are refused meanwhile", async () => {
    await withClient(test.server, test.connection.database, async (client) => {
      await client.query("BEGIN");
      const { rows } = await client.query<{ name: string }>(
        "SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'audit_log'::regclass",
      );
      for (const { name } of rows) await client.query(`LOCK TABLE ${name} IN EXCLUSIVE MODE`);
      const refusing = setInterval(() => {
        database
          .write(async (tx) => {
            await tx.first(one);
            throw notFound("Nothing of that kind");
          })
          .catch(() => undefined);
      }, 500);
      const asked = change().catch(() => undefined);
      await until(isStill, 30_000);
      clearInterval(refusing);
      await asked;
      await client.query("ROLLBACK");
    });
    await until(goesOn, 30_000);
    const { length } = await withClient(test.server, test.connection.database, async (client) => {
      const { rows } = await client.query("SELECT FROM audit_log WHERE event = 'trial'");
      return rows;
    });
    assert.equal(length, 0, "what is tried leaves nothing behind");
  });

  it("are none where one takes long and others could be made, nor where nobody asks for any", async () => {
    const told: unknown[] = [];
    const timer = setInterval(() => told.push(...database.obstacles()), 100);
    await database.write((tx) => tx.rows(nap, [13]), { audited: false });
    await pause(1500);
    clearInterval(timer);
    assert.deepEqual(told, []);
  });

  it("are none where the database answers that it takes none: it is read-only", async () => {
    const name = test.connection.database;
    const set = (value: string) =>
      withClient(test.server, "postgres", (client) =>
        client.query(`ALTER DATABASE ${name} SET default_transaction_read_only = ${value}`),
      );
    await set("on");
    proxy.cut();
    const told: unknown[] = [];
    for (const from = performance.now(); performance.now() - from < 12_000;) {
      await assert.rejects(change());
      told.push(...database.obstacles());
      await pause(250);
    }
    await set("off");
    proxy.cut();
    assert.deepEqual(told, []);
  });
});
