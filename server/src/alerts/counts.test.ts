import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import fc from "fast-check";
import { inventory, openReceiver, type Receiver } from "../../test/alert-receiver.ts";
import { aProject } from "../../test/builders.ts";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";

const PATH = "/api/v1/cert-manager/alerts";
const DAY = 86_400_000;
const TYPES = ["expiration", "issuance", "renewal", "revocation", "renewal-failed"];

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

const raw = <Row>(text: string, values: unknown[] = []): Promise<Row[]> =>
  house.house.database.write((tx) => tx.rows<Row>({ name: undefined, isSlow: false, text }, values), {
    audited: false,
  });
const create = (projectId: string, more: Record<string, unknown>) =>
  house.owner.post(PATH, {
    name: "watch",
    eventType: "issuance",
    filters: [],
    channels: [{ config: { url: `${receiver.url}/in` } }],
    projectId,
    ...more,
  });

async function anApplication(projectId: string): Promise<string> {
  const made = await house.owner.post("/api/v1/cert-manager/applications", {
    name: `app-${Math.random().toString(36).slice(2)}`,
    projectId,
  });
  assert.equal(made.status, 200, JSON.stringify(made.body));
  return made.body.application.id;
}

describe("the total of a list of alerts", () => {
  /** Slow and obvious: all of them, counted one by one. */
  async function expectTotals(projectId: string, applicationId: string): Promise<void> {
    const all = (await house.owner.get(`${PATH}?projectId=${projectId}&limit=100`)).body.alerts as {
      eventType: string;
      enabled: boolean;
      applicationId?: string;
    }[];
    for (const scope of ["", `&applicationId=${applicationId}`])
      for (const eventType of ["", ...TYPES])
        for (const enabled of ["", "true", "false"]) {
          const query = `${scope}${eventType === "" ? "" : `&eventType=${eventType}`}${enabled === "" ? "" : `&enabled=${enabled}`}`;
          const { body } = await house.owner.get(`${PATH}?projectId=${projectId}&limit=100${query}`);
          const expected = all.filter(
            (one) =>
              (scope === "" || one.applicationId === applicationId) &&
              (eventType === "" || one.eventType === eventType) &&
              (enabled === "" || String(one.enabled) === enabled),
          ).length;
          assert.deepEqual([query, body.total, body.alerts.length], [query, expected, expected]);
        }
  }

  const step = fc.record({
    what: fc.constantFrom("create", "create", "change", "delete", "upkeep"),
    eventType: fc.constantFrom(...TYPES),
    enabled: fc.boolean(),
    isOfApplication: fc.boolean(),
    which: fc.nat(),
  });

  test("stays exact through whatever is made, changed and removed", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 15 }), async (steps) => {
        const projectId = (await aProject(house.owner, { type: "cert-manager" })).id;
        const applicationId = await anApplication(projectId);
        const ids: string[] = [];
        for (const { what, eventType, enabled, isOfApplication, which } of steps) {
          const id = ids[which % Math.max(1, ids.length)];
          if (what === "create" || id === undefined)
            ids.push(
              (await create(projectId, { eventType, enabled, ...(isOfApplication ? { applicationId } : {}) }))
                .body.alert.id,
            );
          else if (what === "change") await house.owner.patch(`${PATH}/${id}`, { eventType, enabled });
          else if (what === "upkeep") await raw("UPDATE alerts SET looked_at = now() WHERE id = $1", [id]);
          else {
            assert.equal((await house.owner.delete(`${PATH}/${id}`)).status, 200);
            ids.splice(which % ids.length, 1);
          }
        }
        await expectTotals(projectId, applicationId);
        const [kept] = await raw<{ count: number }>("SELECT count(*) FROM alerts WHERE project_id = $1", [
          projectId,
        ]);
        assert.equal(kept?.count, ids.length);
        // An application takes its alerts along, a project everything; no number is left behind.
        await raw("DELETE FROM pki_applications WHERE id = $1", [applicationId]);
        const rest = (await house.owner.get(`${PATH}?projectId=${projectId}&limit=100`)).body;
        assert.equal(rest.total, rest.alerts.length);
        assert.equal((await house.owner.delete(`/api/v1/projects/${projectId}`)).status, 200);
        assert.deepEqual(
          await raw("SELECT * FROM alert_counts WHERE scope_id = ANY($1::uuid[])", [
            [projectId, applicationId],
          ]),
          [],
        );
      }),
      { numRuns: 4 },
    );
  });

  test("is exact after many at once, over several projects, and for a search", async () => {
    const projects = [
      (await aProject(house.owner, { type: "cert-manager" })).id,
      (await aProject(house.owner, { type: "cert-manager" })).id,
    ];
    const before = (await house.owner.get(PATH)).body.total as number;
    await Promise.all(
      Array.from({ length: 40 }, (_, index) =>
        create(projects[index % 2] ?? "", { name: index < 10 ? `special ${index}` : "plain" }),
      ),
    );
    const { body } = await house.owner.get(`${PATH}?limit=7&offset=3`);
    assert.equal(body.total, before + 40);
    const times = body.alerts.map((one: { createdAt: string }) => one.createdAt);
    assert.equal(times.length, 7);
    assert.deepEqual(times, [...times].sort().reverse());
    const found = (await house.owner.get(`${PATH}?search=special&limit=4`)).body;
    assert.deepEqual([found.total, found.alerts.length], [10, 4]);
  });
});

