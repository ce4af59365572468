// A process of its own: it waits for tens of seconds, and others need not wait with it.
/** Proxies give up after thirty seconds: whoever waits for a database that is gone hears of it from us, before that. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { openProxy, type Proxy } from "../../../test/faults/proxy.ts";
import { createTestDatabase, stopOwnPostgres, type TestDatabase } from "../../../test/postgres.ts";
import { systemClock } from "../clock.ts";
import { Problem } from "../problem.ts";
import { openDatabase, slowSql, sql, type Database } from "./index.ts";
import { sized } from "../../../test/full-size.ts";

const PROXY_MS = 30_000;
const one = sql<{ one: number }>(`SELECT 1 AS one`);
const slowOne = slowSql<{ one: number }>(`SELECT 1 AS one`);

describe("a connection that drops everything", () => {
  let test: TestDatabase;
  let proxy: Proxy;
  let database: Database;
  const tenant = "t";

  before(async () => {
    test = await createTestDatabase();
    proxy = await openProxy(test.connection);
    database = openDatabase({
      connection: { ...test.connection, host: "127.0.0.1", port: proxy.port },
      ...{ connections: 3, clock: systemClock, onError: () => undefined },
    });
  });
  after(async () => {
    await database.close();
    await proxy.close();
    await test.drop();
    await stopOwnPostgres();
  });

  it("is a 503 of ours for every read and write, at its first statement and at its last", async () => {
    let goOn: () => void = () => undefined;
    const isSilent = new Promise<void>((resolve) => (goOn = resolve));
    const change = () => database.write((tx) => tx.first(one), { audited: false });
    const asked: (() => Promise<unknown>)[] = [
      () => change(),
      () => database.read((q) => q.first(one)),
      () => database.read((q) => q.first(slowOne), { tenant }),
    ];
    await Promise.all([...asked, ...asked].map((ask) => ask()));
    await new Promise<void>((resolve) => {
      const last = database.write(
        async (tx) => {
          await tx.first(one);
          resolve();
          await isSilent;
        },
        { audited: false },
      );
      asked.push(() => last);
      last.catch(() => undefined);
    });
    proxy.set({ kind: "silent" });
    goOn();
    const told = await Promise.all(
      asked.map(async (ask) => {
        const from = performance.now();
        const error = await ask().then(
          () => undefined,
          (reason: unknown) => reason,
        );
        return {
          status: error instanceof Problem ? error.status : String(error),
          ms: performance.now() - from,
        };
      }),
    );
    proxy.set({ kind: "fair" });
    proxy.cut();
    for (const { status, ms } of told) {
      assert.equal(status, 503);
      assert.ok(ms < sized(4, 1) * PROXY_MS, JSON.stringify(told));
    }
  });
});
