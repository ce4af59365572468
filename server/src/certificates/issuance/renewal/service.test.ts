import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { aPki, issue, ok } from "../../../../test/certificates.ts";
import { openTestHouse, type TestHouse } from "../../../../test/harness.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const CERTS = "/api/v1/cert-manager/certificates";

describe("automatic renewal", () => {
  let house: TestHouse;
  before(async () => {
    house = await openTestHouse();
  });
  after(() => house.close());

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
    const one = await aPki(house, { apiConfig: { autoRenew: true, renewBeforeDays: 2 } });
    const { certificateId } = await issue(one.client, one.profile.id, { ttl: "10d" });
    const shown = async () => ok(await one.client.get(`${CERTS}/${certificateId}`)).certificate;
    ok(await one.client.patch(`/api/v1/cert-manager/ca/internal/${one.root.id}`, { status: "disabled" }));
    house.clock.advance(8 * DAY + 1000);
    const pauses: number[] = [];
    while ((await shown()).status === "active") {
      await house.house.jobs.runDue();
      const { renewAt, renewalError } = await shown();
      assert.match(renewalError, /does not issue/);
      if (renewAt === null) break;
      pauses.push(Date.parse(renewAt) - house.clock.millis());
      house.clock.advance((pauses.at(-1) ?? 0) + 1000);
    }
    assert.ok(pauses.length >= 5, `tried ${pauses.length} times in two days`);
    for (const [at, pause] of pauses.entries())
      assert.ok(at === 0 || pause >= (pauses[at - 1] ?? 0) || pause >= HOUR / 2, "the pauses grow");
    house.clock.advance(3 * DAY);
    ok(await one.client.patch(`/api/v1/cert-manager/ca/internal/${one.root.id}`, { status: "active" }));
    await house.house.jobs.runDue();
    assert.equal((await one.list()).body.certificates.length, 1, "what has ended is not renewed");
    assert.equal((await shown()).renewAt, null);
  });
});
