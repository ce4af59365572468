/** KEYWARD_AUDIT_READS, each of its modes: strict, async, grouped, off. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, test } from "node:test";
import { aProject, anIdentity, until } from "../../test/builders.ts";
import { clientOf, openTestHouse, OWNER, type Answer, type Client } from "../../test/harness.ts";
import { createTestDatabase, stopOwnPostgres, withClient, type TestDatabase } from "../../test/postgres.ts";
import { startServer } from "../../test/process.ts";

after(stopOwnPostgres);

const requestOf = (answer: Answer) => answer.headers.get("x-request-id") ?? "";
const eventsOf = (database: TestDatabase, requestIds: readonly string[]): Promise<string[]> =>
  withClient(database.server, database.connection.database, async (client) => {
    const { rows } = await client.query(
      "SELECT event FROM audit_log WHERE request_id = ANY($1) ORDER BY event",
      [requestIds],
    );
    return rows.map((row: { event: string }) => row.event);
  });

/** Every way to a value: one, by id, a list, a list from memory, an export, a version, the older API. */
async function readings(client: Client, projectId: string): Promise<Answer[]> {
  const at = `projectId=${projectId}&environment=dev`;
  const made = await client.post("/api/v4/secrets/A", { projectId, environment: "dev", secretValue: "1" });
  const { id } = made.body.secret as { id: string };
  const paths = [
    `/api/v4/secrets/A?${at}`,
    `/api/v3/secrets/raw/id/${id}`,
    `/api/v4/secrets?${at}`,
    `/api/v4/secrets?${at}`,
    `/api/v1/projects/${projectId}/secrets/export?environment=dev`,
    `/api/v4/secrets/id/${id}/versions`,
    `/api/v3/secrets/raw?workspaceId=${projectId}&environment=dev`,
    `/api/v3/secrets/raw/A?workspaceId=${projectId}&environment=dev`,
  ];
  const answers: Answer[] = [];
  for (const path of paths) {
    const answer = await client.get(path);
    assert.equal(answer.status, 200, `${path}: ${JSON.stringify(answer.body)}`);
    answers.push(answer);
  }
  return answers;
}
const EXPECTED = [
  "get-secret",
  "get-secret",
  "get-secret",
  "get-secret-versions",
  "get-secrets",
  "get-secrets",
  "get-secrets",
  "get-secrets",
];

test("S-53 strict: a value is answered only once its reading is durable, the hundredth as the first", async () => {
  const house = await openTestHouse({ env: { KEYWARD_AUDIT_READS: "strict" } });
  const { id: projectId } = await aProject(house.owner);
  const answers = await readings(house.owner, projectId);
  assert.deepEqual(await eventsOf(house.database, answers.map(requestOf)), EXPECTED);
  const read = async () => {
    const answer = await house.owner.get(`/api/v4/secrets?projectId=${projectId}&environment=dev`);
    return (await eventsOf(house.database, [requestOf(answer)])).length;
  };
  assert.deepEqual(
    await Promise.all(Array.from({ length: 20 }, read)),
    Array.from({ length: 20 }, () => 1),
  );
  await house.close();
});

test("S-53 strict: a read that cannot be audited gives no value away", async () => {
  const house = await openTestHouse({ env: { KEYWARD_AUDIT_READS: "strict" } });
  const { id: projectId } = await aProject(house.owner);
  await house.owner.post("/api/v4/secrets/A", { projectId, environment: "dev", secretValue: "canary-value" });
  await withClient(house.database.server, house.database.connection.database, (client) =>
    client.query(`
      CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'full'; END $$;
      CREATE TRIGGER refuse BEFORE INSERT ON audit_log FOR EACH ROW WHEN (NEW.event LIKE 'get-secret%') EXECUTE FUNCTION refuse()`),
  );
  for (const path of ["/api/v4/secrets/A?", "/api/v4/secrets?"]) {
    const answer = await house.owner.get(`${path}projectId=${projectId}&environment=dev`);
    assert.ok(answer.status >= 500, String(answer.status));
    assert.ok(!JSON.stringify(answer.body).includes("canary-value"));
  }
  await house.close();
});

test("async: a reading is in the audit log within a second, without anybody asking", async () => {
  const house = await openTestHouse({ env: { KEYWARD_AUDIT_READS: "async" } });
  const { id: projectId } = await aProject(house.owner);
  const ids = (await readings(house.owner, projectId)).map(requestOf);
  // A second is promised; what a busy machine adds is not counted against it.
  await until(async () => (await eventsOf(house.database, ids)).length === ids.length, 20_000);
  assert.deepEqual(await eventsOf(house.database, ids), EXPECTED);
  await house.close();
});

