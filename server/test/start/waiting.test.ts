/** A start that has to wait says what for, and does not wait for what it does not need. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, afterEach, before, describe, it } from "node:test";
import pg from "pg";
import { until } from "../builders.ts";
import { openProxy, type Proxy } from "../faults/proxy.ts";
import { createTestDatabase, stopOwnPostgres, withClient, type TestDatabase } from "../postgres.ts";
import { beginServer, type BeginningServer } from "../process.ts";

const MIGRATION_LOCK = "SELECT pg_advisory_lock(1801812343)";
const ADMIN = "a forgotten session";
/** Five seconds are promised; what a busy machine adds is not counted against it. */
const SOON_MS = 20_000;

describe("a start that has to wait", () => {
  let database: TestDatabase;
  let proxy: Proxy;
  let admin: pg.Client;
  const begun: BeginningServer[] = [];
  const rootKey = randomBytes(32).toString("base64");

  const begin = (host: string, port: number): BeginningServer => {
    const { user } = database.server;
    const server = beginServer({
      DATABASE_URL: `postgres://${user}@localhost:${port}/${database.connection.database}?host=${encodeURIComponent(host)}&sslmode=disable`,
      KEYWARD_ROOT_KEY: rootKey,
    });
    begun.push(server);
    return server;
  };
  const direct = () => begin(database.server.host, database.server.port);
  const said = (server: BeginningServer, words: RegExp) => async () =>
    server.lines.some((line) => words.test(line));

  before(async () => {
    database = await createTestDatabase();
    proxy = await openProxy(database.server);
    admin = new pg.Client({ ...database.connection, application_name: ADMIN });
    await admin.connect();
  });
  afterEach(async () => {
    for (const server of begun.splice(0)) {
      server.child.kill("SIGKILL");
      await server.exited;
    }
  });
  after(async () => {
    await admin.end();
    await proxy.close();
    await database.drop();
    await stopOwnPostgres();
  });

  it("waits for no migration where there is none to make", async () => {
    await admin.query(MIGRATION_LOCK);
    const server = direct();
    await Promise.race([
      server.ready,
      new Promise((_, reject) => setTimeout(reject, 240_000, new Error("it waits")).unref()),
    ]);
    await admin.query("SELECT pg_advisory_unlock_all()");
  });

  it("says what it waits for when the database stops to answer, and ends soon after", async () => {
    await admin.query("BEGIN");
    await admin.query("LOCK TABLE root_key IN ACCESS EXCLUSIVE MODE");
    const server = begin("127.0.0.1", proxy.port);
    // By another session: within a transaction one always sees the same.
    const isAsking = () =>
      withClient(database.server, database.connection.database, async (client) => {
        const { rowCount } = await client.query(
          "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()",
        );
        return rowCount === 1;
      });
    await until(isAsking, 60_000);
    proxy.set({ kind: "silent" });
    await until(said(server, /the start waits for the database/), SOON_MS);
    const code = await Promise.race([
      server.exited,
      new Promise((_, reject) => setTimeout(reject, 240_000, new Error("it hangs")).unref()),
    ]);
    assert.equal(code, 1);
    assert.match(server.errors(), /^DATABASE_URL: the database cannot be reached: .*\n$/);
    proxy.set({ kind: "fair" });
    proxy.cut();
    await admin.query("ROLLBACK");
  });

  it("waits for a lock that another holds, says so, and goes on when it is free", async () => {
    await admin.query("BEGIN");
    await admin.query("LOCK TABLE root_key IN ACCESS EXCLUSIVE MODE");
    const server = direct();
    await until(said(server, /the start waits for the database/), SOON_MS);
    await until(said(server, /lock timeout/), SOON_MS);
    await admin.query("ROLLBACK");
    await server.ready;
  });

  it("says who holds the migrations' lock and what to do about it, and goes on when it is free", async () => {
    await admin.query("DROP SCHEMA public CASCADE; CREATE SCHEMA public");
    await admin.query(MIGRATION_LOCK);
    const { rows } = await admin.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
    const server = direct();
    await until(said(server, /migrations/), SOON_MS);
    const line = server.lines.find((one) => one.includes("migrations")) ?? "";
    for (const part of [`"pid":${rows[0]?.pid}`, ADMIN, "connectedSince", "pg_terminate_backend"])
      assert.ok(line.includes(part), `${part} in ${line}`);
    await admin.query("SELECT pg_advisory_unlock_all()");
    await server.ready;
    assert.ok(await said(server, /brought up to date/)());
  });
});
