import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, afterEach, before, describe, test } from "node:test";
import { aProject } from "../../test/builders.ts";
import { aPki, aRoot, issue } from "../../test/certificates.ts";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";
import {
  inventory,
  openReceiver,
  putCertificate,
  type CertificateWish,
  type Receiver,
} from "../../test/alert-receiver.ts";

const PATH = "/api/v1/cert-manager/alerts";
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const START = new Date("2026-05-10T10:00:00Z");

let receiver: Receiver;
let pager: Receiver;
let house: TestHouse;
let store: ReturnType<typeof inventory>;
let projectId: string;
const cleanUp: (() => Promise<unknown>)[] = [];

before(async () => {
  receiver = await openReceiver();
  pager = await openReceiver();
  house = await openTestHouse({
    start: START,
    env: {
      KEYWARD_ALLOW_PRIVATE_TARGETS: "127.0.0.0/8",
      KEYWARD_PAGERDUTY_URL: `${pager.url}/v2/enqueue`,
      KEYWARD_PUBLIC_URL: "https://keyward.example",
    },
  });
  store = inventory(house.house.database, house.owner.orgId);
});
after(async () => {
  await house.close();
  await receiver.close();
  await pager.close();
});
afterEach(async () => {
  receiver.answer = () => 200;
  for (const undo of cleanUp.splice(0)) await undo();
});

/** A project of its own for each test, with an alert to the receiver; both are gone afterwards. */
async function anAlert(more: Record<string, unknown> = {}) {
  projectId = (await aProject(house.owner, { type: "cert-manager" })).id;
  const ownProject = projectId;
  cleanUp.push(() => house.owner.delete(`/api/v1/projects/${ownProject}`));
  receiver.received.length = 0;
  pager.received.length = 0;
  return addAlert(more);
}
async function addAlert(more: Record<string, unknown> = {}) {
  const made = await house.owner.post(PATH, {
    name: "watch",
    eventType: "expiration",
    alertBefore: "7d",
    filters: [],
    channels: [{ config: { url: `${receiver.url}/in` } }],
    projectId,
    ...more,
  });
  assert.equal(made.status, 200, JSON.stringify(made.body));
  return made.body.alert;
}
const wish = (days: number, more: Partial<CertificateWish> = {}): CertificateWish => ({
  projectId,
  notBefore: house.clock.now(),
  notAfter: new Date(house.clock.millis() + days * DAY),
  ...more,
});
const run = () => house.house.alertWork.runNow();
const take = () => receiver.received.splice(0);
const told = () =>
  take().map(({ json }) => [
    json.type.split(".").at(-1),
    json.data.certificates.map((one: { id: string }) => one.id),
  ]);
const deliveries = async (id: string) => (await house.owner.get(`${PATH}/${id}/deliveries?limit=100`)).body;

