import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { until } from "../../test/builders.ts";
import { aPki, issue, ok, type Pki } from "../../test/certificates.ts";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";
import { withClient } from "../../test/postgres.ts";

const MINUTE = 60_000;
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const CERTS = "/api/v1/cert-manager/certificates";

describe("automatic renewal", () => {
  let house: TestHouse;
  before(async () => {
    house = await openTestHouse();
  });
  after(() => house.close());

  const query = async (text: string, values: unknown[] = []) => {
    const { database, ...server } = house.database.connection;
    return withClient(server, database, async (client) => (await client.query(text, values)).rows);
  };
  const shownBy = (one: Pki, certificateId: string) => async () =>
    ok(await one.client.get(`${CERTS}/${certificateId}`)).certificate;
  const switchAuthority = async (one: Pki, status: "active" | "disabled") =>
    ok(await one.client.patch(`/api/v1/cert-manager/ca/internal/${one.root.id}`, { status }));

  test("comes when the given share of the lifetime is left, whatever the lifetime is", async () => {
    const one = await aPki(house, { apiConfig: { autoRenew: true, renewBeforePercent: 20 } });
    const count = async () => (await one.list()).body.certificates.length;
    const [long, short] = [
      await issue(one.client, one.profile.id, { ttl: "10d" }),
      await issue(one.client, one.profile.id, { ttl: "5h" }),
    ];
    for (const [{ certificateId }, left] of [
      [long, 2 * DAY],
      [short, HOUR],
    ] as const) {
      const { renewAt, notAfter } = ok(await one.client.get(`${CERTS}/${certificateId}`)).certificate;
      assert.equal(Date.parse(notAfter) - Date.parse(renewAt), left);
    }
    house.clock.advance(4 * HOUR - 60_000);
    await house.house.jobs.runDue();
    assert.equal(await count(), 2, "a minute too early");
    house.clock.advance(61_000);
    await house.house.jobs.runDue();
    assert.equal(await count(), 3);
    const { renewedByCertificateId } = ok(
      await one.client.get(`${CERTS}/${short.certificateId}`),
    ).certificate;
    assert.equal((await one.list()).body.certificates[0].id, renewedByCertificateId);
  });

  test("is tried again until the certificate ends, and not after", async () => {
    for (const { ttl, before, wait, tries } of [
      { ttl: "10d", before: { renewBeforeDays: 2 }, wait: 8 * DAY, tries: 15 },
      { ttl: "1h", before: { renewBeforePercent: 33 }, wait: HOUR - 20 * MINUTE, tries: 7 },
    ]) {
      const one = await aPki(house, { apiConfig: { autoRenew: true, ...before } });
      const { certificateId } = await issue(one.client, one.profile.id, { ttl });
      const shown = shownBy(one, certificateId);
      await switchAuthority(one, "disabled");
      house.clock.advance(wait + MINUTE);
      const pauses: number[] = [];
      let left = Number.POSITIVE_INFINITY;
      for (;;) {
        await house.house.jobs.runDue();
        const { status, renewAt, renewalError, notAfter } = await shown();
        if (status !== "active") break;
        assert.match(renewalError, /does not issue/);
        assert.notEqual(renewAt, null, "it has not ended yet");
        left = Date.parse(notAfter) - house.clock.millis();
        const pause = Date.parse(renewAt) - house.clock.millis();
        assert.ok(pause <= Math.max(left / 2, 30_000), "half of what is left, or half a minute");
        pauses.push(pause);
        house.clock.advance(pause + 1000);
      }
      assert.ok(pauses.length >= tries, `${ttl}: tried ${pauses.length} times`);
      assert.ok(left <= 61_000, `${ttl}: tried for the last time ${left} ms before the end`);
      const longest = pauses.indexOf(Math.max(...pauses));
      for (const [at, pause] of pauses.slice(0, longest).entries())
        assert.ok(pause <= (pauses[at + 1] ?? 0) + 5000, "the pauses grow until the end comes near");
      await switchAuthority(one, "active");
      // It may have ended right after the run; the next one is due half a minute later.
      house.clock.advance(31_000);
      await house.house.jobs.runDue();
      assert.equal((await one.list()).body.certificates.length, 1, "what has ended is not renewed");
      assert.equal((await shown()).renewAt, null);
    }
  });

  /** Renewed, and then as a process leaves it that dies between recording and storing. */
  const interrupted = async (one: Pki) => {
    const { certificateId } = await issue(one.client, one.profile.id, { ttl: "10d" });
    const { renewAt } = await shownBy(one, certificateId)();
    house.clock.advance(8 * DAY + 1000);
    await house.house.jobs.runDue();
    const { renewedByCertificateId: madeId } = await shownBy(one, certificateId)();
    const { certificate, serialNumber } = ok(await one.client.get(`${CERTS}/${madeId}/certificate`));
    const { raw } = new X509Certificate(certificate);
    await query(
      `UPDATE certificate_requests r SET status = 'pending', tbs = $2, context = $3, data_key_id = b.data_key_id, sealed_key = b.sealed_key
       FROM certificate_bodies b WHERE b.certificate_id = $1 AND r.certificate_id = $1`,
      [
        madeId,
        raw.subarray(4, 4 + 4 + raw.readUInt16BE(6)),
        { renewedFromId: certificateId, autoRenew: true, renewBeforeSeconds: 172_800 },
      ],
    );
    await query("DELETE FROM certificates WHERE id = $1", [madeId]);
    await query("DELETE FROM certificate_bodies WHERE certificate_id = $1", [madeId]);
    await query("UPDATE certificates SET renewed_by_id = NULL, renew_at = $2 WHERE id = $1", [
      certificateId,
      renewAt,
    ]);
    return { certificateId, serialNumber };
  };

  test("that was interrupted is finished with the recorded serial number", async () => {
    const one = await aPki(house, { apiConfig: { autoRenew: true, renewBeforeDays: 2 } });
    const { certificateId, serialNumber } = await interrupted(one);
    const node = await house.openNode();
    house.clock.advance(60_000);
    await Promise.all([house.house.jobs.runDue(), node.house.jobs.runDue()]);
    await node.close();
    const { renewedByCertificateId } = await shownBy(one, certificateId)();
    assert.equal((await shownBy(one, renewedByCertificateId)()).serialNumber, serialNumber);
    assert.equal((await one.list()).body.certificates.length, 2);
  });

  test("that was interrupted before its CA changed is started again at the next try", async () => {
    const one = await aPki(house, { apiConfig: { autoRenew: true, renewBeforeDays: 2 } });
    const { certificateId } = await interrupted(one);
    ok(
      await one.client.post(`/api/v1/cert-manager/ca/internal/${one.root.id}/renew`, {
        type: "existing",
        notAfter: new Date(house.clock.millis() + 4000 * DAY).toISOString(),
      }),
    );
    const shown = shownBy(one, certificateId);
    house.clock.advance(60_000);
    await house.house.jobs.runDue();
    assert.match((await shown()).renewalError, /authority's certificate changed/);
    house.clock.advance(120_000);
    await house.house.jobs.runDue();
    const { renewedByCertificateId, renewalError } = await shown();
    assert.equal(renewalError, null);
    assert.equal((await shownBy(one, renewedByCertificateId)()).status, "active");
  });

  test("ends with the profile: nothing is signed without its policy, and that is reported once", async () => {
    const one = await aPki(house, { apiConfig: { autoRenew: true, renewBeforeDays: 2 } });
    const { certificateId } = await issue(one.client, one.profile.id, { ttl: "10d" });
    ok(await one.client.delete(`/api/v1/cert-manager/certificate-profiles/${one.profile.id}`));
    house.clock.advance(8 * DAY + 1000);
    const told = new Set<string>();
    for (let times = 0; times < 3; times += 1) {
      await house.house.jobs.runDue();
      const facts = await query(
        "SELECT seq::text AS id FROM outbox WHERE name = 'certificate.renewal-failed' AND data->>'certificateId' = $1",
        [certificateId],
      );
      for (const { id } of facts) told.add(id);
      house.clock.advance(HOUR);
    }
    assert.equal(told.size, 1);
    const { renewAt, renewalError, renewedByCertificateId } = await shownBy(one, certificateId)();
    assert.deepEqual([renewAt, renewedByCertificateId], [null, null]);
    assert.match(renewalError, /profile .*deleted/);
  });

  test("switched on or off for one certificate is so for those that replace it too", async () => {
    const one = await aPki(house);
    const { certificateId } = await issue(one.client, one.profile.id, { ttl: "10d" });
    assert.equal((await shownBy(one, certificateId)()).renewAt, null, "the profile does not say so");
    ok(await one.client.patch(`${CERTS}/${certificateId}/config`, { renewBeforeDays: 2 }));
    assert.equal((await one.client.patch(`${CERTS}/${certificateId}/config`, {})).status, 422);
    let shown = await shownBy(one, certificateId)();
    assert.equal(shown.renewBeforeDays, 2);
    for (let times = 0; times < 3; times += 1) {
      house.clock.advance(8 * DAY + 1000);
      await house.house.jobs.runDue();
      const { renewedByCertificateId } = await shownBy(one, shown.id)();
      assert.ok(renewedByCertificateId, `renewed ${times} times only`);
      shown = await shownBy(one, renewedByCertificateId)();
      assert.equal(Date.parse(shown.notAfter) - Date.parse(shown.renewAt), 2 * DAY);
    }

    const other = await aPki(house, { apiConfig: { autoRenew: true, renewBeforeDays: 2 } });
    const quiet = await issue(other.client, other.profile.id, { ttl: "10d" });
    ok(await other.client.patch(`${CERTS}/${quiet.certificateId}/config`, { enableAutoRenewal: false }));
    const next = ok(await other.client.post(`${CERTS}/${quiet.certificateId}/renew`, {}));
    assert.equal((await shownBy(other, next.certificateId)()).renewAt, null);
    ok(await other.client.patch(`${CERTS}/${next.certificateId}/config`, { enableAutoRenewal: true }));
    const { renewAt, notAfter } = await shownBy(other, next.certificateId)();
    assert.equal(Date.parse(notAfter) - Date.parse(renewAt), 2 * DAY, "as the profile says");
  });

  test("that somebody else was quicker with has not failed", async () => {
    const one = await aPki(house, { apiConfig: { autoRenew: true, renewBeforeDays: 2 } });
    const { certificateId } = await issue(one.client, one.profile.id, { ttl: "10d" });
    house.clock.advance(8 * DAY + 1000);
    const { database, ...server } = house.database.connection;
    await withClient(server, database, async (client) => {
      await client.query("BEGIN");
      await client.query(
        "UPDATE certificates SET renewed_by_id = gen_random_uuid(), renew_at = NULL WHERE id = $1",
        [certificateId],
      );
      const running = house.house.jobs.runDue();
      await until(async () => {
        const recorded = "SELECT 1 FROM certificate_requests WHERE context ->> 'renewedFromId' = $1";
        return (await client.query(recorded, [certificateId])).rows.length > 0;
      }, 5000);
      await client.query("COMMIT");
      await running;
    });
    const failed =
      "SELECT 1 FROM outbox WHERE name = 'certificate.renewal-failed' AND data->>'certificateId' = $1";
    assert.deepEqual(await query(failed, [certificateId]), []);
    assert.equal((await shownBy(one, certificateId)()).renewalError, null);
  });

  test("requests are forgotten after a month, however many there are", async () => {
    const one = await aPki(house);
    await issue(one.client, one.profile.id);
    await query(
      `INSERT INTO certificate_requests (id, project_id, certificate_id, serial_number, status, created_at, updated_at)
       SELECT gen_random_uuid(), $1, gen_random_uuid(), g::text, 'issued', $2, $2 FROM generate_series(1, 12000) g`,
      [one.project.id, new Date(house.clock.millis() - 31 * DAY)],
    );
    house.clock.advance(MINUTE + 1000);
    await house.house.jobs.runDue();
    const left = "SELECT count(*)::int AS n FROM certificate_requests WHERE project_id = $1";
    assert.deepEqual(await query(left, [one.project.id]), [{ n: 2 }], "the root's and the certificate's own");
  });
});
