import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import type pg from "pg";
import { clientOf, type Client } from "../harness.ts";
import { aProfile, aRoot, issue, ok } from "../certificates.ts";
import { createTestDatabase, stopOwnPostgres, withClient, type TestDatabase } from "../postgres.ts";
import { startServer } from "../process.ts";

const COPY = fileURLToPath(new URL("../../src/copy.js", import.meta.url));
const CM = "/api/v1/cert-manager";

/** The program, as `npm run copy-database` runs it. */
function copy(env: Record<string, string>): Promise<{ code: number | null; out: string; err: string }> {
  const { DATABASE_URL: _none, ...rest } = process.env;
  const child = spawn(process.execPath, [COPY], { env: { ...rest, ...env } });
  let out = "";
  let err = "";
  child.stdout.on("data", (chunk) => (out += String(chunk)));
  child.stderr.on("data", (chunk) => (err += String(chunk)));
  return new Promise((resolve) => child.once("close", (code) => resolve({ code, out, err })));
}

const urlOf = ({ connection: { host, port, user, database } }: TestDatabase): string =>
  `postgres://${user}@localhost:${port}/${database}?host=${encodeURIComponent(host)}`;

const inDatabase = <T>(database: TestDatabase, work: (client: pg.Client) => Promise<T>) =>
  withClient(database.server, database.connection.database, work);

/** Of everything a little, and what is read of it. */
async function furnish(client: Client) {
  const { project } = ok(
    await client.post("/api/v1/projects", { projectName: "Payments", slug: "payments" }),
  );
  const at = { projectId: project.id, environment: "dev", secretPath: "/" };
  const value = `wert "ü" \\x00 ${"x".repeat(40_000)}`;
  ok(await client.post("/api/v4/secrets/KEY", { ...at, secretValue: "first" }));
  ok(await client.patch("/api/v4/secrets/KEY", { ...at, secretValue: value }));
  ok(
    await client.post(`/api/v1/projects/${project.id}/identities`, {
      name: "bot",
      roles: [{ role: "viewer" }],
      metadata: [{ key: "team", value: "core" }],
    }),
  );
  const pki = ok(await client.post("/api/v1/projects", { projectName: "PKI", type: "cert-manager" })).project;
  const root = await aRoot(client, pki.id);
  const profile = await aProfile(client, pki.id, root.id);
  await issue(client, profile.id, { commonName: "old.example.com" });
  return { project, profile, value };
}

async function look(client: Client, projectId: string) {
  const at = `projectId=${projectId}&environment=dev&secretPath=/`;
  const secret = ok(await client.get(`/api/v4/secrets/KEY?${at}`)).secret;
  const identities = ok(await client.get(`/api/v1/projects/${projectId}/identities`));
  const audit = ok(await client.get(`/api/v1/organization/audit-logs?projectId=${projectId}&limit=100`));
  return { secret, identities, audit: JSON.stringify(audit).length };
}

describe("an instance is copied from its data folder into a cluster", () => {
  let target: TestDatabase;
  let folder: string;
  let made: Awaited<ReturnType<typeof furnish>>;
  let token: string;
  let seen: Awaited<ReturnType<typeof look>>;
  let result: Awaited<ReturnType<typeof copy>>;

  before(async () => {
    target = await createTestDatabase();
    folder = mkdtempSync(join(tmpdir(), "keyward-copy-"));
    const server = await startServer({ KEYWARD_DATA_DIR: folder });
    const owner = { email: "a@example.com", password: "long enough", organization: "Example" };
    token = ok(await clientOf(server.base).post("/api/v1/admin/bootstrap", owner)).identity.credentials.token;
    made = await furnish(clientOf(server.base, token));
    seen = await look(clientOf(server.base, token), made.project.id);
    assert.equal(await server.stop(), 0);
    result = await copy({ KEYWARD_DATA_DIR: folder, TARGET_DATABASE_URL: urlOf(target) });
  });
  after(async () => {
    await target.drop();
    rmSync(folder, { recursive: true, force: true });
    await stopOwnPostgres();
  });

  it("says what it did and how to go on, and no secret", () => {
    assert.equal(result.code, 0, result.err);
    assert.match(result.out, /^secrets: 1$/m);
    assert.match(result.out, /Copied \d+ rows of \d+ tables/);
    assert.match(result.out, /DATABASE_URL/);
    assert.ok(!result.out.includes(readFileSync(join(folder, "root.key"), "utf8").trim()));
  });

  it("answers the same there, with the same token, and goes on working", async () => {
    const KEYWARD_ROOT_KEY = readFileSync(join(folder, "root.key"), "utf8").trim();
    const server = await startServer({ DATABASE_URL: urlOf(target), KEYWARD_ROOT_KEY });
    try {
      const client = clientOf(server.base, token);
      const now = await look(client, made.project.id);
      assert.equal(now.secret.secretValue, made.value);
      assert.deepEqual([now.secret, now.identities], [seen.secret, seen.identities]);
      assert.ok(now.audit >= seen.audit);
      const at = { projectId: made.project.id, environment: "dev", secretPath: "/" };
      ok(await client.post("/api/v4/secrets/NEW", { ...at, secretValue: "new" }));
      await issue(client, made.profile.id, { commonName: "new.example.com" });
      const listed = ok(
        await client.get(`${CM}/certificate-profiles/${made.profile.id}/certificates`),
      ).certificates.map((one: { cn: string }) => one.cn);
      assert.deepEqual(listed.sort(), ["new.example.com", "old.example.com"]);
      // Triggers work again: an environment comes with its root folder.
      const environment = { name: "Extra", slug: "extra", position: 4 };
      ok(await client.post(`/api/v1/projects/${made.project.id}/environments`, environment));
      ok(await client.post("/api/v4/secrets/NEW", { ...at, environment: "extra", secretValue: "new" }));
    } finally {
      await server.stop();
    }
  });

  it("has every constraint and trigger of an instance that was made there", async () => {
    const fresh = await createTestDatabase();
    const read = (database: TestDatabase) =>
      inDatabase(database, async (client) => {
        const { rows } = await client.query(`
          SELECT conrelid::regclass::text AS "table", conname, pg_get_constraintdef(oid) AS definition, convalidated FROM pg_constraint
          WHERE connamespace = 'public'::regnamespace AND conrelid::regclass::text !~ '^audit_log_' UNION ALL
          SELECT tgrelid::regclass::text, tgname, pg_get_triggerdef(oid), tgenabled = 'O' FROM pg_trigger
          WHERE NOT tgisinternal ORDER BY 1, 2`);
        return rows;
      });
    try {
      assert.deepEqual(await read(target), await read(fresh));
    } finally {
      await fresh.drop();
    }
  });

  it("refuses a target that has an instance already, and leaves it alone", async () => {
    const before = await inDatabase(target, (client) => client.query("SELECT count(*) FROM audit_log"));
    const again = await copy({ KEYWARD_DATA_DIR: folder, TARGET_DATABASE_URL: urlOf(target) });
    assert.deepEqual([again.code, again.out], [1, ""]);
    assert.match(again.err, /^The target already belongs to a Keyward\. Name an empty database\.\n$/);
    const now = await inDatabase(target, (client) => client.query("SELECT count(*) FROM audit_log"));
    assert.deepEqual(now.rows, before.rows);
  });
});