describe("expiration", () => {
  test("a certificate is told once, from the moment it is due", async () => {
    await anAlert();
    const id = await store.issue(wish(10));
    await run();
    assert.deepEqual(told(), []);
    house.clock.advance(3 * DAY + 1000);
    await run();
    assert.deepEqual(told(), [["expiration", [id]]]);
    for (let day = 0; day < 8; day += 1) {
      house.clock.advance(DAY);
      await run();
    }
    assert.deepEqual(told(), []);
  });

  test("those due together are one message, the soonest first", async () => {
    await anAlert();
    const [late, soon] = await store.seed([wish(6, { commonName: "late" }), wish(2, { commonName: "soon" })]);
    await run();
    assert.deepEqual(told(), [["expiration", [soon, late]]]);
  });

  test("an hour-long certificate is told, though it was due when it was born", async () => {
    await anAlert({ alertBefore: "30d" });
    await run();
    const [first, second] = [await store.issue(wish(1 / 24)), await store.issue(wish(1.5 / 24))];
    house.clock.advance(60_000);
    await run();
    assert.deepEqual(told(), [["expiration", [first, second]]]);
  });

  test("a replaced, revoked or ended certificate is not told", async () => {
    await anAlert();
    const [replaced, revoked] = [await store.issue(wish(8)), await store.issue(wish(8))];
    await store.issue(wish(8));
    await store.renew(replaced, wish(90));
    await store.revoke(revoked, projectId, house.clock.now());
    house.clock.advance(9 * DAY);
    await run();
    assert.deepEqual(told(), []);
  });

  test("the daily flag repeats each day until it is over", async () => {
    await anAlert({ alertBefore: "3d", notificationConfig: { enableDailyNotification: true } });
    const id = await store.issue(wish(2.9));
    const days: number[] = [];
    for (let hour = 0; hour < 24 * 4; hour += 1) {
      await run();
      if (told().length > 0) days.push(Math.floor(hour / 24));
      house.clock.advance(HOUR);
    }
    // 10 May 10:00 (at once), then after each midnight UTC until the end on 13 May 07:36.
    assert.equal(days.length, 4);
    assert.ok(id);
  });

  test("an alert that is made to speak once does not repeat what it told by the day", async () => {
    const alert = await anAlert({ notificationConfig: { enableDailyNotification: true } });
    const [id, next] = [await store.issue(wish(5)), await store.issue(wish(8))];
    await run();
    assert.deepEqual(told(), [["expiration", [id]]]);
    await house.owner.patch(`${PATH}/${alert.id}`, { notificationConfig: null });
    house.clock.advance(2 * DAY);
    await run();
    assert.deepEqual(told(), [["expiration", [next]]]);
  });

  test("a clock that jumps a month ahead causes one message, not thirty", async () => {
    await anAlert({ alertBefore: "90d", notificationConfig: { enableDailyNotification: true } });
    await store.seed(Array.from({ length: 5 }, (_, index) => wish(60 + index)));
    await run();
    assert.equal(take().length, 1);
    house.clock.advance(31 * DAY);
    await run();
    assert.equal(take().length, 1);
  });

  test("filters, application and authorities decide; a change of them is felt", async () => {
    const alert = await anAlert({
      filters: [{ field: "common_name", operator: "ends_with", value: ".example.com" }],
    });
    const [mine, , ca] = await store.seed([
      wish(2, { commonName: "a.EXAMPLE.com" }),
      wish(2, { commonName: "a.other.com" }),
      wish(2, { commonName: "ca.example.com", isCa: true }),
    ]);
    await run();
    assert.deepEqual(told(), [["expiration", [mine]]]);
    await house.owner.patch(`${PATH}/${alert.id}`, {
      filters: [
        { field: "common_name", operator: "ends_with", value: ".example.com" },
        { field: "include_cas", value: true },
      ],
    });
    await run();
    assert.deepEqual(told(), [["expiration", [ca]]]);
  });

  test("an authority's own certificate is told when include_cas asks for it", async () => {
    await anAlert({ filters: [{ field: "include_cas", value: true }] });
    const [authority, key, certificate] = [randomUUID(), randomUUID(), randomUUID()];
    await house.house.database.write(
      async (tx) => {
        const raw = (text: string, values: unknown[]) =>
          tx.rows({ name: undefined, isSlow: false, text }, values);
        await raw(
          "INSERT INTO certificate_authorities (id, project_id, name, kind, status, key_algorithm, subject, active_key_id, active_certificate_id, created_at, updated_at) VALUES ($1, $2, 'ca', 'root', 'active', 'x', '{\"commonName\":\"Root\"}', $3, $4, now(), now())",
          [authority, projectId, key, certificate],
        );
        await raw(
          "INSERT INTO authority_keys (id, authority_id, key_algorithm, public_key, data_key_id, sealed_key, crl_shards, created_at) VALUES ($1, $2, 'x', '', $1, '', 1, now())",
          [key, authority],
        );
        await raw(
          "INSERT INTO authority_certificates (id, authority_id, key_id, version, serial_number, not_before, not_after, der, chain, created_at) VALUES ($1, $2, $3, 1, '01', now(), $4, '', '{}', now())",
          [certificate, authority, key, new Date(house.clock.millis() + 3 * DAY)],
        );
      },
      { audited: false },
    );
    await run();
    const [message] = take();
    assert.deepEqual(
      message?.json.data.certificates.map((one: { commonName: string }) => one.commonName),
      ["Root"],
    );
  });

  test("a disabled alert or one whose channels are all disabled stays silent, and speaks when that changes", async () => {
    const alert = await anAlert({ enabled: false });
    const id = await store.issue(wish(3));
    await run();
    assert.deepEqual(told(), []);
    await house.owner.patch(`${PATH}/${alert.id}`, {
      enabled: true,
      channels: [{ id: alert.channels[0].id, config: { url: `${receiver.url}/in` }, enabled: false }],
    });
    await run();
    assert.deepEqual(told(), []);
    await house.owner.patch(`${PATH}/${alert.id}`, {
      channels: [{ id: alert.channels[0].id, config: { url: `${receiver.url}/in` } }],
    });
    await run();
    assert.deepEqual(told(), [["expiration", [id]]]);
  });

  test("six thousand due at once are one message of twenty that says how many", async () => {
    const alert = await anAlert();
    for (let part = 0; part < 3; part += 1)
      await store.seed(Array.from({ length: 2000 }, (_, index) => wish(1 + index / 2000)));
    await run();
    const [message, ...more] = take();
    assert.equal(more.length, 0);
    assert.equal(message?.json.data.certificates.length, 20);
    assert.equal(message?.json.data.metadata.totalCertificates, 6000);
    const { deliveries: list, total } = await deliveries(alert.id);
    assert.deepEqual([total, list[0].totalCertificates, list[0].status], [1, 6000, "delivered"]);
    await run();
    assert.equal(take().length, 0);
  });

  test("the next message speaks of the new ones alone", async () => {
    await anAlert();
    await store.issue(wish(2));
    await run();
    take();
    const next = await store.issue(wish(2));
    await run();
    assert.deepEqual(told(), [["expiration", [next]]]);
  });
});

