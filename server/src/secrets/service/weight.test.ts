/** Many bytes in one request: done in chunks where it can be, refused before anything is loaded where it cannot. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { aProject } from "../../../test/builders.ts";
import { openTestHouse, type Answer, type TestHouse } from "../../../test/harness.ts";
import { withClient } from "../../../test/postgres.ts";
import { fullOnly } from "../../../test/full-size.ts";

let house: TestHouse;
before(async () => {
  house = await openTestHouse();
});
after(() => house.close());

const run = async (text: string, values: unknown[]): Promise<Record<string, unknown>[]> =>
  withClient(
    house.database.server,
    house.database.connection.database,
    async (client) => (await client.query(text, values)).rows as Record<string, unknown>[],
  );
const ok = (answer: Answer) => {
  assert.equal(answer.status, 200, JSON.stringify(answer.body).slice(0, 500));
  return answer.body;
};
const aFolder = (projectId: string, name: string) =>
  house.owner.post("/api/v2/folders", { projectId, environment: "dev", name });
const listed = async (projectId: string, path: string) =>
  ok(
    await house.owner.get(
      `/api/v4/secrets?projectId=${projectId}&environment=dev&secretPath=${path}&expandSecretReferences=false`,
    ),
  ).secrets as { secretKey: string; secretValue: string; version: number; tags: unknown[] }[];

test(
  "a folder is moved, a tag removed and a key rotated in chunks, however much there is",
  { skip: fullOnly },
  async () => {
    const { id: projectId } = await aProject(house.owner);
    ok(await aFolder(projectId, "big"));
    const { tag } = ok(
      await house.owner.post(`/api/v1/projects/${projectId}/tags`, { slug: "t", color: "" }),
    );
    const at = { projectId, environment: "dev", secretPath: "/big" };
    const valueOf = (n: number) => `${n} \${REF_${n}} ${"x".repeat(1_000_000)}`;
    for (let from = 0; from < 21; from += 7) {
      const secrets = Array.from({ length: 7 }, (_, n) => ({
        secretKey: `S${from + n}`,
        secretValue: valueOf(from + n),
        tagIds: [tag.id],
      }));
      ok(await house.owner.post("/api/v4/secrets/batch", { ...at, secrets }));
    }
    const check = async (path: string, version: number, tags: number) => {
      const secrets = await listed(projectId, path);
      assert.equal(secrets.length, 21);
      for (const one of secrets) {
        assert.equal(one.secretValue, valueOf(Number(one.secretKey.slice(1))));
        assert.deepEqual([one.version, one.tags.length], [version, tags]);
      }
    };
    ok(await house.owner.patch("/api/v2/folders/big", { projectId, environment: "dev", name: "large" }));
    await check("/large", 2, 1);
    ok(await house.owner.delete(`/api/v1/projects/${projectId}/tags/${tag.id}`));
    await check("/large", 3, 0);
    const mentions = "SELECT count(*)::int AS n FROM secret_references WHERE project_id = $1";
    assert.deepEqual(await run(mentions, [projectId]), [{ n: 21 }]);
    ok(await house.owner.post(`/api/v1/projects/${projectId}/keys/rotate`));
    await house.house.jobs.runDue();
    const keys = `SELECT key_id FROM secrets WHERE project_id = $1 UNION SELECT key_id FROM secret_versions WHERE project_id = $1`;
    assert.equal((await run(keys, [projectId])).length, 1);
    await check("/large", 3, 0);
  },
);

test("what would have to be loaded for one request has a bound; deleting a folder loads nothing", async () => {
  const { id: projectId } = await aProject(house.owner);
  for (const name of ["big", "other"]) ok(await aFolder(projectId, name));
  const at = { projectId, environment: "dev", secretPath: "/big" };
  const keys = Array.from({ length: 70 }, (_, n) => `S${n}`);
  const made = ok(
    await house.owner.post("/api/v4/secrets/batch", {
      ...at,
      secrets: keys.map((secretKey) => ({ secretKey, secretValue: "1" })),
    }),
  );
  const moment = house.clock.now().toISOString();
  await run("UPDATE secrets SET value = convert_to(repeat('x', 1000000), 'UTF8') WHERE project_id = $1", [
    projectId,
  ]);
  const trip = {
    projectId,
    sourceEnvironment: "dev",
    sourceSecretPath: "/big",
    destinationEnvironment: "dev",
    destinationSecretPath: "/other",
    secretIds: made.secrets.map((one: { id: string }) => one.id),
  };
  const secrets = keys.map((secretKey) => ({ secretKey, secretComment: "c" }));
  for (const answer of [
    await house.owner.patch("/api/v4/secrets/batch", { ...at, secrets }),
    await house.owner.delete("/api/v4/secrets/batch", { ...at, secrets }),
    await house.owner.post("/api/v4/secrets/move", trip),
    await house.owner.post("/api/v4/secrets/copy", trip),
    await house.owner.post(`/api/v1/projects/${projectId}/secrets/rollback`, { ...at, at: moment }),
    await house.owner.post(`/api/v1/projects/${projectId}/secrets/rollback`, {
      ...at,
      at: moment,
      dryRun: true,
    }),
  ]) {
    assert.equal(answer.status, 400, JSON.stringify(answer.body).slice(0, 300));
    assert.match(answer.body.message, /64 MiB/);
  }
  // A file is compared with the names that it holds, and with no others.
  const file = { environment: "dev", secretPath: "/big", content: "NEW=1\n" };
  const taken = ok(await house.owner.post(`/api/v1/projects/${projectId}/secrets/import`, file));
  assert.deepEqual(taken.created, ["NEW"]);
  ok(await house.owner.delete("/api/v2/folders/big", { projectId, environment: "dev", forceDelete: true }));
  assert.deepEqual(await run("SELECT 1 FROM secrets WHERE project_id = $1", [projectId]), []);
});

test("a page of versions has a bound", async () => {
  const { id: projectId } = await aProject(house.owner);
  const at = { projectId, environment: "dev" };
  const { secret } = ok(await house.owner.post("/api/v4/secrets/A", { ...at, secretValue: "1" }));
  for (let n = 2; n <= 20; n += 1)
    ok(await house.owner.patch("/api/v4/secrets/A", { ...at, secretValue: `${n}` }));
  await run(
    "UPDATE secret_versions SET value = convert_to(repeat('x', 4000000), 'UTF8') WHERE secret_id = $1 AND version < 20",
    [secret.id],
  );
  const page = (more: string) => house.owner.get(`/api/v4/secrets/id/${secret.id}/versions?${more}`);
  assert.equal((await page("limit=100")).status, 400);
  assert.equal(ok(await page("limit=1")).versions[0].secretValue, "20");
});

test("thousands of secrets are changed in one request without looking through all of them for each", async () => {
  const { id: projectId } = await aProject(house.owner);
  const at = { projectId, environment: "dev" };
  const secrets = Array.from({ length: 3000 }, (_, n) => ({ secretKey: `S${n}`, secretValue: `${n}` }));
  ok(await house.owner.post("/api/v4/secrets/batch", { ...at, secrets }));
  const changed = secrets.map(({ secretKey }) => ({ secretKey, secretValue: "new" }));
  const body = ok(await house.owner.patch("/api/v4/secrets/batch", { ...at, secrets: changed }));
  assert.equal(body.secrets.length, 3000);
  assert.ok(body.secrets.every((one: { version: number }) => one.version === 2));
});
