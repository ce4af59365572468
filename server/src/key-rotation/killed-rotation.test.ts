/**
 * A change of keys that is killed in the middle, as a real process with a real SIGKILL: at any moment every secret can
 * be read, the next start goes on, and in the end nothing is left under the old key.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { fileURLToPath } from "node:url";
import { after, before, test } from "node:test";
import { aProject, until } from "../../test/builders.ts";
import { clientOf, OWNER, type Client } from "../../test/harness.ts";
import { createTestDatabase, stopOwnPostgres, withClient, type TestDatabase } from "../../test/postgres.ts";
import { failToStart, startServer } from "../../test/process.ts";

const MAIN = fileURLToPath(new URL("../main.js", import.meta.url));
const FOLDERS = 4;
const PER_FOLDER = 150;
const PATIENCE_MS = 120_000;
let database: TestDatabase;
let rootKey = randomBytes(32);
let token = "";
let projectId = "";

before(async () => {
  database = await createTestDatabase();
});
after(async () => {
  await database.drop();
  await stopOwnPostgres();
});

function environment(more: Record<string, string> = {}): Record<string, string> {
  const { host, port, user } = database.server;
  return {
    DATABASE_URL: `postgres://${user}@localhost:${port}/${database.connection.database}?host=${encodeURIComponent(host)}&sslmode=disable`,
    KEYWARD_ROOT_KEY: rootKey.toString("base64"),
    KEYWARD_RATE_LIMIT_READ: "0",
    KEYWARD_RATE_LIMIT_WRITE: "0",
    ...more,
  };
}
const query = (text: string, values: unknown[] = []) =>
  withClient(
    database.server,
    database.connection.database,
    async (client) => (await client.query(text, values)).rows as Record<string, unknown>[],
  );
const pathOf = (folder: number) => `/f${folder}`;
const valueOf = (folder: number, n: number, version: number) => `value ${folder}.${n}.${version}`;

/** How many rows, newest and history, name which data key. */
const underOldKey = async (oldKeyId: string): Promise<number> => {
  const [row] = await query(
    `SELECT (SELECT count(*) FROM secrets WHERE project_id = $1 AND key_id = $2)
      + (SELECT count(*) FROM secret_versions WHERE project_id = $1 AND key_id = $2) AS n`,
    [projectId, oldKeyId],
  );
  return Number(row?.["n"]);
};

async function fill(client: Client): Promise<void> {
  projectId = (await aProject(client)).id;
  for (let folder = 0; folder < FOLDERS; folder += 1) {
    await client.post("/api/v2/folders", { projectId, environment: "dev", name: pathOf(folder).slice(1) });
    const batch = (version: number) => ({
      projectId,
      environment: "dev",
      secretPath: pathOf(folder),
      secrets: Array.from({ length: PER_FOLDER }, (_, n) => ({
        secretKey: `K${n}`,
        secretValue: valueOf(folder, n, version),
        secretComment: `comment ${version}`,
        secretMetadata: [{ key: "m", value: `${folder}.${n}`, isEncrypted: true }],
      })),
    });
    assert.equal((await client.post("/api/v4/secrets/batch", batch(1))).status, 200);
    assert.equal((await client.patch("/api/v4/secrets/batch", batch(2))).status, 200);
  }
}

/** Every secret as it is, and a sample of what each was. */
async function readAll(client: Client): Promise<void> {
  for (let folder = 0; folder < FOLDERS; folder += 1) {
    const { status, body } = await client.get(
      `/api/v4/secrets?projectId=${projectId}&environment=dev&secretPath=${pathOf(folder)}`,
    );
    assert.equal(status, 200, JSON.stringify(body));
    const values = new Map<string, Record<string, unknown>>(
      body.secrets.map((secret: { secretKey: string }) => [secret.secretKey, secret]),
    );
    assert.equal(values.size, PER_FOLDER);
    for (let n = 0; n < PER_FOLDER; n += 1) {
      const secret = values.get(`K${n}`);
      assert.equal(secret?.["secretValue"], valueOf(folder, n, 2));
      assert.equal(secret?.["secretComment"], "comment 2");
      assert.equal((secret?.["secretMetadata"] as { value: string }[])[0]?.value, `${folder}.${n}`);
    }
    for (const n of [0, 7, PER_FOLDER - 1]) {
      const id = values.get(`K${n}`)?.["id"] as string;
      const history = await client.get(`/api/v4/secrets/id/${id}/versions`);
      assert.equal(history.status, 200, JSON.stringify(history.body));
      assert.deepEqual(
        history.body.versions.map((version: { secretValue: string }) => version.secretValue),
        [valueOf(folder, n, 2), valueOf(folder, n, 1)],
      );
    }
  }
}

/** Somebody's lock stops the work at a row of our choice, in the middle of a transaction, for as long as `meanwhile` lasts. */
async function stoppedAt(
  lock: { readonly text: string; readonly values: readonly unknown[] },
  start: () => Promise<void>,
  meanwhile: () => Promise<void>,
): Promise<void> {
  await withClient(database.server, database.connection.database, async (client) => {
    await client.query("BEGIN");
    await client.query(lock.text, [...lock.values]);
    await start();
    await until(async () => {
      const [row] = await query(
        "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
      );
      return Number(row?.["n"]) > 0;
    }, PATIENCE_MS);
    await meanwhile();
    await client.query("ROLLBACK");
  });
}

/** As if the dead node's lease had run out and the job were due: a process has no clock that a test could step. */
const hurry = () =>
  query(
    "UPDATE jobs SET leased_until = NULL, next_at = now() - interval '1 day' WHERE name = 'secrets.key-rotation'",
  );