test("P-03 grouped: what one reader reads again within a minute is one row that says how often", async () => {
  const house = await openTestHouse({ env: { KEYWARD_AUDIT_READS: "grouped" } });
  const { id: projectId } = await aProject(house.owner);
  const other = await anIdentity(house.owner, house.base, projectId, { roles: [{ role: "admin" }] });
  for (const name of ["A", "B"])
    await house.owner.post(`/api/v4/secrets/${name}`, { projectId, environment: "dev", secretValue: "1" });
  const read = async (client: Client, name: string, times: number) => {
    for (let n = 0; n < times; n += 1)
      assert.equal(
        (await client.get(`/api/v4/secrets/${name}?projectId=${projectId}&environment=dev`)).status,
        200,
      );
  };
  const rows = async () => {
    await house.house.secrets.flush();
    const path = `/api/v1/organization/audit-logs?projectId=${projectId}&eventType=get-secret`;
    const { auditLogs } = (await house.owner.get(path)).body as {
      auditLogs: { event: { metadata: Record<"secretKey" | "count" | "firstAt" | "lastAt", string> } }[];
    };
    return auditLogs.map(({ event: { metadata } }) => metadata);
  };
  const counts = async () => (await rows()).map(({ secretKey, count }) => `${secretKey} ${count}`).sort();
  await read(house.owner, "A", 3);
  house.clock.advance(20_000);
  await read(house.owner, "A", 4);
  await read(house.owner, "B", 1);
  await read(other.client, "A", 2);
  assert.deepEqual(await counts(), ["A 2", "A 7", "B 1"], "another secret or another reader is another row");
  const seven = (await rows()).find(({ count }) => Number(count) === 7);
  assert.ok(Date.parse(seven?.lastAt ?? "") - Date.parse(seven?.firstAt ?? "") >= 20_000);
  await read(house.owner, "B", 1);
  house.clock.advance(61_000);
  await read(house.owner, "B", 1);
  assert.deepEqual(await counts(), ["A 2", "A 7", "B 1", "B 1", "B 1"], "another minute is another row");
  await house.close();
});

test("off: readings leave no rows, changes still do", async () => {
  const house = await openTestHouse({ env: { KEYWARD_AUDIT_READS: "off" } });
  const { id: projectId } = await aProject(house.owner);
  const ids = (await readings(house.owner, projectId)).map(requestOf);
  const changed = await house.owner.patch("/api/v4/secrets/A", {
    projectId,
    environment: "dev",
    secretValue: "2",
  });
  await house.house.secrets.flush();
  assert.deepEqual(await eventsOf(house.database, [...ids, requestOf(changed)]), ["update-secret"]);
  await house.close();
});

for (const [mode, rows] of [
  ["async", 30],
  ["grouped", 1],
] as const)
  test(`${mode}: what was read right before a stop is in the audit log after it`, async () => {
    const database = await createTestDatabase();
    const { host, port, user } = database.server;
    const server = await startServer({
      DATABASE_URL: `postgres://${user}@localhost:${port}/${database.connection.database}?host=${encodeURIComponent(host)}&sslmode=disable`,
      KEYWARD_ROOT_KEY: randomBytes(32).toString("base64"),
      KEYWARD_AUDIT_READS: mode,
    });
    const booted = await clientOf(server.base).post("/api/v1/admin/bootstrap", {
      ...OWNER,
      organization: "A",
    });
    const owner = clientOf(server.base, booted.body.identity.credentials.token as string);
    const { id: projectId } = await aProject(owner);
    await owner.post("/api/v4/secrets/A", { projectId, environment: "dev", secretValue: "1" });
    const answers = await Promise.all(
      Array.from({ length: 30 }, () => owner.get(`/api/v4/secrets/A?projectId=${projectId}&environment=dev`)),
    );
    assert.equal(await server.stop(), 0);
    const seen = await eventsOf(database, answers.map(requestOf));
    assert.deepEqual(
      seen,
      Array.from({ length: rows }, () => "get-secret"),
    );
    await database.drop();
  });

test("a 304 opens nothing: it is given also where the value can no longer be decrypted", async () => {
  const house = await openTestHouse();
  const { id: projectId } = await aProject(house.owner);
  await house.owner.post("/api/v4/secrets/A", { projectId, environment: "dev", secretValue: "1" });
  const paths = ["/api/v4/secrets/A?", "/api/v4/secrets?recursive=true&"].map(
    (path) => `${path}projectId=${projectId}&environment=dev`,
  );
  const tags: string[] = [];
  for (const path of paths) tags.push((await house.owner.get(path)).headers.get("etag") ?? "");
  await withClient(house.database.server, house.database.connection.database, (client) =>
    client.query("UPDATE secrets SET value = '\\x00' WHERE project_id = $1", [projectId]),
  );
  for (const [at, path] of paths.entries()) {
    const held = await house.owner.get(path, { headers: { "if-none-match": tags[at] ?? "" } });
    assert.equal(held.status, 304, path);
  }
  await withClient(house.database.server, house.database.connection.database, (client) =>
    client.query("UPDATE project_changes SET counter = counter + 1 WHERE project_id = $1", [projectId]),
  );
  for (const [at, path] of paths.entries()) {
    const anew = await house.owner.get(path, { headers: { "if-none-match": tags[at] ?? "" } });
    assert.equal(anew.status, 500, "whoever wants the value sees the damage");
  }
  await house.close();
});
