import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { openReceiver } from "../../../test/alert-receiver.ts";
import {
  addAlert,
  anAlert,
  cleanUp,
  deliveries,
  HOUR,
  house,
  PATH,
  projectId,
  receiver,
  run,
  store,
  take,
  to,
  told,
  wish,
} from "../../../test/alert-stage.ts";

describe("what waits", () => {
  test("what waits is not sent once its certificates are renewed or revoked, and the history says so", async () => {
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

  test("settings that cannot be decrypted are retried for a day, with that reason", async () => {
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
            isSlow: false,
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
      for (let waited = 0; receiver.received.length < 30 && waited < 6000; waited += 1)
        await new Promise((done) => setTimeout(done, 20));
      assert.equal(take().length, 30);
      assert.ok(dead.received.length <= 4, `${dead.received.length} at once`);
    } finally {
      await dead.close();
      await house.house.alertWork.stop();
    }
  });
});