/** Nobody's turn: another node seems to be at it. */
const postpone = () =>
  query(
    "UPDATE jobs SET leased_until = now() + interval '4 minutes', leased_by = gen_random_uuid() WHERE name = 'secrets.key-rotation'",
  );

test("R-11 a project's key change that is killed again and again is finished by those who come after", async () => {
  let server = await startServer(environment());
  const booted = await clientOf(server.base).post("/api/v1/admin/bootstrap", {
    ...OWNER,
    organization: "A",
  });
  token = booted.body.identity.credentials.token as string;
  await postpone();
  await fill(clientOf(server.base, token));
  await postpone();
  const started = await clientOf(server.base, token).post(`/api/v1/projects/${projectId}/keys/rotate`);
  assert.equal(started.status, 200, JSON.stringify(started.body));
  const [rotation] = await query("SELECT old_key_id FROM key_rotations WHERE project_id = $1", [projectId]);
  const oldKeyId = rotation?.["old_key_id"] as string;
  await server.kill();
  // Chosen inside: a row that is skipped on the way would be locked as well.
  const text = `SELECT 1 FROM secret_versions WHERE (secret_id, version) =
    (SELECT secret_id, version FROM secret_versions WHERE project_id = $1 AND key_id = $2
     ORDER BY folder_id, created_at, secret_id OFFSET 10 LIMIT 1) FOR UPDATE`;
  let left = await underOldKey(oldKeyId);
  for (let kill = 1; kill <= 2; kill += 1) {
    // Started before the lock is taken: a start waits for open transactions.
    await postpone();
    server = await startServer(environment());
    await stoppedAt(
      { text, values: [projectId, oldKeyId] },
      async () => void (await hurry()),
      async () => {
        await readAll(clientOf(server.base, token));
        await server.kill();
      },
    );
    const now = await underOldKey(oldKeyId);
    assert.ok(now > 0 && now < left, `in the middle: ${now} of ${left} are left`);
    left = now;
  }
  await hurry();
  server = await startServer(environment());
  await readAll(clientOf(server.base, token));
  await until(async () => (await underOldKey(oldKeyId)) === 0, PATIENCE_MS);
  // Other nodes are given two minutes to hear of the new key; here they have passed.
  await query("UPDATE key_rotations SET started_at = started_at - interval '1 hour' WHERE project_id = $1", [
    projectId,
  ]);
  await until(async () => {
    await hurry();
    const [row] = await query("SELECT finished_at FROM key_rotations WHERE project_id = $1", [projectId]);
    return row?.["finished_at"] !== null;
  }, PATIENCE_MS);
  const keys = await query(
    "SELECT DISTINCT key_id FROM (SELECT key_id FROM secrets WHERE project_id = $1 UNION ALL SELECT key_id FROM secret_versions WHERE project_id = $1) k",
    [projectId],
  );
  const [active] = await query("SELECT id FROM data_keys WHERE project_id = $1 AND retired_at IS NULL", [
    projectId,
  ]);
  assert.deepEqual(
    keys.map((row) => row["key_id"]),
    [active?.["id"]],
  );
  await readAll(clientOf(server.base, token));
  assert.equal(await server.stop(), 0);
});

test("R-11 a root key change that is killed at any moment leaves a database that one of the two keys opens", async () => {
  const newKey = randomBytes(32);
  const [oldText, newText] = [rootKey.toString("base64"), newKey.toString("base64")];
  const wrapped = async () =>
    (
      await query("SELECT id, encode(wrapped, 'hex') AS w FROM data_keys WHERE parent_id IS NULL ORDER BY id")
    ).map((row) => row["w"] as string);
  const before = await wrapped();
  // Once at the very end of the change, when every key is wrapped anew and only the word that says so is missing; and
  // at moments that come as they come.
  const launch = () =>
    spawn(process.execPath, [MAIN], {
      env: {
        PATH: process.env["PATH"] ?? "",
        PORT: "0",
        ...environment({ KEYWARD_ROOT_KEY: newText, KEYWARD_ROOT_KEY_PREVIOUS: oldText }),
      },
      stdio: "ignore",
    });
  const end = async (child: ReturnType<typeof launch>): Promise<void> => {
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await gone;
  };
  let child: ReturnType<typeof launch> | undefined;
  await stoppedAt(
    { text: "SELECT 1 FROM root_key FOR UPDATE", values: [] },
    async () => {
      child = launch();
    },
    async () => {
      if (child) await end(child);
    },
  );
  assert.deepEqual(await wrapped(), before, "killed before its commit, nothing was changed");
  for (const delay of [100, 400, 900]) {
    const other = launch();
    await new Promise((resolve) => setTimeout(resolve, delay));
    await end(other);
    const now = await wrapped();
    const changed = now.filter((text, at) => text !== before[at]).length;
    assert.ok(changed === 0 || changed === before.length, "all keys are wrapped anew, or none");
  }
  rootKey = newKey;
  const both = await startServer(environment({ KEYWARD_ROOT_KEY_PREVIOUS: oldText }));
  await readAll(clientOf(both.base, token));
  assert.equal(await both.stop(), 0);
  const alone = await startServer(environment());
  await readAll(clientOf(alone.base, token));
  assert.equal(await alone.stop(), 0);
  const refused = await failToStart(environment({ KEYWARD_ROOT_KEY: oldText }));
  assert.notEqual(refused.code, 0);
  assert.match(refused.errors, /root key/);
});
