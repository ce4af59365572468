import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, test } from "node:test";
import { aProject } from "../../test/builders.ts";
import { clientOf, openTestHouse, type TestHouse } from "../../test/harness.ts";
import { createTestDatabase } from "../../test/postgres.ts";
import { openHouse } from "../house.ts";
import { systemClock } from "../platform/clock.ts";
import { readConfig } from "../platform/config.ts";
import { silentLog } from "../platform/log.ts";
import { redact } from "../platform/redacted.ts";

let house: TestHouse;
before(async () => {
  house = await openTestHouse();
});
after(() => house.close());

const query = async (text: string, values: unknown[]) => {
  const client = await house.house.database.connect();
  const { rows } = await client.query(text, values);
  await client.end();
  return rows as Record<string, unknown>[];
};

test("a project's key is changed while its secrets stay readable, history and deleted ones included", async () => {
  const { id: projectId } = await aProject(house.owner);
  const at = { projectId, environment: "dev" };
  const { secret } = (
    await house.owner.post("/api/v4/secrets/A", {
      ...at,
      secretValue: "one",
      secretComment: "c",
      secretMetadata: [{ key: "k", value: "m", isEncrypted: true }],
    })
  ).body;
  await house.owner.patch("/api/v4/secrets/A", { ...at, secretValue: "two" });
  const gone = (await house.owner.post("/api/v4/secrets/GONE", { ...at, secretValue: "gone" })).body.secret;
  await house.owner.delete("/api/v4/secrets/GONE", at);
  const started = await house.owner.post(`/api/v1/projects/${projectId}/keys/rotate`);
  assert.equal(started.status, 200, JSON.stringify(started.body));
  await house.owner.post("/api/v4/secrets/NEW", { ...at, secretValue: "new" });
  const check = async () => {
    const list = (await house.owner.get(`/api/v4/secrets?projectId=${projectId}&environment=dev`)).body
      .secrets;
    assert.deepEqual(
      list.map((s: { secretKey: string; secretValue: string }) => `${s.secretKey}=${s.secretValue}`),
      ["A=two", "NEW=new"],
    );
    assert.equal(list[0].secretMetadata[0].value, "m");
    const history = (await house.owner.get(`/api/v4/secrets/id/${secret.id}/versions`)).body.versions;
    assert.deepEqual(
      history.map((v: { secretValue: string }) => v.secretValue),
      ["two", "one"],
    );
    assert.equal(
      (await house.owner.get(`/api/v4/secrets/id/${gone.id}/versions`)).body.versions[1].secretValue,
      "gone",
    );
  };
  const keys = async () =>
    (
      await query(
        "SELECT key_id FROM secrets WHERE project_id = $1 UNION SELECT key_id FROM secret_versions WHERE project_id = $1",
        [projectId],
      )
    ).length;
  await check();
  assert.equal(await keys(), 2);
  assert.ok((await house.house.jobs.runDue()).includes("secrets.key-rotation"));
  await check();
  assert.equal(await keys(), 1);
  const state = async () =>
    (await house.owner.get(`/api/v1/projects/${projectId}/keys/rotations`)).body.rotations[0].finishedAt;
  assert.equal(await state(), null);
  house.clock.advance(20_000);
  assert.ok((await house.house.jobs.runDue()).includes("secrets.key-rotation"));
  assert.equal(await state(), null, "a node that has not heard of it may still write with the old key");
  house.clock.advance(160_000);
  await house.house.jobs.runDue();
  assert.ok(await state());
});