describe("facts", () => {
  test("issued, renewed, revoked and failed each reach their own kind of alert; a renewal is no issuance", async () => {
    await anAlert({ eventType: "issuance" });
    for (const eventType of ["renewal", "revocation", "renewal-failed"]) await addAlert({ eventType });
    const first = await store.issue(wish(90, { commonName: "x.example" }));
    const second = await store.renew(first, wish(90));
    await store.revoke(second, projectId, house.clock.now(), 1);
    await store.failRenewal(first, projectId, "the policy says no");
    await run();
    const got = take();
    assert.deepEqual(
      got.map(({ json }) => [json.type, json.data.certificates[0].id]).sort(),
      [
        ["dev.keyward.certificate.issuance", first],
        ["dev.keyward.certificate.renewal", second],
        ["dev.keyward.certificate.renewal-failed", first],
        ["dev.keyward.certificate.revocation", second],
      ].sort(),
    );
    const revocation = got.find(({ json }) => json.type.endsWith("revocation"))?.json.data.certificates[0];
    assert.deepEqual(
      [revocation.status, revocation.revocationReason, typeof revocation.revokedAt],
      ["revoked", "KEY_COMPROMISE", "string"],
    );
    assert.equal(
      got.find(({ json }) => json.type.endsWith("renewal-failed"))?.json.data.certificates[0].failure,
      "the policy says no",
    );
    await run();
    assert.equal(take().length, 0);
  });

  test("each certificate is a message of its own", async () => {
    await anAlert({ eventType: "issuance" });
    const ids = [];
    for (let count = 0; count < 5; count += 1) ids.push(await store.issue(wish(90)));
    await run();
    assert.deepEqual(
      told()
        .map(([, certificates]) => certificates[0])
        .sort(),
      ids.sort(),
    );
  });

  test("failed renewals are told together, with their reasons, and once a day each", async () => {
    await anAlert({ eventType: "renewal-failed" });
    const ids = await store.seed(Array.from({ length: 25 }, (_, index) => wish(10 + index)));
    for (let round = 0; round < 3; round += 1) {
      for (const id of ids) await store.failRenewal(id, projectId, `the authority is away (${round})`);
      await run();
      house.clock.advance(HOUR);
    }
    const [message, ...more] = take();
    assert.equal(more.length, 0);
    const { certificates, metadata } = message?.json.data ?? {};
    assert.deepEqual([certificates.length, metadata.totalCertificates], [20, 25]);
    assert.deepEqual([certificates[0].id, certificates[0].failure], [ids[0], "the authority is away (0)"]);
    house.clock.advance(DAY);
    await store.failRenewal(ids[0] ?? "", projectId, "still away");
    await run();
    assert.deepEqual(told(), [["renewal-failed", [ids[0]]]]);
  });

  test("a change that was rolled back is not told", async () => {
    await anAlert({ eventType: "issuance" });
    await assert.rejects(
      house.house.database.write(async (tx) => {
        putCertificate(tx, wish(90));
        tx.emit({
          name: "certificate.issued",
          data: { orgId: house.owner.orgId, projectId, certificateId: randomUUID() },
        });
        throw new Error("no");
      }),
    );
    await run();
    assert.equal(take().length, 0);
  });

  test("facts survive the sweep of the outbox and the death of every node", async () => {
    await anAlert({ eventType: "issuance" });
    const id = await store.issue(wish(90));
    await house.house.database.write(
      (tx) => tx.rows({ name: undefined, isSlow: false, text: "DELETE FROM outbox" }),
      { audited: false },
    );
    const other = await house.openNode();
    await other.house.alertWork.runNow();
    assert.deepEqual(told(), [["issuance", [id]]]);
  });

  test("a project without alerts keeps nothing, another project's facts are not this one's", async () => {
    await anAlert({ eventType: "issuance" });
    const mine = projectId;
    const elsewhere = (await aProject(house.owner, { type: "cert-manager" })).id;
    await store.issue({ ...wish(90), projectId: elsewhere });
    const [kept] = await house.house.database.read((q) =>
      q.rows<{ count: number }>({
        name: undefined,
        isSlow: true,
        text: "SELECT count(*) AS count FROM alert_inbox",
      }),
    );
    assert.equal(kept?.count, 0);
    projectId = mine;
    await run();
    assert.equal(take().length, 0);
  });

  test("a digest gathers an hour into one message", async () => {
    await anAlert({ eventType: "issuance", notificationConfig: { digest: "hourly" } });
    for (let count = 0; count < 25; count += 1) await store.issue(wish(90));
    await run();
    assert.equal(take().length, 0);
    house.clock.advance(HOUR);
    await run();
    const [message, ...more] = take();
    assert.equal(more.length, 0);
    assert.deepEqual(
      [message?.json.data.certificates.length, message?.json.data.metadata.totalCertificates],
      [20, 25],
    );
  });

  test("what waits for a digest is not told by an alert that watches for something else by then", async () => {
    const digest = { notificationConfig: { digest: "hourly" } };
    const changes = [
      ["expiration", "revocation"],
      ["expiration", "issuance"],
      ["issuance", "revocation"],
      ["revocation", "expiration"],
      ["renewal-failed", "renewal"],
    ];
    for (const [from, to] of changes) {
      const alert = await anAlert({ eventType: from, ...digest });
      const id = await store.issue(wish(3, { commonName: "x" }));
      await store.failRenewal(id, projectId, "no");
      await store.revoke(await store.issue(wish(90)), projectId, house.clock.now());
      await run();
      assert.equal((await house.owner.patch(`${PATH}/${alert.id}`, { eventType: to })).status, 200);
      house.clock.advance(HOUR);
      await run();
      const expected = to === "expiration" ? [["expiration", [id]]] : [];
      assert.deepEqual(told(), expected, `${from} → ${to}`);
    }
  });

  test("what waits for a digest is told as the alert is meant by then", async () => {
    const alert = await anAlert({ notificationConfig: { digest: "hourly" } });
    const [soon] = await store.seed([
      wish(2, { commonName: "a" }),
      wish(2, { commonName: "b" }),
      wish(6, { commonName: "a" }),
    ]);
    await run();
    await house.owner.patch(`${PATH}/${alert.id}`, {
      filters: [{ field: "common_name", operator: "equals", value: "a" }],
      alertBefore: "3d",
    });
    house.clock.advance(HOUR);
    await run();
    assert.deepEqual(told(), [["expiration", [soon]]]);
  });

  test("what many facts mean to many alerts is not one transaction", async () => {
    await anAlert({ eventType: "issuance" });
    const sql = <Row>(text: string, values: unknown[]): Promise<Row[]> =>
      house.house.database.write((tx) => tx.rows<Row>({ name: undefined, isSlow: true, text }, values), {
        audited: false,
      });
    await sql(
      `WITH copies AS (
         INSERT INTO alerts SELECT gen_random_uuid(), org_id, project_id, application_id, name, description, event_type, alert_before, filters,
           enabled, is_daily, digest, looked_at, gathered_at, created_at, updated_at FROM alerts, generate_series(1, 79) WHERE project_id = $1 RETURNING id)
       INSERT INTO alert_channels SELECT gen_random_uuid(), copies.id, c.position, c.channel_type, c.enabled, c.destination, c.data_key_id, c.settings, c.created_at, c.updated_at
       FROM copies, alert_channels c JOIN alerts a ON a.id = c.alert_id WHERE a.project_id = $1`,
      [projectId],
    );
    for (let part = 0; part < 10; part += 1)
      await Promise.all(Array.from({ length: 20 }, () => store.issue(wish(90))));
    await house.house.alertWork.jobs.find((job) => job.name === "alert-facts")?.run();
    const portions = await sql<{ count: number }>(
      `SELECT count(*) FROM alert_messages m JOIN alerts a ON a.id = m.alert_id WHERE a.project_id = $1 GROUP BY m.xmin::text`,
      [projectId],
    );
    const counts = portions.map(({ count }) => count);
    assert.equal(
      counts.reduce((sum, count) => sum + count, 0),
      200 * 80,
    );
    assert.ok(Math.max(...counts) <= 5080, String(counts));
  });

  test("PagerDuty is told when what it was told of is replaced", async () => {
    await anAlert({
      channels: [
        { config: { integrationKey: "0123456789abcdef0123456789abcdef" } },
        { config: { url: `${receiver.url}/in` } },
      ],
    });
    const id = await store.issue(wish(3));
    const untold = await store.issue(wish(30));
    await run();
    await store.renew(id, wish(90));
    await store.renew(untold, wish(90));
    await run();
    assert.deepEqual(
      pager.received.map(({ json }) => [json.event_action, json.dedup_key.split(":")[2]]),
      [
        ["trigger", id],
        ["resolve", id],
      ],
    );
    assert.equal(take().length, 1);
  });
});

