import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { clientOf } from "../harness.ts";
import { failToStart, startServer } from "../process.ts";
import { createTestDatabase, stopOwnPostgres, withClient } from "../postgres.ts";
import { sized } from "../full-size.ts";

const folders: string[] = [];
const dataFolder = (): string => {
  const folder = mkdtempSync(join(tmpdir(), "keyward-start-"));
  folders.push(folder);
  return folder;
};
const owner = { email: "a@example.com", password: "long enough", organization: "Example" };

async function until(check: () => Promise<boolean>, what: string): Promise<void> {
  const deadline = Date.now() + 120_000;
  while (!(await check().catch(() => false))) {
    if (Date.now() > deadline) throw new Error(`waited in vain for: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

describe("a server on a data folder", () => {
  after(async () => {
    for (const folder of folders) rmSync(folder, { recursive: true, force: true });
    await stopOwnPostgres();
  });

  /** Of a server that was there and has stopped; whoever takes something away puts it back. */
  let used: string | undefined;
  const usedFolder = async (): Promise<string> => {
    if (used === undefined) {
      used = dataFolder();
      await (await startServer({ KEYWARD_DATA_DIR: used })).stop();
    }
    return used;
  };

  it("starts from nothing, keeps its key to itself, and keeps its data across a stop", async () => {
    const KEYWARD_DATA_DIR = dataFolder();
    const first = await startServer({ KEYWARD_DATA_DIR });
    assert.equal(statSync(join(KEYWARD_DATA_DIR, "root.key")).mode & 0o777, 0o600);
    const { body } = await clientOf(first.base).post("/api/v1/admin/bootstrap", owner);
    assert.equal(await first.stop(), 0);
    const second = await startServer({ KEYWARD_DATA_DIR });
    const answer = await clientOf(second.base, body.identity.credentials.token).get("/api/v1/organization");
    assert.deepEqual([answer.status, answer.body.organizations[0].name], [200, "Example"]);
    assert.equal(await second.stop(), 0);
    used = KEYWARD_DATA_DIR;
  });

  it("loses nothing that was acknowledged when it is killed, and starts again over the stale locks", async () => {
    const KEYWARD_DATA_DIR = dataFolder();
    let server = await startServer({ KEYWARD_DATA_DIR });
    const { body } = await clientOf(server.base).post("/api/v1/admin/bootstrap", owner);
    const token = body.identity.credentials.token as string;
    const acknowledged: string[] = [];
    for (let round = 0; round < sized(1, 2); round += 1) {
      const client = clientOf(server.base, token);
      const writers = Array.from({ length: 4 }, async (_, w) => {
        for (let n = 0; ; n += 1) {
          const answer = await client.post("/api/v1/identities", { name: `r${round}-w${w}-${n}` });
          if (answer.status === 200) acknowledged.push(answer.body.identity.id);
        }
      });
      const ended = Promise.allSettled(writers);
      await until(async () => acknowledged.length > 20 * (round + 1), "some writes");
      await server.kill();
      await ended;
      server = await startServer({ KEYWARD_DATA_DIR });
    }
    const { body: list } = await clientOf(server.base, token).get("/api/v1/identities?limit=10000");
    const present = new Set(list.identities.map((identity: { identityId: string }) => identity.identityId));
    assert.deepEqual(
      acknowledged.filter((id) => !present.has(id)),
      [],
    );
    assert.equal(await server.stop(), 0);
  });

  it("goes on by itself when its PostgreSQL is killed", async () => {
    const KEYWARD_DATA_DIR = dataFolder();
    const server = await startServer({ KEYWARD_DATA_DIR });
    const { body } = await clientOf(server.base).post("/api/v1/admin/bootstrap", owner);
    const client = clientOf(server.base, body.identity.credentials.token);
    const [pid = ""] = readFileSync(join(KEYWARD_DATA_DIR, "postgres", "postmaster.pid"), "utf8").split("\n");
    process.kill(Number(pid), "SIGKILL");
    await until(
      async () => (await client.post("/api/v1/identities", { name: "after" })).status === 200,
      "the database to come back",
    );
    assert.equal((await client.get("/api/status")).status, 200);
    assert.equal(await server.stop(), 0);
  });

  it("refuses to start on the data folder of a running server", async () => {
    const KEYWARD_DATA_DIR = await usedFolder();
    const first = await startServer({ KEYWARD_DATA_DIR });
    const second = await failToStart({ KEYWARD_DATA_DIR });
    assert.equal(second.code, 1);
    assert.match(second.errors, new RegExp(String(first.child.pid)));
    assert.match(second.errors, /: stop that one first, or point KEYWARD_DATA_DIR elsewhere\.\n$/);
    assert.equal((await clientOf(first.base).get("/api/status")).status, 200);
    await first.stop();
  });

  it("refuses a wrong root key before touching anything", async () => {
    const KEYWARD_DATA_DIR = await usedFolder();
    const right = readFileSync(join(KEYWARD_DATA_DIR, "root.key"));
    writeFileSync(join(KEYWARD_DATA_DIR, "root.key"), `${randomBytes(32).toString("base64")}\n`);
    const refused = await failToStart({ KEYWARD_DATA_DIR });
    assert.equal(refused.code, 1);
    assert.match(refused.errors, /^The root key is not the one/);
    assert.equal(refused.errors.trim().split("\n").length, 1);
    writeFileSync(join(KEYWARD_DATA_DIR, "root.key"), right);
    await (await startServer({ KEYWARD_DATA_DIR })).stop();
  });

  it("says in one line which variable is wrong", async () => {
    const refused = await failToStart({ PORT: "eighty" });
    assert.equal(refused.code, 1);
    assert.equal(refused.errors.trim(), "PORT must be a whole number from 0 to 65535.");
  });

  it("refuses to make a new root key beside an old database", async () => {
    const KEYWARD_DATA_DIR = await usedFolder();
    const right = readFileSync(join(KEYWARD_DATA_DIR, "root.key"));
    rmSync(join(KEYWARD_DATA_DIR, "root.key"));
    const refused = await failToStart({ KEYWARD_DATA_DIR });
    assert.equal(refused.code, 1);
    assert.match(refused.errors, /holds a database but no root\.key/);
    writeFileSync(join(KEYWARD_DATA_DIR, "root.key"), right, { mode: 0o600 });
  });

  it("says in one line that its port is taken, or that the database of DATABASE_URL is away", async () => {
    const busy = createServer();
    await new Promise<void>((resolve) => busy.listen(0, "127.0.0.1", resolve));
    const { port } = busy.address() as AddressInfo;
    const taken = await failToStart({ KEYWARD_DATA_DIR: dataFolder(), PORT: String(port) });
    busy.close();
    assert.equal(taken.errors.trim(), `PORT ${port} is in use by another process. Set PORT to a free one.`);
    const away = await failToStart({
      DATABASE_URL: `postgres://nobody@127.0.0.1:${port}/none`,
      KEYWARD_ROOT_KEY: randomBytes(32).toString("base64"),
    });
    assert.match(away.errors.trim(), /^DATABASE_URL: the database cannot be reached: .*$/);
  });

  it("says in one line why a database does not let it in", async () => {
    const database = await createTestDatabase();
    const { host, port, user } = database.server;
    const KEYWARD_ROOT_KEY = randomBytes(32).toString("base64");
    const url = (who: string, name: string, more = "&sslmode=disable") =>
      `postgres://${who}@localhost:${port}/${name}?host=${encodeURIComponent(host)}${more}`;
    await withClient(database.server, "postgres", (client) =>
      client.query("CREATE ROLE start_test_stranger LOGIN"),
    );
    try {
      for (const [DATABASE_URL, reason] of [
        [url("nobody", "keyward"), /role "nobody" does not exist/],
        [url(user, "nothing"), /database "nothing" does not exist/],
        [url(user, "keyward", "&sslmode=verify-full&sslrootcert=/no/such/file"), /no such file/],
        ["postgres://keyward@localhost:1/keyward", /ECONNREFUSED/],
        [url("start_test_stranger", database.connection.database), /permission denied for/],
      ] as const) {
        const refused = await failToStart({ DATABASE_URL, KEYWARD_ROOT_KEY });
        assert.equal(refused.code, 1);
        assert.equal(refused.errors.trim().split("\n").length, 1, refused.errors);
        assert.match(refused.errors, /^DATABASE_URL: /);
        assert.match(refused.errors, reason);
      }
    } finally {
      await withClient(database.server, "postgres", (client) =>
        client.query("DROP ROLE start_test_stranger"),
      );
      await database.drop();
    }
  });

  it("says in one line that a data folder cannot be used", async () => {
    const folder = dataFolder();
    const file = join(folder, "file");
    writeFileSync(file, "");
    const refused = await failToStart({ KEYWARD_DATA_DIR: join(file, "data") });
    assert.equal(refused.code, 1);
    assert.equal(refused.errors.trim().split("\n").length, 1, refused.errors);
  });

  it(
    "works in a folder that only root may enter",
    { skip: process.getuid?.() !== 0 && "needs root" },
    async () => {
      const closed = dataFolder();
      chmodSync(closed, 0o700);
      mkdirSync(join(closed, "deep"));
      const server = await startServer({ KEYWARD_DATA_DIR: join(closed, "deep", "data") });
      assert.equal((await clientOf(server.base).get("/api/status")).status, 200);
      await server.stop();
    },
  );
});

