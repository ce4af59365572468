import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { describe, test } from "node:test";
import {
  anAlert,
  DAY,
  deliveries,
  HOUR,
  house,
  PATH,
  projectId,
  receiver,
  run,
  store,
  take,
  told,
  wish,
} from "../../test/alert-stage.ts";

describe("expiration", () => {
  test("a certificate is reported once, from the moment it is due", async () => {
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

  test("an hour-long certificate is reported, though it was due when it was issued", async () => {
    await anAlert({ alertBefore: "30d" });
    await run();
    const [first, second] = [await store.issue(wish(1 / 24)), await store.issue(wish(1.5 / 24))];
    house.clock.advance(60_000);
    await run();
    assert.deepEqual(told(), [["expiration", [first, second]]]);
  });

  test("a replaced, revoked or expired certificate is not reported", async () => {
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

  test("an alert that is changed from daily to once does not repeat what it reported", async () => {
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

  test("filters, application and include_cas decide; a change of them takes effect", async () => {
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

  test("a CA certificate is reported when include_cas asks for it", async () => {
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

  test("a disabled alert or one whose channels are all disabled sends nothing, and does when that changes", async () => {
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
