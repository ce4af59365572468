import assert from "node:assert/strict";
import { afterEach, describe, test } from "node:test";
import {
  anAlert,
  DAY,
  HOUR,
  house,
  pager,
  PATH,
  projectId,
  run,
  store,
  wish,
} from "../../test/alert-stage.ts";

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

  test("a resolution waits for its trigger", async () => {
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

  test("what was reported so long ago that its row is deleted is still resolved", async () => {
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

  test("what is replaced while the alert or its channel is disabled is resolved when it is enabled again", async () => {
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
    // Failed and renewed before anything was reported.
    const third = await store.issue(wish(30));
    await store.failRenewal(third, projectId, "no");
    await store.renew(third, wish(90));
    await run();
    assert.deepEqual(paged(), []);
  });
});