describe("PagerDuty", () => {
  const channels = [{ config: { integrationKey: "0123456789abcdef0123456789abcdef" } }];
  const paged = () =>
    pager.received.splice(0).map(({ json }) => [json.event_action, json.dedup_key.split(":")[2]]);
  afterEach(() => {
    pager.answer = () => 200;
  });

  test("an incident that could not be opened yet is not opened after its certificate was replaced", async () => {
    await anAlert({ channels });
    pager.answer = () => 500;
    const id = await store.issue(wish(3));
    await run();
    assert.deepEqual(paged(), [["trigger", id]]);
    await store.renew(id, wish(90));
    pager.answer = () => 200;
    for (let step = 0; step < 5; step += 1) {
      await run();
      house.clock.advance(HOUR);
    }
    // The pager may have taken it before it answered 500.
    assert.deepEqual(paged(), [["resolve", id]]);
  });

  test("an end waits for the beginning", async () => {
    await anAlert({ channels });
    pager.answer = () => 500;
    const [first, second] = await store.seed([wish(3), wish(4)]);
    assert.ok(first && second);
    await run();
    await store.renew(first, wish(90));
    await run();
    pager.answer = () => 200;
    paged();
    for (let step = 0; step < 5; step += 1) {
      house.clock.advance(HOUR / 2);
      await run();
    }
    assert.deepEqual(paged(), [
      ["trigger", first],
      ["trigger", second],
      ["resolve", first],
    ]);
  });

  test("what was told so long ago that it is forgotten is resolved all the same", async () => {
    await anAlert({ channels, alertBefore: "1y" });
    const id = await store.issue(wish(300));
    await run();
    assert.deepEqual(paged(), [["trigger", id]]);
    house.clock.advance(100 * DAY);
    await house.house.alertWork.jobs.find((job) => job.name === "alert-sweep")?.run();
    await store.renew(id, wish(400));
    await run();
    assert.deepEqual(paged(), [["resolve", id]]);
  });

  test("what is replaced while the alert or its channel is disabled is resolved when it may speak again", async () => {
    const alert = await anAlert({ channels });
    const silence = (isSilent: boolean) => [
      { enabled: !isSilent },
      { channels: [{ ...channels[0], enabled: !isSilent }] },
    ];
    for (const way of [0, 1]) {
      const id = await store.issue(wish(3));
      await run();
      assert.deepEqual(paged(), [["trigger", id]]);
      assert.equal((await house.owner.patch(`${PATH}/${alert.id}`, silence(true)[way])).status, 200);
      await store.renew(id, wish(90));
      await run();
      assert.deepEqual(paged(), []);
      await house.owner.patch(`${PATH}/${alert.id}`, silence(false)[way]);
      await run();
      assert.deepEqual(paged(), [["resolve", id]]);
    }
  });

  test("a failed renewal is over when the certificate is renewed or revoked", async () => {
    await anAlert({ channels, eventType: "renewal-failed" });
    const [first, second] = await store.seed([wish(30), wish(31)]);
    assert.ok(first && second);
    for (const id of [first, second]) await store.failRenewal(id, projectId, "no");
    await run();
    assert.deepEqual(paged(), [
      ["trigger", first],
      ["trigger", second],
    ]);
    await store.renew(first, wish(90));
    await store.revoke(second, projectId, house.clock.now());
    await run();
    assert.deepEqual(
      paged().sort(),
      [
        ["resolve", first],
        ["resolve", second],
      ].sort(),
    );
    // Failed and mended before anyone was told.
    const third = await store.issue(wish(30));
    await store.failRenewal(third, projectId, "no");
    await store.renew(third, wish(90));
    await run();
    assert.deepEqual(paged(), []);
  });
});

describe("with the certificates room itself", () => {
  test("what is issued, renewed, held, released and revoked through the API is told", async () => {
    const pki = await aPki(house);
    projectId = pki.project.id;
    receiver.received.length = 0;
    for (const eventType of ["issuance", "renewal", "revocation"])
      await addAlert({
        eventType,
        filters: [{ field: "profile_name", operator: "equals", value: pki.profile.slug }],
      });
    const issued = await issue(pki.client, pki.profile.id, { ttl: "90d" });
    const renewed = await pki.client.post(
      `/api/v1/cert-manager/certificates/${issued.certificateId}/renew`,
      {},
    );
    assert.equal(renewed.status, 200, JSON.stringify(renewed.body));
    const revoked = await pki.client.post(
      `/api/v1/cert-manager/certificates/${issued.certificateId}/revoke`,
      {
        revocationReason: "KEY_COMPROMISE",
      },
    );
    assert.equal(revoked.status, 200, JSON.stringify(revoked.body));
    await run();
    const messages = take();
    assert.deepEqual(messages.map(({ json }) => json.type.split(".").at(-1)).sort(), [
      "issuance",
      "renewal",
      "revocation",
    ]);
    const issuance = messages.find(({ json }) => json.type.endsWith("issuance"))?.json.data.certificates[0];
    assert.deepEqual(
      [issuance.id, issuance.serialNumber, issuance.profileName],
      [issued.certificateId, issued.serialNumber, pki.profile.slug],
    );
  });

  test("a root that is about to end is told to who asks for authorities", async () => {
    const client = house.owner;
    projectId = (await aProject(client, { type: "cert-manager" })).id;
    receiver.received.length = 0;
    const root = await aRoot(client, projectId, {
      notAfter: new Date(house.clock.millis() + 20 * DAY).toISOString(),
    });
    await addAlert({ alertBefore: "30d" });
    await addAlert({ alertBefore: "30d", filters: [{ field: "include_cas", value: true }] });
    await run();
    const messages = take();
    assert.equal(messages.length, 1);
    assert.deepEqual(
      messages[0]?.json.data.certificates.map((one: { commonName: string }) => one.commonName),
      [root.name],
    );
  });

  test("one that is let go from hold is told if it is due by then", async () => {
    const pki = await aPki(house);
    projectId = pki.project.id;
    receiver.received.length = 0;
    await addAlert({ alertBefore: "30d" });
    const issued = await issue(pki.client, pki.profile.id, { ttl: "31d" });
    const path = `/api/v1/cert-manager/certificates/${issued.certificateId}`;
    await run();
    const held = await pki.client.post(`${path}/revoke`, { revocationReason: "CERTIFICATE_HOLD" });
    assert.equal(held.status, 200, JSON.stringify(held.body));
    house.clock.advance(2 * DAY);
    await run();
    assert.deepEqual(told(), []);
    const released = await pki.client.post(`${path}/unhold`, {});
    assert.equal(released.status, 200, JSON.stringify(released.body));
    await run();
    assert.deepEqual(told(), [["expiration", [issued.certificateId]]]);
  });
});

