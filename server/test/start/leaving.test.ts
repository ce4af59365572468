/** Start and graceful shutdown: probes, draining, and connections that are open at SIGTERM. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import pg from "pg";
import { openStream } from "../event-streams.ts";
import { clientOf } from "../harness.ts";
import { createTestDatabase, stopOwnPostgres, withClient, type TestDatabase } from "../postgres.ts";
import { failToStart, startServer, type ServerProcess } from "../process.ts";

const owner = { email: "a@example.com", password: "long enough", organization: "Example" };
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

async function until(check: () => Promise<boolean>, what: string, ms = 120_000): Promise<void> {
  const deadline = Date.now() + ms;
  while (!(await check().catch(() => false))) {
    if (Date.now() > deadline) throw new Error(`waited in vain for: ${what}`);
    await pause(20);
  }
}

const addressOf = ({ server, connection }: TestDatabase, user = server.user): string =>
  `postgres://${user}@localhost:${server.port}/${connection.database}?host=${encodeURIComponent(server.host)}&sslmode=disable`;

describe("a node", () => {
  let database: TestDatabase;
  let env: Record<string, string>;
  const servers: ServerProcess[] = [];
  before(async () => {
    database = await createTestDatabase();
    env = {
      DATABASE_URL: addressOf(database),
      KEYWARD_ROOT_KEY: randomBytes(32).toString("base64"),
    };
  });
  after(async () => {
    for (const server of servers) await server.kill();
    await database.drop();
    await stopOwnPostgres();
  });
  const start = async (more: Record<string, string> = {}): Promise<ServerProcess> => {
    const server = await startServer({ ...env, ...more });
    servers.push(server);
    return server;
  };
  const open = (base: string, text: string): Promise<Socket> =>
    new Promise((resolve) => {
      const { hostname, port } = new URL(base);
      const socket = connect(Number(port), hostname.replace(/[[\]]/g, ""), () => {
        socket.write(text);
        resolve(socket);
      });
      socket.on("error", () => undefined);
    });

  it("P-30 keeps serving after SIGTERM while it is not ready, and ends in time whatever is connected", async () => {
    const server = await start({ KEYWARD_DRAIN_SECONDS: "2" });
    const client = clientOf(server.base);
    assert.deepEqual((await client.get("/api/ready")).status, 200);
    const silent = [
      await open(server.base, ""),
      await open(server.base, "GET /api/status HTTP/1.1\r\nhost: x\r\n"),
    ];
    const told = Date.now();
    const ended = server.stop();
    await until(async () => (await client.get("/api/ready")).status === 503, "not being ready");
    assert.match((await client.get("/api/ready")).body.message, /being stopped/);
    assert.equal((await client.get("/api/live")).status, 200);
    const served = await client.get("/api/status");
    assert.equal(served.status, 200);
    assert.equal(await ended, 0);
    const took = Date.now() - told;
    assert.ok(took >= 1900, `it drained for ${took} ms`);
    // Two seconds for closing; the rest is for a machine that has much more to do.
    assert.ok(took < 60_000, `it took ${took} ms`);
    for (const socket of silent) socket.destroy();
  });

  it("P-30 sends its streams away while it drains", async () => {
    const server = await start({ KEYWARD_DRAIN_SECONDS: "3" });
    const { body } = await clientOf(server.base).post("/api/v1/admin/bootstrap", owner);
    const token = body.identity.credentials.token as string;
    const project = await clientOf(server.base, token).post("/api/v1/projects", { projectName: "streams" });
    const readers = await Promise.all(
      Array.from({ length: 6 }, () => openStream(server.base, token, { projectId: project.body.project.id })),
    );
    const ended = server.stop();
    await until(async () => readers.some(({ isEnded }) => isEnded), "the first to go");
    const left = readers.filter(({ isEnded }) => !isEnded).length;
    assert.ok(left > 0, "not all at once");
    await until(async () => readers.every(({ isEnded }) => isEnded), "all to go");
    assert.equal((await clientOf(server.base).get("/api/live")).status, 200, "and it is still there");
    for (const reader of readers) assert.match(reader.error ?? "no error event", /stop/);
    assert.equal(await ended, 0);
  });

  it("stops at once when a person asks for it", async () => {
    const server = await start({ KEYWARD_DRAIN_SECONDS: "120" });
    const told = Date.now();
    server.child.kill("SIGINT");
    assert.equal(await server.exited, 0);
    assert.ok(Date.now() - told < 90_000);
  });

  it("P-29 is live and not ready while its database is away", async () => {
    const own = await createTestDatabase();
    const name = own.connection.database;
    const server = await start({ DATABASE_URL: addressOf(own) });
    const client = clientOf(server.base);
    const admin = (text: string) => withClient(own.server, "postgres", (db) => db.query(text));
    await admin(`ALTER DATABASE ${name} WITH ALLOW_CONNECTIONS false`);
    await admin(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${name}'`);
    await until(async () => (await client.get("/api/ready")).status === 503, "not being ready");
    assert.equal((await client.get("/api/live")).status, 200);
    await admin(`ALTER DATABASE ${name} WITH ALLOW_CONNECTIONS true`);
    await until(async () => (await client.get("/api/ready")).status === 200, "being ready again");
    await server.kill();
    await own.drop();
  });

  it("waits for a database that has no connection to spare", async () => {
    const own = await createTestDatabase();
    const name = own.connection.database;
    const role = `guest_${name}`;
    const admin = (text: string, where = "postgres") => withClient(own.server, where, (db) => db.query(text));
    await admin(`CREATE ROLE ${role} LOGIN CONNECTION LIMIT 2`);
    await admin(`ALTER DATABASE ${name} OWNER TO ${role}`);
    await admin(`DROP SCHEMA public CASCADE; CREATE SCHEMA public AUTHORIZATION ${role}`, name);
    const guests = [0, 1].map(() => new pg.Client({ ...own.connection, user: role }));
    for (const guest of guests) await guest.connect();
    let isUp = false;
    const starting = start({ DATABASE_URL: addressOf(own, role) }).then((server) => {
      isUp = true;
      return server;
    });
    await pause(3000);
    assert.equal(isUp, false, "it waits");
    for (const guest of guests) await guest.end();
    await admin(`ALTER ROLE ${role} CONNECTION LIMIT -1`);
    const server = await starting;
    assert.equal((await clientOf(server.base).get("/api/ready")).status, 200);
    await server.kill();
    await own.drop();
    await admin(`DROP ROLE ${role}`);
  });

  it("finds its port taken before it makes a database", async () => {
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, "127.0.0.1", resolve));
    const KEYWARD_DATA_DIR = mkdtempSync(join(tmpdir(), "keyward-port-"));
    const { port } = taken.address() as AddressInfo;
    const refused = await failToStart({ KEYWARD_DATA_DIR, PORT: String(port), HOST: "127.0.0.1" });
    assert.equal(refused.code, 1);
    assert.match(refused.errors, new RegExp(`PORT ${port} is in use`));
    assert.equal(existsSync(join(KEYWARD_DATA_DIR, "postgres")), false);
    await new Promise((resolve) => taken.close(resolve));
    rmSync(KEYWARD_DATA_DIR, { recursive: true, force: true });
  });
});