test("the root key is changed at a start that knows the previous one, and then the previous one is worth nothing", async () => {
  const database = await createTestDatabase();
  const [oldKey, newKey] = [randomBytes(32), randomBytes(32)];
  const open = (rootKey: Buffer, previous?: Buffer) => {
    const env = {
      PORT: "0",
      DATABASE_URL: "postgres://unused",
      KEYWARD_ROOT_KEY: rootKey.toString("base64"),
      ...(previous ? { KEYWARD_ROOT_KEY_PREVIOUS: previous.toString("base64") } : {}),
    };
    return openHouse({
      config: readConfig(env),
      clock: systemClock,
      log: silentLog,
      connection: database.connection,
      rootKey: redact(rootKey),
    });
  };
  const first = await open(oldKey);
  const base = `http://127.0.0.1:${await first.listen()}`;
  const booted = await clientOf(base).post("/api/v1/admin/bootstrap", {
    email: "a@example.com",
    password: "a long enough password",
    organization: "A",
  });
  const { token } = booted.body.identity.credentials;
  const { id: projectId } = await aProject(clientOf(base, token));
  await clientOf(base, token).post("/api/v4/secrets/A", {
    projectId,
    environment: "dev",
    secretValue: "kept",
  });
  await first.close();
  await assert.rejects(open(newKey), /root key/);
  const read = async (rootKey: Buffer, previous?: Buffer) => {
    const next = await open(rootKey, previous);
    const answer = await clientOf(`http://127.0.0.1:${await next.listen()}`, token).get(
      `/api/v4/secrets/A?projectId=${projectId}&environment=dev`,
    );
    await next.close();
    return answer.body.secret?.secretValue;
  };
  assert.equal(await read(newKey, oldKey), "kept");
  assert.equal(await read(newKey), "kept");
  await assert.rejects(open(oldKey), /root key/);
  await database.drop();
});

test("S-57 a ciphertext opens only as what it was: not as another version, column, secret or project", async () => {
  const [one, two] = [await aProject(house.owner), await aProject(house.owner)];
  const put = (projectId: string, key: string, secretValue: string) =>
    house.owner.post(`/api/v4/secrets/${key}`, {
      projectId,
      environment: "dev",
      secretValue,
      secretComment: "comment",
      secretMetadata: [{ key: "m", value: "meta", isEncrypted: true }],
    });
  for (const key of ["A", "B"]) await put(one.id, key, "same text");
  await put(two.id, "A", "same text");
  await house.owner.patch("/api/v4/secrets/A", {
    projectId: one.id,
    environment: "dev",
    secretComment: "c2",
  });
  const boxes = await query(
    "SELECT encode(value, 'hex') AS v FROM secret_versions WHERE project_id = ANY($1) AND value IS NOT NULL",
    [[one.id, two.id]],
  );
  assert.equal(
    new Set(boxes.map((row) => row["v"])).size,
    boxes.length,
    "the same text never looks the same",
  );
  const read = async () => {
    // A change made directly in SQL does not raise the revision; without this a cached answer would be right.
    await query("UPDATE project_changes SET counter = counter + 1 WHERE project_id = $1", [one.id]);
    return (await house.owner.get(`/api/v4/secrets/A?projectId=${one.id}&environment=dev`)).status;
  };
  assert.equal(await read(), 200);
  const swaps = [
    "value = (SELECT value FROM secrets WHERE project_id = $1 AND key = 'B')",
    "value = (SELECT value FROM secrets WHERE project_id = $2 AND key = 'A')",
    "value = comment",
    "comment = value",
    "value = (SELECT v.value FROM secret_versions v WHERE v.secret_id = secrets.id AND v.version = 1)",
    "version = 1",
    "key_id = (SELECT key_id FROM secrets WHERE project_id = $2 AND key = 'A')",
    "value = set_byte(value, length(value) - 1, get_byte(value, length(value) - 1) # 1)",
    "metadata = jsonb_set(metadata, '{0,value}', to_jsonb(encode(value, 'base64')))",
  ];
  await query(`CREATE TABLE kept AS SELECT * FROM secrets WHERE project_id = '${one.id}' AND key = 'A'`, []);
  for (const swap of swaps) {
    await query(`UPDATE secrets SET ${swap} WHERE project_id = $1 AND key = 'A' AND $2::uuid IS NOT NULL`, [
      one.id,
      two.id,
    ]);
    assert.equal(await read(), 500, swap);
    await query(
      `UPDATE secrets s SET value = k.value, comment = k.comment, metadata = k.metadata, version = k.version, key_id = k.key_id
       FROM kept k WHERE k.id = s.id AND $1::uuid IS NOT NULL`,
      [one.id],
    );
    assert.equal(await read(), 200, `put right again after ${swap}`);
  }
  await query("DROP TABLE kept", []);
});