describe("delivery", () => {
  test("a receiver that is down for hours gets the message once it is back, under the same id", async () => {
    const alert = await anAlert();
    receiver.answer = () => 503;
    await store.issue(wish(3));
    await run();
    const [first] = (await deliveries(alert.id)).deliveries;
    assert.deepEqual([first.status, first.attempts, first.error], ["pending", 1, "answered 503"]);
    const failing = (await house.owner.get(`${PATH}/${alert.id}`)).body.alert.lastRun;
    assert.deepEqual([failing.status, failing.error], ["failed", "answered 503"]);
    for (let step = 0; step < 12; step += 1) {
      house.clock.advance(HOUR / 2);
      await run();
    }
    receiver.answer = () => 200;
    house.clock.advance(4 * HOUR);
    await run();
    const ids = new Set(take().map(({ json, headers }) => `${json.id} ${String(headers["webhook-id"])}`));
    assert.deepEqual([...ids], [`${first.id} ${first.id}`]);
    const [last] = (await deliveries(alert.id)).deliveries;
    assert.deepEqual([last.status, last.error, last.attempts > 5], ["delivered", null, true]);
    assert.equal((await house.owner.get(`${PATH}/${alert.id}`)).body.alert.lastRun.status, "success");
  });

  test("after a day of trying it is failed, and a retry sends it again", async () => {
    const alert = await anAlert();
    receiver.answer = () => 500;
    await store.issue(wish(5));
    for (let hour = 0; hour < 26; hour += 1) {
      await run();
      house.clock.advance(HOUR);
    }
    const [failed] = (await deliveries(alert.id)).deliveries;
    assert.equal(failed.status, "failed");
    assert.match(failed.error, /given up/);
    const attempts = take().length;
    assert.ok(attempts >= 8 && attempts <= 27, String(attempts));
    receiver.answer = () => 200;
    const retried = await house.owner.post(`${PATH}/${alert.id}/deliveries/${failed.id}/retry`);
    assert.deepEqual([retried.status, retried.body.delivery.status], [200, "pending"]);
    await run();
    assert.deepEqual(
      take().map(({ json }) => json.id),
      [failed.id],
    );
    assert.equal((await deliveries(alert.id)).deliveries[0].status, "delivered");
    assert.equal(
      (await house.owner.post(`${PATH}/${alert.id}/deliveries/${randomUUID()}/retry`)).status,
      404,
    );
  });

  test("a database that cannot take the outcome at once does not make the receiver get it twice", async () => {
    const alert = await anAlert({ eventType: "issuance" });
    const raw = (text: string) =>
      house.house.database.write((tx) => tx.rows({ name: undefined, isSlow: false, text }), {
        audited: false,
      });
    // A number that was drawn stays drawn when its transaction fails: so exactly two attempts are refused.
    await raw("CREATE SEQUENCE refusals");
    await raw(`CREATE FUNCTION refuse_twice() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN IF nextval('refusals') <= 2 THEN RAISE EXCEPTION 'not now'; END IF; RETURN NEW; END $$`);
    await raw(`CREATE TRIGGER refuse_twice BEFORE UPDATE ON alert_deliveries FOR EACH ROW
      WHEN (NEW.status = 'delivered') EXECUTE FUNCTION refuse_twice()`);
    cleanUp.push(async () => {
      await raw("DROP TRIGGER refuse_twice ON alert_deliveries");
      await raw("DROP FUNCTION refuse_twice");
      await raw("DROP SEQUENCE refusals");
    });
    await store.issue(wish(90));
    await run();
    house.clock.advance(HOUR);
    await run();
    assert.equal(take().length, 1);
    const [delivery] = (await deliveries(alert.id)).deliveries;
    assert.deepEqual([delivery.status, delivery.attempts], ["delivered", 1]);
  });

  test("a machine that slept longer than its claim holds does not repeat what it is sending", async () => {
    await anAlert({ eventType: "issuance" });
    const isAsked = new Promise<void>((asked) => {
      receiver.answer = () => {
        asked();
        return undefined;
      };
    });
    await store.issue(wish(90));
    const first = run();
    await isAsked;
    house.clock.advance(HOUR);
    const second = run();
    await new Promise((done) => setTimeout(done, 300));
    assert.equal(take().length, 1);
    receiver.hangUp();
    await Promise.all([first, second]);
  });

  test("a receiver that says never is not asked again", async () => {
    const alert = await anAlert();
    receiver.answer = () => 410;
    await store.issue(wish(3));
    await run();
    house.clock.advance(DAY);
    await run();
    assert.equal(take().length, 1);
    assert.deepEqual(
      (await deliveries(alert.id)).deliveries.map((one: { status: string; error: string }) => [
        one.status,
        one.error,
      ]),
      [["failed", "answered 410"]],
    );
  });

  test("one channel's failure does not touch another's, and only the failed one is repeated", async () => {
    await anAlert({
      channels: [{ config: { url: `${receiver.url}/bad` } }, { config: { url: `${receiver.url}/good` } }],
    });
    receiver.answer = ({ path }) => (path === "/bad" ? 500 : 200);
    await store.issue(wish(3));
    await run();
    house.clock.advance(HOUR);
    await run();
    assert.deepEqual(
      take()
        .map(({ path }) => path)
        .sort(),
      ["/bad", "/bad", "/good"],
    );
  });

  test("without a mail server a mail stays pending, and the alert says why", async () => {
    const alert = await anAlert({ channels: [{ config: { recipients: ["a@example.com"] } }] });
    await store.issue(wish(6));
    await run();
    house.clock.advance(3 * DAY);
    await run();
    const [pending] = (await deliveries(alert.id)).deliveries;
    assert.deepEqual([pending.status, pending.attempts], ["pending", 0]);
    const { lastRun } = (await house.owner.get(`${PATH}/${alert.id}`)).body.alert;
    assert.deepEqual([lastRun.status, /KEYWARD_SMTP_URL/.test(lastRun.error)], ["failed", true]);
    assert.equal((await house.anonymous.get("/api/status")).body.emailConfigured, false);
  });

  const setChannels = async (alert: { id: string }, channels: unknown[]) => {
    const answer = await house.owner.patch(`${PATH}/${alert.id}`, { channels });
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    return answer.body.alert;
  };
  const to = (path: string) => ({ config: { url: `${receiver.url}${path}` } });

  test("a corrected address gets what waited for the wrong one, at once and under the same id", async () => {
    const alert = await anAlert();
    receiver.answer = ({ path }) => (path === "/new" ? 200 : 503);
    const id = await store.issue(wish(3));
    await run();
    const [first] = take();
    const after = await setChannels(alert, [to("/new")]);
    assert.equal(after.channels[0].id, alert.channels[0].id);
    await run();
    assert.deepEqual(
      take().map(({ path, json }) => [path, json.id, json.data.certificates[0].id]),
      [["/new", first?.json.id, id]],
    );
    assert.deepEqual(
      (await deliveries(alert.id)).deliveries.map((one: { status: string }) => one.status),
      ["delivered"],
    );
  });

  test("channels without ids are recognised by their address, and by what is left of their kind", async () => {
    const alert = await anAlert({ channels: [to("/a"), to("/b"), to("/c")] });
    const [a, b, c] = alert.channels.map((one: { id: string }) => one.id);
    const ids = async (...paths: string[]) =>
      (await setChannels(alert, paths.map(to))).channels.map((one: { id: string }) => one.id);
    assert.deepEqual(await ids("/c", "/b", "/a"), [c, b, a]);
    assert.deepEqual(await ids("/a", "/x", "/c"), [a, b, c]);
    const [first, second, third] = await ids("/a", "/y", "/z");
    assert.equal(first, a);
    assert.ok(![b, c].includes(second) && ![b, c].includes(third), "which is which cannot be told");
  });

  test("what waits for a channel that is removed goes to another of the alert that does not know it yet", async () => {
    const alert = await anAlert({
      channels: [to("/dead"), to("/good"), { config: { recipients: ["a@example.com"] } }],
    });
    const [, good, mail] = alert.channels;
    receiver.answer = ({ path }) => (path === "/dead" ? 503 : 200);
    const id = await store.issue(wish(3));
    await run();
    const [dead] = take().filter(({ path }) => path === "/dead");
    // Both that are left know it or will: nothing to move.
    await setChannels(alert, [good, mail]);
    await run();
    assert.deepEqual(told(), []);
    const gone = (await deliveries(alert.id)).deliveries.find(
      (one: { id: string }) => one.id === dead?.json.id,
    );
    assert.deepEqual([gone.status, gone.error], ["failed", "The channel was removed."]);
    // The mail waits for a mail server; a webhook comes in its place.
    await setChannels(alert, [good, to("/instead")]);
    await run();
    assert.deepEqual(
      take().map(({ path, json }) => [path, json.data.certificates[0].id]),
      [["/instead", id]],
    );
    assert.equal((await deliveries(alert.id)).total, 3);
    assert.equal((await house.owner.get(`${PATH}/${alert.id}/deliveries?status=pending`)).body.total, 0);
  });

  test("what waits is not sent when its certificates are dealt with, and the history says so", async () => {
    const alert = await anAlert();
    receiver.answer = () => 503;
    const [renewed, revoked] = await store.seed([wish(3), wish(4)]);
    assert.ok(renewed && revoked);
    await run();
    assert.equal(take().length, 1);
    await store.renew(renewed, wish(90));
    house.clock.advance(60_000);
    await run();
    assert.equal(take().length, 1, "one of the two is still due");
    await store.revoke(revoked, projectId, house.clock.now());
    receiver.answer = () => 200;
    house.clock.advance(HOUR);
    await run();
    assert.equal(take().length, 0);
    const [ended] = (await deliveries(alert.id)).deliveries;
    assert.deepEqual([ended.status, ended.attempts], ["failed", 2]);
    assert.match(ended.error, /replaced or revoked or have ended.*answered 503/);
    await house.owner.post(`${PATH}/${alert.id}/deliveries/${ended.id}/retry`);
    await run();
    assert.equal(take().length, 0, "nor when somebody asks for it");
  });

  test("what was delivered stays delivered when a repeat of it is no longer worth sending", async () => {
    const alert = await anAlert();
    const id = await store.issue(wish(3));
    await run();
    assert.deepEqual(told(), [["expiration", [id]]]);
    await store.renew(id, wish(90));
    const [before] = (await deliveries(alert.id)).deliveries;
    const again = await house.owner.post(`${PATH}/${alert.id}/deliveries/${before.id}/retry`);
    assert.equal(again.status, 200, JSON.stringify(again.body));
    await run();
    assert.deepEqual(told(), []);
    const [after] = (await deliveries(alert.id)).deliveries;
    assert.deepEqual([after.status, after.deliveredAt], ["delivered", before.deliveredAt]);
    assert.match(after.error, /^Not sent: its certificates were replaced/);
  });

  test("the links in a message and in the calendar lead to a page, for everyone and with nothing in it", async () => {
    const alert = await anAlert({
      channels: [to("/in"), { config: { webhookUrl: `${receiver.url}/slack` } }],
    });
    const id = await store.issue(wish(3, { commonName: "not-to-be-shown.example" }));
    await run();
    const calendar = await house.owner.post(`${PATH}/calendars`, { projectId });
    const shown = await house.anonymous.get(
      calendar.body.calendar.url.replace("https://keyward.example", ""),
    );
    const everything =
      take()
        .map(({ body }) => body)
        .join(" ") + shown.body.replaceAll("\r\n ", "");
    const paths = new Set(
      [...everything.matchAll(/https:\/\/keyward\.example(\/projects\/[\w/-]+)/g)].map(
        ([, path]) => path ?? "",
      ),
    );
    assert.equal(paths.size, 2);
    for (const path of paths) {
      const page = await house.anonymous.get(path);
      assert.equal(page.status, 200, path);
      assert.match(page.headers.get("content-type") ?? "", /^text\/html/);
      assert.match(page.headers.get("content-security-policy") ?? "", /default-src 'none'/);
      assert.ok(!page.body.includes("not-to-be-shown") && !page.body.includes("<script"));
      assert.match(page.body, new RegExp(`keyward (certs show ${id}|alerts deliveries ${alert.id})<`));
    }
    assert.equal((await house.anonymous.get(`/projects/${projectId}/certificates/x%22%3E`)).status, 422);
  });

  test("those that a message does not show keep it alive", async () => {
    await anAlert();
    receiver.answer = () => 503;
    const ids = await store.seed(Array.from({ length: 21 }, (_, index) => wish(2 + index / 10)));
    await run();
    for (const id of ids.slice(0, 20)) await store.revoke(id, projectId, house.clock.now());
    house.clock.advance(HOUR);
    await run();
    assert.equal(take().length, 2);
    await store.revoke(ids[20] ?? "", projectId, house.clock.now());
    house.clock.advance(HOUR);
    await run();
    assert.equal(take().length, 0);
  });

  test("what waits is held while the alert or its channel is disabled, and goes when it is enabled again", async () => {
    const alert = await anAlert({ eventType: "issuance" });
    receiver.answer = () => 503;
    const id = await store.issue(wish(90));
    await run();
    receiver.answer = () => 200;
    take();
    for (const [off, on] of [
      [{ enabled: false }, { enabled: true }],
      [{ channels: [{ ...to("/in"), enabled: false }] }, { channels: [{ ...to("/in"), enabled: true }] }],
    ]) {
      await house.owner.patch(`${PATH}/${alert.id}`, off);
      house.clock.advance(3 * HOUR);
      await run();
      assert.deepEqual(told(), []);
      const [held] = (await deliveries(alert.id)).deliveries;
      assert.deepEqual([held.status, held.attempts], ["pending", 1]);
      assert.match(held.error, /^The (alert|channel) is disabled\.$/);
      if ("channels" in (on ?? {})) {
        await house.owner.patch(`${PATH}/${alert.id}`, on);
        await run();
        assert.deepEqual(told(), [["issuance", [id]]]);
      } else {
        receiver.answer = () => 503;
        await house.owner.patch(`${PATH}/${alert.id}`, on);
        await run();
        assert.equal(take().length, 1, "enabling wakes it at once");
        await house.house.database.write(
          (tx) =>
            tx.rows({
              name: undefined,
              isSlow: false,
              text: "UPDATE alert_deliveries SET attempts = 1 WHERE status = 'pending'",
            }),
          { audited: false },
        );
        receiver.answer = () => 200;
      }
    }
    receiver.answer = () => 503;
    await store.issue(wish(90));
    await run();
    await house.owner.patch(`${PATH}/${alert.id}`, { enabled: false });
    for (let hours = 0; hours < 26; hours += 1) {
      house.clock.advance(HOUR);
      await run();
    }
    const [stale] = (await deliveries(alert.id)).deliveries;
    assert.equal(stale.status, "failed", "old news are not kept for ever");
    assert.match(stale.error, /disabled/);
  });

  test("settings that cannot be opened are a reason, for a day", async () => {
    const alert = await anAlert();
    await house.house.database.write(
      (tx) =>
        tx.rows(
          {
            name: undefined,
            isSlow: false,
            text: "UPDATE alert_channels SET settings = 'x' WHERE alert_id = $1",
          },
          [alert.id],
        ),
      { audited: false },
    );
    await store.issue(wish(5));
    await run();
    const history = async () =>
      house.house.database.read((q) =>
        q.rows<{ status: string; attempts: number; error: string | null }>(
          {
            name: undefined,
            isSlow: true,
            text: "SELECT status, attempts, last_error AS error FROM alert_deliveries WHERE alert_id = $1",
          },
          [alert.id],
        ),
      );
    const [first] = await history();
    assert.deepEqual([first?.status, first?.attempts], ["pending", 1]);
    assert.match(first?.error ?? "", /could not be sent/);
    for (let hour = 0; hour < 26; hour += 1) {
      house.clock.advance(HOUR);
      await run();
    }
    assert.deepEqual((await history())[0]?.status, "failed");
  });

  test("a retry of what is being sent at this moment is refused", async () => {
    const alert = await anAlert({ eventType: "issuance" });
    const isAsked = new Promise<void>((asked) => {
      receiver.answer = () => {
        asked();
        return undefined;
      };
    });
    await store.issue(wish(90));
    const sending = run();
    await isAsked;
    const [underWay] = (await deliveries(alert.id)).deliveries;
    const path = `${PATH}/${alert.id}/deliveries/${underWay.id}/retry`;
    assert.equal((await house.owner.post(path)).status, 409);
    receiver.answer = () => 200;
    receiver.hangUp();
    await sending;
    assert.equal((await house.owner.post(path)).status, 200);
    await run();
    assert.equal((await deliveries(alert.id)).deliveries[0].status, "delivered");
  });

  test("a test goes through every channel now, also a disabled one, and says how each went", async () => {
    const alert = await anAlert({
      channels: [
        { config: { url: `${receiver.url}/one` } },
        { config: { url: `${receiver.url}/two` } },
        { config: { url: `${receiver.url}/off` }, enabled: false },
      ],
    });
    receiver.answer = ({ path }) => (path === "/two" ? 404 : 200);
    const { status, body } = await house.owner.post(`${PATH}/${alert.id}/test`);
    assert.equal(status, 200);
    assert.equal(body.success, false);
    assert.deepEqual(
      body.results.map((one: { success: boolean; error?: string }) => [one.success, one.error]),
      [
        [true, undefined],
        [false, "answered 404"],
        [true, undefined],
      ],
    );
    assert.deepEqual(
      take()
        .map(({ json, path }) => [json.type, path])
        .sort(),
      [
        ["dev.keyward.certificate.test", "/off"],
        ["dev.keyward.certificate.test", "/one"],
        ["dev.keyward.certificate.test", "/two"],
      ],
    );
    assert.deepEqual(
      (await deliveries(alert.id)).deliveries
        .map((one: { eventType: string; status: string }) => [one.eventType, one.status])
        .sort(),
      [
        ["test", "delivered"],
        ["test", "delivered"],
        ["test", "failed"],
      ],
    );
    await run();
    assert.equal(take().length, 0);
  });

  test("a webhook can be tried before an alert is made of it", async () => {
    await anAlert();
    for (const path of [`${PATH}/test-webhook`, "/api/v2/pki/alerts/test-webhook"]) {
      assert.deepEqual(
        (await house.owner.post(path, { projectId, url: `${receiver.url}/x`, signingSecret: "s" })).body,
        { success: true },
      );
    }
    for (const { json } of take()) {
      const { viewUrl } = json.data.metadata;
      assert.ok(viewUrl.startsWith(`https://keyward.example/projects/${projectId}/alerts/`), viewUrl);
      const page = await house.anonymous.get(viewUrl.replace("https://keyward.example", ""));
      assert.equal(page.status, 200);
    }
    receiver.answer = () => 401;
    assert.deepEqual(
      (await house.owner.post(`${PATH}/test-webhook`, { projectId, url: `${receiver.url}/x` })).body,
      { success: false, error: "answered 401" },
    );
    for (const url of ["nowhere", "https://169.254.169.254/"])
      assert.equal((await house.owner.post(`${PATH}/test-webhook`, { projectId, url })).status, 422);
  });

  test("several nodes at once send each delivery once", async () => {
    await anAlert({ eventType: "issuance" });
    const nodes = [house, await house.openNode(), await house.openNode()];
    for (let count = 0; count < 40; count += 1) await store.issue(wish(90));
    await Promise.all(nodes.map((node) => node.house.alertWork.runNow()));
    const ids = take().map(({ json }) => json.id);
    assert.equal(ids.length, 40);
    assert.equal(new Set(ids).size, 40);
  });

  test("a dead receiver with a long queue does not delay another", async () => {
    await anAlert({ eventType: "issuance" });
    const dead = await openReceiver();
    dead.answer = () => undefined;
    cleanUp.push(() => dead.close());
    await addAlert({ eventType: "issuance", channels: [{ config: { url: `${dead.url}/` } }] });
    for (let count = 0; count < 30; count += 1) await store.issue(wish(90));
    await house.house.alertWork.jobs.find((job) => job.name === "alert-facts")?.run();
    house.house.alertWork.start();
    try {
      for (let waited = 0; receiver.received.length < 30 && waited < 500; waited += 1)
        await new Promise((done) => setTimeout(done, 20));
      assert.equal(take().length, 30);
      assert.ok(dead.received.length <= 4, `${dead.received.length} at once`);
    } finally {
      await dead.close();
      await house.house.alertWork.stop();
    }
  });
});