test("an alert with a long history is deleted in portions", async () => {
  const projectId = (await aProject(house.owner, { type: "cert-manager" })).id;
  const { id } = (await create(projectId, {})).body.alert as { id: string };
  await raw(
    `INSERT INTO alert_messages SELECT gen_random_uuid(), $1, 'issuance', '{"certificates": []}', 0, now() FROM generate_series(1, 4500)`,
    [id],
  );
  await raw(
    `INSERT INTO alert_deliveries (id, alert_id, message_id, channel_id, channel_type, destination, status, next_at, created_at, updated_at)
     SELECT gen_random_uuid(), $1, id, $1, 'webhook', 'x', 'delivered', now(), now(), now() FROM alert_messages WHERE alert_id = $1`,
    [id],
  );
  await raw(
    `INSERT INTO alert_occasions (certificate_id, alert_id, occasion, not_after, created_at) SELECT gen_random_uuid(), $1, '', now(), now() FROM generate_series(1, 2500)`,
    [id],
  );
  await raw(`CREATE TABLE portions (name text, count bigint)`);
  await raw(`CREATE FUNCTION note_portion() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO portions SELECT TG_TABLE_NAME, count(*) FROM gone; RETURN NULL; END $$`);
  for (const table of ["alert_messages", "alert_deliveries", "alert_occasions"])
    await raw(
      `CREATE TRIGGER note_portion AFTER DELETE ON ${table} REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION note_portion()`,
    );
  assert.equal((await house.owner.delete(`${PATH}/${id}`)).status, 200);
  const portions = await raw<{ name: string; sum: number; max: number }>(
    `SELECT name, sum(count)::int, max(count)::int FROM portions GROUP BY name ORDER BY name`,
  );
  await raw(`DROP FUNCTION note_portion CASCADE`);
  assert.deepEqual(portions, [
    { name: "alert_deliveries", sum: 4500, max: 2000 },
    { name: "alert_messages", sum: 4500, max: 2000 },
    { name: "alert_occasions", sum: 2500, max: 2000 },
  ]);
  assert.equal((await house.owner.get(`${PATH}/${id}`)).status, 404);
});

describe("the total of a list of deliveries", () => {
  test("stays exact through sending, failing, retrying, retention and removal", async () => {
    const projectId = (await aProject(house.owner, { type: "cert-manager" })).id;
    const alertId = (await create(projectId, {})).body.alert.id as string;
    const store = inventory(house.house.database, house.owner.orgId);
    const expectTotals = async (expected: Record<string, number>): Promise<void> => {
      for (const status of ["", "pending", "delivered", "failed"]) {
        const { body } = await house.owner.get(
          `${PATH}/${alertId}/deliveries?limit=100${status === "" ? "" : `&status=${status}`}`,
        );
        const wanted =
          status === ""
            ? Object.values(expected).reduce((sum, one) => sum + one, 0)
            : (expected[status] ?? 0);
        assert.deepEqual([status, body.total, body.deliveries.length], [status, wanted, wanted]);
        assert.ok(body.deliveries.every((one: { status: string }) => status === "" || one.status === status));
      }
    };
    const issue = (count: number) =>
      Promise.all(
        Array.from({ length: count }, () =>
          store.issue({
            projectId,
            notBefore: house.clock.now(),
            notAfter: new Date(house.clock.millis() + 90 * DAY),
          }),
        ),
      );
    receiver.answer = () => 200;
    await issue(6);
    await house.house.alertWork.runNow();
    await expectTotals({ delivered: 6 });
    receiver.answer = () => 410;
    await issue(3);
    await house.house.alertWork.runNow();
    await expectTotals({ delivered: 6, failed: 3 });
    receiver.answer = () => 503;
    await issue(4);
    await house.house.alertWork.runNow();
    await expectTotals({ delivered: 6, failed: 3, pending: 4 });
    const [failed] = (await house.owner.get(`${PATH}/${alertId}/deliveries?status=failed`)).body.deliveries;
    await house.owner.post(`${PATH}/${alertId}/deliveries/${failed.id}/retry`);
    await expectTotals({ delivered: 6, failed: 2, pending: 5 });
    // Ninety-one days later all but the pending ones are deleted.
    await raw("UPDATE alert_messages SET created_at = created_at - interval '91 days' WHERE alert_id = $1", [
      alertId,
    ]);
    await house.house.alertWork.jobs.find((job) => job.name === "alert-sweep")?.run();
    await expectTotals({ pending: 5 });
    await house.owner.patch(`${PATH}/${alertId}`, { channels: [{ config: { url: `${receiver.url}/new` } }] });
    await expectTotals({ pending: 5 });
    // They went over to the corrected address, which wants none of them.
    receiver.answer = () => 410;
    await house.house.alertWork.runNow();
    await expectTotals({ failed: 5 });
    assert.equal((await house.owner.delete(`${PATH}/${alertId}`)).status, 200);
    assert.deepEqual(await raw("SELECT * FROM alert_delivery_counts WHERE alert_id = $1", [alertId]), []);
  });
});
