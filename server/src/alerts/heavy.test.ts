// A process of its own: it measures what its process takes.
/** H4: alerts made to cost much hold up nobody: neither the event loop nor other organisations' warnings. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { inventory } from "../../test/alert-receiver.ts";
import { aProject } from "../../test/builders.ts";
import { openTestHouse, type Tenant, type TestHouse } from "../../test/harness.ts";
import { createPendingNotices } from "./notices/service.ts";
import { createFactReader } from "./notices/service/take-facts.ts";

const PATH = "/api/v1/cert-manager/alerts";
const DAY = 86_400_000;
const MANY_NAMES = Array.from({ length: 9000 }, (_, n) => n.toString(36).padStart(3, "0"));

/** Fifty that pass only at their last value, and that only at the last name. */
const costly = (valueOf: (text: string) => string, operator: string) =>
  Array.from({ length: 50 }, (_, n) => ({
    field: "san",
    operator,
    value: [...Array.from({ length: 99 }, (__, m) => valueOf(`y${n}w${m}`)), valueOf("lastone")],
  }));

/** The longest CPU time without a yield to the event loop. */
async function longestStretch(work: () => Promise<unknown>): Promise<number> {
  let [longest, isOn] = [0, true];
  let last = { cpu: process.cpuUsage(), at: performance.now() };
  const ping = (): void => {
    const { user, system } = process.cpuUsage(last.cpu);
    longest = Math.max(longest, Math.min((user + system) / 1000, performance.now() - last.at));
    last = { cpu: process.cpuUsage(), at: performance.now() };
    if (isOn) setImmediate(ping);
  };
  setImmediate(ping);
  await work();
  isOn = false;
  return longest;
}

describe("H4 alerts that cost much", () => {
  let house: TestHouse;
  before(async () => {
    house = await openTestHouse({ start: new Date("2026-05-10T10:00:00Z") });
  });
  after(() => house.close());

  const sql = <Row>(text: string, values: unknown[] = []): Promise<Row[]> =>
    house.house.database.write((tx) => tx.rows<Row>({ name: undefined, isSlow: true, text }, values), {
      audited: false,
    });
  const alert = (tenant: Tenant, projectId: string, more: Record<string, unknown> = {}) =>
    tenant.post(PATH, {
      name: "watch",
      eventType: "expiration",
      alertBefore: "30d",
      filters: [],
      channels: [{ config: { recipients: ["ops@example.com"] } }],
      projectId,
      ...more,
    });
  /** With filters as they were accepted once, copied so often. */
  const watchWith = async (tenant: Tenant, filters: unknown, copies = 1) => {
    const projectId = (await aProject(tenant, { type: "cert-manager" })).id;
    for (let n = 0; n < copies; n += 1)
      assert.equal((await alert(tenant, projectId, { name: `watch ${n}` })).status, 200);
    await sql(`UPDATE alerts SET filters = $2 WHERE project_id = $1`, [projectId, JSON.stringify(filters)]);
    return projectId;
  };
  const seed = async (tenant: Tenant, projectId: string, names: readonly string[][]) =>
    inventory(house.house.database, tenant.orgId).seed(
      names.map((san, n) => ({
        projectId,
        commonName: "h",
        san,
        notBefore: house.clock.now(),
        notAfter: new Date(house.clock.millis() + DAY + n * 1000),
      })),
    );
  const told = async (projectId: string): Promise<number> =>
    (
      await sql(`SELECT 1 FROM alert_messages m JOIN alerts a ON a.id = m.alert_id WHERE a.project_id = $1`, [
        projectId,
      ])
    ).length;
  const newNotices = (elapsed: () => number) =>
    createPendingNotices({
      db: house.house.database,
      clock: { now: () => house.clock.now(), millis: () => house.clock.millis(), elapsed },
      publicUrl: "https://keyward.example",
      resolvingTypes: [],
    });

  for (const [operator, valueOf] of [
    ["contains", (text: string) => text],
    ["matches", (text: string) => `*${text}*`],
    ["ends_with", (text: string) => text],
  ] as const)
    test(`fifty filters with a hundred values each (${operator}) against nine thousand names are matched in chunks`, async () => {
      const tenant = await house.newTenant();
      const projectId = await watchWith(tenant, costly(valueOf, operator));
      await seed(tenant, projectId, [[...MANY_NAMES, "lastone"]]);
      const longest = await longestStretch(() => newNotices(() => performance.now()).scanForDue());
      assert.equal(await told(projectId), 1);
      assert.ok(longest < 200, `one stretch of ${Math.round(longest)} ms`);
    });

  test("a scan stops within its budget in the middle of a page, and the unserved come first in the next", async () => {
    const [noisy, quiet] = [await house.newTenant(), await house.newTenant()];
    const crowded = await watchWith(noisy, [{ field: "san", operator: "contains", value: "nothing" }], 3);
    await seed(
      noisy,
      crowded,
      Array.from({ length: 1500 }, () => ["a"]),
    );
    const other = await watchWith(quiet, []);
    await seed(quiet, other, [["a"]]);
    const unseen = async () =>
      (await sql(`SELECT 1 FROM alerts WHERE project_id = $1 AND looked_at IS NULL`, [crowded])).length;
    let elapsed = 0;
    const notices = newNotices(() => (elapsed += 10));
    await notices.scanForDue(50);
    assert.equal(await unseen(), 3, "a page of 1500 is too much for this budget");
    await notices.scanForDue(50);
    assert.equal(await told(other), 1);
    for (let look = 0; look < 2000 && (await unseen()) > 0; look += 1) await notices.scanForDue(5000);
    assert.equal(await unseen(), 0, "it comes to an end");
  });

  test("one batch of facts ends after a while, so that the next organisation has its turn", async () => {
    const tenant = await house.newTenant();
    const projectId = await watchWith(tenant, []);
    const store = inventory(house.house.database, tenant.orgId);
    const ends = { notBefore: house.clock.now(), notAfter: new Date(house.clock.millis() + 90 * DAY) };
    for (let n = 0; n < 10; n += 1) await store.issue({ projectId, ...ends });
    let elapsed = 0;
    const take = createFactReader({
      db: house.house.database,
      clock: {
        now: () => house.clock.now(),
        millis: () => house.clock.millis(),
        elapsed: () => (elapsed += 600),
      },
      publicUrl: "https://keyward.example",
      resolvingTypes: [],
    });
    const batch = () => house.house.database.write((tx) => take(tx, projectId), { audited: false });
    const { taken } = await batch();
    assert.ok(taken > 0 && taken < 10, String(taken));
    let all = taken;
    for (let some = taken; some > 0; all += some) some = (await batch()).taken;
    assert.equal(all, 10);
  });

  test("the values of one alert are bounded together, and the refusal names the bound", async () => {
    const tenant = await house.newTenant();
    const projectId = (await aProject(tenant, { type: "cert-manager" })).id;
    const refused = await alert(tenant, projectId, { filters: costly((text) => text, "contains") });
    assert.equal(refused.status, 422);
    assert.match(JSON.stringify(refused.body), /1000 values/);
    const most = costly((text) => text, "contains").slice(0, 10);
    assert.equal((await alert(tenant, projectId, { filters: most })).status, 200);
  });
});
