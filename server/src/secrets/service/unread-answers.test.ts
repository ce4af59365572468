/** Answers that are made and not read count for their organisation, for as long as they are held and no longer. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import { after, before, test } from "node:test";
import { aProject, anIdentity, until } from "../../../test/builders.ts";
import { openTestHouse, type Tenant, type TestHouse } from "../../../test/harness.ts";
import { withClient } from "../../../test/postgres.ts";
import { refuseUnread, streamOfOne, unreadBytes } from "./large-answers.ts";

let house: TestHouse;
before(async () => {
  house = await openTestHouse();
});
after(() => house.close());

const MIB = 1024 * 1024;

async function large(tenant: Tenant): Promise<string> {
  const { id: projectId } = await aProject(tenant);
  for (let n = 0; n < 6; n += 1) {
    const secrets = Array.from({ length: 20 }, (_none, i) => ({
      secretKey: `K${n}_${i}`,
      secretValue: randomBytes(30_000).toString("base64"),
    }));
    const at = { projectId, environment: "dev", secretPath: "/" };
    assert.equal((await tenant.post("/api/v4/secrets/batch", { ...at, secrets })).status, 200);
  }
  return projectId;
}

test("a caller that disconnects before the answer leaves nothing that counts", async () => {
  const tenant = await house.newTenant();
  const id = await large(tenant);
  const headers = { authorization: `Bearer ${tenant.token}`, "content-type": "application/json" };
  const body = JSON.stringify({ passphrase: "correct horse battery" });
  const ways: Record<string, (signal: AbortSignal) => Promise<Response>> = {
    export: (signal) =>
      fetch(`${house.base}/api/v1/projects/${id}/export`, { method: "POST", headers, body, signal }),
    list: (signal) =>
      fetch(`${house.base}/api/v4/secrets?projectId=${id}&environment=dev`, { headers, signal }),
    file: (signal) =>
      fetch(`${house.base}/api/v1/projects/${id}/secrets/export?environment=dev`, { headers, signal }),
  };
  for (const ask of Object.values(ways)) {
    await (await ask(AbortSignal.timeout(60_000))).arrayBuffer();
    for (const ms of [2, 5, 10, 20, 50, 100, 200]) {
      const caller = new AbortController();
      const asked = ask(caller.signal).catch(() => undefined);
      await wait(ms);
      caller.abort();
      await asked;
    }
    // The last of them is made after its caller has gone; this one comes after it in the organisation's turns.
    await (await ask(AbortSignal.timeout(60_000))).arrayBuffer();
    await until(async () => unreadBytes(tenant.orgId) === 0, 15_000);
  }
});

test("a file that is read up to its last pieces counts as a whole: all of it is still held", async () => {
  const orgId = "a reader that stops before the end";
  const held = [];
  for (let n = 0; n < 6; n += 1) {
    const stream = streamOfOne(orgId, Buffer.alloc(47 * MIB));
    let size = 0;
    for await (const chunk of stream.iterator({ destroyOnReturn: false })) {
      const { buffer, length } = chunk as Buffer;
      assert.ok(buffer.byteLength <= MIB, "what is on the wire holds no more than itself");
      size += length;
      if (size >= 45 * MIB) break;
    }
    held.push(stream);
  }
  assert.throws(() => refuseUnread(orgId), { status: 429 });
  for (const stream of held) stream.destroy();
  await until(async () => unreadBytes(orgId) === 0, 15_000);
});

test("a file comes whole", async () => {
  const file = randomBytes(3 * MIB + 17);
  const parts: Buffer[] = [];
  for await (const chunk of streamOfOne("whole", file)) parts.push(chunk as Buffer);
  assert.ok(Buffer.concat(parts).equals(file));
  assert.equal(unreadBytes("whole"), 0);
});

test("a caller who loses the right while a large list waits for its turn does not get it", async () => {
  const tenant = await house.newTenant();
  const id = await large(tenant);
  const reader = await anIdentity(tenant, house.base, id, { roles: [{ role: "admin" }] });
  const list = () => reader.client.get(`/api/v4/secrets?projectId=${id}&environment=dev`);
  assert.equal((await list()).status, 200);
  const { server, connection } = house.database;
  const statuses = await withClient(server, connection.database, async (client) => {
    // The first of them is held up where it reads, the others wait behind it for their turn.
    await client.query("BEGIN");
    await client.query("LOCK TABLE secrets IN ACCESS EXCLUSIVE MODE");
    const crowd = Array.from({ length: 10 }, async () => (await list()).status);
    const held =
      "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    await until(async () => (await client.query(held)).rows.length > 0, 15_000);
    // So long that the door asks once more who it is before it sends anything.
    await wait(1500);
    assert.equal((await tenant.delete(`/api/v1/projects/${id}/identities/${reader.id}`)).status, 200);
    await client.query("COMMIT");
    return Promise.all(crowd);
  });
  assert.ok(statuses.filter((status) => status === 200).length <= 1, String(statuses));
  await until(async () => unreadBytes(tenant.orgId) === 0, 15_000);
});