describe("the calendar", () => {
  test("a link shows upcoming expiries without a token until it is revoked", async () => {
    await anAlert();
    await store.issue(wish(5, { commonName: `long, with; signs \\ and ${"ü".repeat(60)}` }));
    await store.issue(wish(2, { commonName: "soon" }));
    const made = await house.owner.post(`${PATH}/calendars`, { projectId });
    assert.equal(made.status, 200, JSON.stringify(made.body));
    const path = made.body.calendar.url.replace("https://keyward.example", "");
    const shown = await house.anonymous.get(path);
    assert.equal(shown.status, 200);
    assert.match(shown.headers.get("content-type") ?? "", /^text\/calendar/);
    assert.ok(shown.body.split("\r\n").every((line: string) => Buffer.byteLength(line) <= 75));
    const unfolded = shown.body.replaceAll("\r\n ", "");
    assert.ok(unfolded.includes("SUMMARY:long\\, with\\; signs \\\\ and"));
    assert.ok(unfolded.indexOf("soon expires") < unfolded.indexOf("SUMMARY:long"));
    const key = path.split("key=")[1] ?? "";
    const [id = "", mac = ""] = key.split(".");
    for (const forged of [`${id}.${"A".repeat(43)}`, `${randomUUID()}.${mac}`, id, "x", `${key}A`]) {
      assert.equal((await house.anonymous.get(`${PATH}/calendar.ics?key=${forged}`)).status, 404, forged);
    }
    assert.equal((await house.anonymous.get(`${PATH}/calendar.ics`)).status, 422);
    const { calendars } = (await house.owner.get(`${PATH}/calendars?projectId=${projectId}`)).body;
    assert.equal(calendars.length, 1);
    assert.ok(!JSON.stringify(calendars).includes(mac));
    const other = await house.newTenant();
    assert.equal((await other.delete(`${PATH}/calendars/${id}`)).status, 404);
    assert.equal((await house.owner.delete(`${PATH}/calendars/${id}`)).status, 200);
    assert.equal((await house.anonymous.get(path)).status, 404);
  });
});
