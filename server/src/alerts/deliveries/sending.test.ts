import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { describe, test } from "node:test";
import {
  anAlert,
  cleanUp,
  DAY,
  deliveries,
  HOUR,
  house,
  PATH,
  receiver,
  run,
  store,
  take,
  to,
  told,
  wish,
} from "../../../test/alert-stage.ts";

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

  test("a machine that was paused longer than its claim is valid does not repeat what it is sending", async () => {
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

  test("a receiver that refuses for good is not tried again", async () => {
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

  test("what waits for a removed channel goes to another of the alert that has not had it yet", async () => {
    const alert = await anAlert({
      channels: [to("/dead"), to("/good"), { config: { recipients: ["a@example.com"] } }],
    });
    const [, good, mail] = alert.channels;
    receiver.answer = ({ path }) => (path === "/dead" ? 503 : 200);
    const id = await store.issue(wish(3));
    await run();
    const [dead] = take().filter(({ path }) => path === "/dead");
    // Both that are left have it or will: nothing to move.
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
});