describe("a copy is refused", () => {
  const databases: TestDatabase[] = [];
  const aDatabase = async (): Promise<TestDatabase> => {
    const made = await createTestDatabase();
    databases.push(made);
    return made;
  };
  after(async () => {
    for (const database of databases) await database.drop();
    await stopOwnPostgres();
  });

  it("without a target", async () => {
    const { code, err } = await copy({});
    assert.deepEqual([code, err], [1, "TARGET_DATABASE_URL must be a URL that starts with postgres://\n"]);
  });

  it("from a folder without data, where it leaves nothing", async () => {
    const folder = mkdtempSync(join(tmpdir(), "keyward-copy-"));
    const { code, err } = await copy({
      KEYWARD_DATA_DIR: folder,
      TARGET_DATABASE_URL: "postgres://localhost",
    });
    assert.equal(code, 1);
    assert.match(err, /holds no database\. Set KEYWARD_DATA_DIR to the data folder, or DATABASE_URL\.\n$/);
    assert.deepEqual(readdirSync(folder), []);
    rmSync(folder, { recursive: true });
  });

  it("from a database where no Keyward was", async () => {
    const [source, target] = [await aDatabase(), await aDatabase()];
    const { code, err } = await copy({ DATABASE_URL: urlOf(source), TARGET_DATABASE_URL: urlOf(target) });
    assert.deepEqual([code, err], [1, "The source holds no Keyward: it was never started there.\n"]);
  });

  it("while nodes use the source, and works when they have stopped", async () => {
    const [source, target] = [await aDatabase(), await aDatabase()];
    const KEYWARD_ROOT_KEY = Buffer.alloc(32, 7).toString("base64");
    const server = await startServer({ DATABASE_URL: urlOf(source), KEYWARD_ROOT_KEY });
    const env = { DATABASE_URL: urlOf(source), TARGET_DATABASE_URL: urlOf(target) };
    try {
      const { code, err } = await copy(env);
      assert.equal(code, 1);
      assert.match(err, /^The source is in use by Keyward \(\d+ connections\)\. Stop all nodes first/);
    } finally {
      await server.stop();
    }
    const { code, err } = await copy(env);
    assert.deepEqual([code, err], [0, ""]);
  });

  it("as a whole when one row cannot be taken, or gets lost on its way", async () => {
    const source = await aDatabase();
    const KEYWARD_ROOT_KEY = Buffer.alloc(32, 7).toString("base64");
    const server = await startServer({ DATABASE_URL: urlOf(source), KEYWARD_ROOT_KEY });
    await server.stop();
    for (const [hindrance, said] of [
      ["ALTER TABLE licence_issuers ADD CONSTRAINT refused CHECK (false)", /licence_issuers/],
      [
        "CREATE RULE lost AS ON INSERT TO licence_issuers DO INSTEAD NOTHING",
        /^licence_issuers: 1 rows in the source, 0 copied\. Nothing was kept\.$/m,
      ],
    ] as const) {
      const target = await aDatabase();
      await inDatabase(target, (client) => client.query(hindrance));
      const { code, err } = await copy({ DATABASE_URL: urlOf(source), TARGET_DATABASE_URL: urlOf(target) });
      assert.equal(code, 1);
      assert.match(err, said);
      const { rows } = await inDatabase(target, (client) =>
        client.query(
          "SELECT (SELECT count(*)::int FROM root_key) AS roots, (SELECT count(*)::int FROM data_keys) AS keys, (SELECT count(*)::int FROM pg_constraint WHERE contype = 'f' AND conrelid = 'projects'::regclass) AS foreign_keys",
        ),
      );
      assert.deepEqual([rows[0].roots, rows[0].keys], [0, 0]);
      assert.ok(rows[0].foreign_keys > 0);
    }
  });
});
