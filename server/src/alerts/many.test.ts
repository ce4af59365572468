// A process of its own: it measures what its process takes.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openReceiver, type Receiver } from "../../test/alert-receiver.ts";
import { aProject } from "../../test/builders.ts";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";
import { withClient } from "../../test/postgres.ts";
import { sized } from "../../test/full-size.ts";

const PATH = "/api/v1/cert-manager/alerts";
const MANY = sized(20_000, 100_000);

let house: TestHouse;
let receiver: Receiver;
before(async () => {
  receiver = await openReceiver();
  house = await openTestHouse({ env: { KEYWARD_ALLOW_PRIVATE_TARGETS: "127.0.0.0/8" } });
});
after(async () => {
  await house.close();
  await receiver.close();
});

/** Straight into the inventory, some at a time; they end a second apart, the first in a day. */
async function seed(projectId: string, from: Date): Promise<void> {
  const text = `INSERT INTO certificates (id, project_id, not_before, not_after, created_at, updated_at, source, serial_number, common_name, search_text, alt_names, key_fingerprint)
    SELECT gen_random_uuid(), $1, $2, $2::timestamptz + interval '1 day' + g * interval '1 second', $2, $2, 'issued', '41' || md5(g::text), 'host-' || g, 'host-' || g,
      '[]', decode(md5(g::text), 'hex') FROM generate_series($3::int + 1, $3::int + $4::int) g`;
  const { server, connection } = house.database;
  await withClient(server, connection.database, async (client) => {
    const part = MANY / 20;
    for (let at = 0; at < MANY; at += part) await client.query(text, [projectId, from, at, part]);
  });
}

test(`${MANY.toLocaleString("en")} certificates due at once are one message that says so`, async (t) => {
  const projectId = (await aProject(house.owner, { type: "cert-manager" })).id;
  await seed(projectId, house.clock.now());
  const made = await house.owner.post(PATH, {
    name: "all",
    eventType: "expiration",
    alertBefore: "30d",
    filters: [{ field: "common_name", operator: "starts_with", value: "host-" }],
    channels: [{ config: { url: `${receiver.url}/in` } }],
    projectId,
  });
  assert.equal(made.status, 200, JSON.stringify(made.body));
  const { id } = made.body.alert;
  let peak = 0;
  const watch = setInterval(() => (peak = Math.max(peak, process.memoryUsage().rss)), 50);
  const [memory, began] = [process.memoryUsage().rss, performance.now()];
  await house.house.alertWork.runNow();
  clearInterval(watch);
  const growth = (peak - memory) / 2 ** 20;
  t.diagnostic(
    `${((performance.now() - began) / 1000).toFixed(1)} s, ${growth.toFixed(0)} MiB more than before`,
  );
  assert.equal(receiver.received.length, 1);
  const { certificates, metadata } = receiver.received[0]?.json.data ?? {};
  assert.equal(metadata.totalCertificates, MANY);
  assert.deepEqual(
    certificates.map((one: { commonName: string }) => one.commonName),
    Array.from({ length: 20 }, (_, index) => `host-${index + 1}`),
  );
  // All of them in memory at once would be several times that.
  assert.ok(growth < 160, `${growth} MiB`);
  const { alert } = (await house.owner.get(`${PATH}/${id}`)).body;
  assert.deepEqual([alert.lastRun.status, alert.lastRun.error], ["success", null]);
  const { deliveries, total } = (await house.owner.get(`${PATH}/${id}/deliveries`)).body;
  assert.deepEqual([total, deliveries[0].totalCertificates, deliveries[0].status], [1, MANY, "delivered"]);
  assert.equal(alert.lastRun.timestamp, deliveries[0].lastAttemptAt);
  await house.house.alertWork.runNow();
  assert.equal(receiver.received.length, 1, "and never again");
});
