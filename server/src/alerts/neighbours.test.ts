/** H4: one tenant's alerts and certificates, however many, do not delay others' notifications. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { inventory } from "../../test/alert-receiver.ts";
import { aProject } from "../../test/builders.ts";
import { openTestHouse, type Tenant, type TestHouse } from "../../test/harness.ts";
import { createPendingNotices } from "./notices/service.ts";

const PATH = "/api/v1/cert-manager/alerts";
const DAY = 86_400_000;

describe("H4 alerts of many tenants", () => {
  let house: TestHouse;
  before(async () => {
    house = await openTestHouse({ start: new Date("2026-05-10T10:00:00Z") });
  });
  after(() => house.close());

  const sql = <Row>(text: string, values: unknown[] = []): Promise<Row[]> =>
    house.house.database.write((tx) => tx.rows<Row>({ name: undefined, isSlow: true, text }, values), {
      audited: false,
    });
  const aWatch = async (tenant: Tenant, more: Record<string, unknown> = {}, copies = 0) => {
    const projectId = (await aProject(tenant, { type: "cert-manager" })).id;
    const made = await tenant.post(PATH, {
      name: "watch",
      eventType: "issuance",
      filters: [],
      channels: [{ config: { recipients: ["ops@example.com"] } }],
      projectId,
      ...more,
    });
    assert.equal(made.status, 200, JSON.stringify(made.body));
    if (copies > 0)
      await sql(
        `WITH copies AS (
           INSERT INTO alerts SELECT gen_random_uuid(), org_id, project_id, application_id, name, description, event_type, alert_before, filters,
             enabled, is_daily, digest, looked_at, gathered_at, created_at, updated_at FROM alerts, generate_series(1, $2) WHERE project_id = $1 RETURNING id)
         INSERT INTO alert_channels SELECT gen_random_uuid(), copies.id, c.position, c.channel_type, c.enabled, c.destination, c.data_key_id, c.settings, c.created_at, c.updated_at
         FROM copies, alert_channels c JOIN alerts a ON a.id = c.alert_id WHERE a.project_id = $1`,
        [projectId, copies],
      );
    return projectId;
  };
  const issue = async (tenant: Tenant, projectId: string, count: number, days = 90) => {
    const store = inventory(house.house.database, tenant.orgId);
    const wish = {
      projectId,
      notBefore: house.clock.now(),
      notAfter: new Date(house.clock.millis() + days * DAY),
    };
    for (let done = 0; done < count; done += 20)
      await Promise.all(Array.from({ length: Math.min(20, count - done) }, () => store.issue(wish)));
  };
  const messages = (projectId: string) =>
    sql<{ total: number }>(
      `SELECT m.total FROM alert_messages m JOIN alerts a ON a.id = m.alert_id WHERE a.project_id = $1 ORDER BY m.id`,
      [projectId],
    );
  const waiting = async (projectId: string): Promise<number> =>
    (await sql<{ count: number }>(`SELECT count(*) FROM alert_inbox WHERE project_id = $1`, [projectId]))[0]
      ?.count ?? 0;
  const newNotices = (elapsed: () => number) =>
    createPendingNotices({
      db: house.house.database,
      clock: { now: () => house.clock.now(), millis: () => house.clock.millis(), elapsed },
      publicUrl: "https://keyward.example",
      resolvingTypes: [],
    });

  test("a fact is reported although thousands of another organisation came before it", async () => {
    const [noisy, quiet] = [await house.newTenant(), await house.newTenant()];
    const [crowded, other] = [await aWatch(noisy, {}, 400), await aWatch(quiet)];
    await issue(noisy, crowded, 620);
    await issue(quiet, other, 1);
    const notices = newNotices(() => 0);
    const { nextMs } = await notices.takeFacts();
    assert.deepEqual((await messages(other)).length, 1);
    assert.ok((await waiting(crowded)) > 0, "the others have a rest after some turns");
    assert.ok(nextMs !== undefined && nextMs > 0);
  });

  test("an organisation that was throttled gets everything in the end, in few messages", async () => {
    const noisy = await house.newTenant();
    const crowded = await aWatch(noisy, {}, 400);
    await issue(noisy, crowded, 620);
    let now = 0;
    const notices = newNotices(() => now);
    for (let turn = 0; turn < 20 && (await waiting(crowded)) > 0; turn += 1) {
      const { nextMs = 0 } = await notices.takeFacts();
      now += nextMs;
    }
    const told = await messages(crowded);
    assert.equal(
      told.reduce((sum, { total }) => sum + total, 0),
      620 * 401,
    );
    assert.ok(told.length <= 401 * 5, String(told.length));
  });

  test("a scan ends after a while, the others are notified by then, and the rest is reported once, in one message", async () => {
    const [noisy, quiet] = [await house.newTenant(), await house.newTenant()];
    const expiring = { eventType: "expiration", alertBefore: "30d" };
    const [crowded, other] = [await aWatch(noisy, expiring, 9), await aWatch(quiet, expiring)];
    const store = inventory(house.house.database, noisy.orgId);
    const now = house.clock.now();
    await store.seed(
      Array.from({ length: 1500 }, (_, n) => ({
        projectId: crowded,
        notBefore: now,
        notAfter: new Date(now.getTime() + DAY + n * 1000),
      })),
    );
    await issue(quiet, other, 1, 3);
    await house.house.database.write(
      (tx) => tx.rows({ name: undefined, isSlow: true, text: "DELETE FROM alert_inbox" }),
      {
        audited: false,
      },
    );
    let elapsed = 0;
    const notices = newNotices(() => (elapsed += 1));
    await notices.scanForDue(600);
    assert.deepEqual(await messages(other), [{ total: 1 }]);
    assert.deepEqual(await messages(crowded), [], "not before all is found");
    for (let look = 0; look < 10; look += 1) await notices.scanForDue(600);
    assert.deepEqual(
      await messages(crowded),
      Array.from({ length: 10 }, () => ({ total: 1500 })),
    );
    assert.deepEqual(await messages(other), [{ total: 1 }]);
    // Another node, without a cursor, finds nothing more.
    await newNotices(() => 0).scanForDue();
    assert.equal((await messages(crowded)).length, 10);
  });

  test("a project has 20,000 alerts at most, and so has an organisation; 500 of a project have long filters", async () => {
    const tenant = await house.newTenant();
    const body = {
      name: "one more",
      eventType: "issuance",
      filters: [],
      channels: [{ config: { recipients: ["ops@example.com"] } }],
    };
    const long = [{ value: Array.from({ length: 100 }, (_, n) => `${n}`.padEnd(50, "x")) }];
    const crowded = await aWatch(tenant, { filters: long }, 499);
    assert.equal((await tenant.post(PATH, { ...body, projectId: crowded })).status, 200, "short ones go on");
    const refused = await tenant.post(PATH, { ...body, filters: long, projectId: crowded });
    assert.equal(refused.status, 400);
    assert.match(refused.body.message, /500 alerts with filters/);
    const full = await aWatch(tenant, {}, 19_498);
    const beyond = await tenant.post(PATH, {
      ...body,
      projectId: (await aProject(tenant, { type: "cert-manager" })).id,
    });
    assert.equal(beyond.status, 400);
    assert.match(beyond.body.message, /20000 alerts in this organisation/);
    await sql(
      `INSERT INTO alerts SELECT gen_random_uuid(), a.org_id, a.project_id, a.application_id, a.name, a.description, a.event_type, a.alert_before, a.filters,
         a.enabled, a.is_daily, a.digest, a.looked_at, a.gathered_at, a.created_at, a.updated_at FROM alerts a, generate_series(1, 501) WHERE a.id = (SELECT id FROM alerts WHERE project_id = $1 LIMIT 1)`,
      [full],
    );
    const more = await tenant.post(PATH, { ...body, projectId: full });
    assert.equal(more.status, 400);
    assert.match(more.body.message, /20000 alerts in this project/);
  });
});