describe("nodes on one PostgreSQL", () => {
  it("migrate once when they start together, and share everything", async () => {
    const database = await createTestDatabase();
    await withClient(database.server, database.connection.database, (client) =>
      client.query("DROP SCHEMA public CASCADE; CREATE SCHEMA public"),
    );
    const { host, port, user } = database.server;
    const env = {
      DATABASE_URL: `postgres://${user}@localhost:${port}/${database.connection.database}?host=${encodeURIComponent(host)}&sslmode=disable`,
      KEYWARD_ROOT_KEY: randomBytes(32).toString("base64"),
    };
    const nodes = await Promise.all([startServer(env), startServer(env), startServer(env)]);
    const migrated = nodes.filter((node) => node.lines.some((line) => line.includes("brought up to date")));
    assert.equal(migrated.length, 1);
    const [a, b] = nodes;
    const booted = await Promise.all(
      nodes.map((node) => clientOf(node.base).post("/api/v1/admin/bootstrap", owner)),
    );
    assert.deepEqual(booted.map((answer) => answer.status).sort(), [200, 400, 400]);
    const token = booted.find((answer) => answer.status === 200)?.body.identity.credentials.token as string;
    const made = await clientOf(a.base, token).post("/api/v1/projects", { projectName: "Shared" });
    assert.equal(
      (await clientOf(b.base, token).get(`/api/v1/projects/${made.body.project.slug}`)).status,
      200,
    );
    await Promise.all(nodes.map((node) => node.stop()));
    await database.drop();
    await stopOwnPostgres();
  });
});
