import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { aPki, issue } from "../../test/certificates.ts";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";
import { systemClock, type Clock } from "./clock.ts";
import { createClockWatch } from "./clock-watch.ts";
import type { Log } from "./log.ts";

describe("a node's clock beside the database's", () => {
  let house: TestHouse;
  before(async () => {
    house = await openTestHouse();
  });
  after(() => house.close());

  const watchOf = (aheadMs: number) => {
    const own = { aheadMs };
    const said: string[] = [];
    const note = (level: string) => () => void said.push(level);
    const clock: Clock = {
      now: () => new Date(Date.now() + own.aheadMs),
      millis: () => Date.now() + own.aheadMs,
      elapsed: systemClock.elapsed,
    };
    const log = {
      debug: note("debug"),
      info: note("info"),
      warn: note("warn"),
      error: note("error"),
    } as unknown as Log;
    return { own, said, watch: createClockWatch(clock, log) };
  };
  const isNow = (clock: Clock) => Math.abs(clock.millis() - Date.now()) < 1500;

  it("is its own while they agree, and nothing is said", async () => {
    const { said, watch } = watchOf(0);
    await watch.compare(house.house.database);
    assert.ok(Math.abs(watch.offsetMs()) < 1000, "a calendar shows whole milliseconds");
    assert.deepEqual(said, []);
    assert.equal(watch.clock.isTrusted?.(), true);
  });

  it("is the database's where they differ by seconds: it logs so once, keeps signing, and logs when it is over", async () => {
    const { own, said, watch } = watchOf(5000);
    await watch.compare(house.house.database);
    await watch.compare(house.house.database);
    assert.ok(isNow(watch.clock), "by the database's time");
    assert.ok(Number.isInteger(watch.clock.millis()), "in whole milliseconds: ids are made of them");
    assert.deepEqual(said, ["warn"]);
    assert.equal(watch.clock.isTrusted?.(), true);
    const [measure] = watch.measures;
    const [reading] = (await measure?.read()) ?? [];
    assert.ok(Math.abs(Number(reading?.value) + 5) < 1.5);
    own.aheadMs = 0;
    await watch.compare(house.house.database);
    assert.deepEqual(said, ["warn", "info"]);
  });

  it("does not follow a step before the database was asked, neither away from the right time nor back to it", async () => {
    const DAY = 86_400_000;
    const { own, watch } = watchOf(0);
    const { clock } = watch;
    await watch.compare(house.house.database);
    for (const aheadMs of [31 * DAY, 0, -DAY, 0]) {
      own.aheadMs = aheadMs;
      assert.ok(isNow(clock), `right after the step to ${aheadMs}`);
      assert.ok(Number.isInteger(clock.millis()));
      assert.equal(clock.isTrusted?.(), false, "signs nothing before it knows");
      await watch.compare(house.house.database);
      assert.ok(isNow(clock));
      assert.equal(clock.isTrusted?.(), aheadMs === 0);
    }
    watch.start(house.house.database);
    own.aheadMs = DAY;
    const until = performance.now() + 5000;
    while (Math.abs(watch.offsetMs()) < 1000 && performance.now() < until) {
      clock.millis();
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    watch.stop();
    assert.ok(Math.abs(watch.offsetMs() + DAY) < 5000, "compared at once, not after ten seconds");
  });

  for (const minutes of [-5, 5])
    it(`signs nothing where they differ by ${minutes} minutes, and judges tokens by the database's`, async () => {
      const { said, watch } = watchOf(minutes * 60_000);
      await watch.compare(house.house.database);
      assert.deepEqual(said, ["error"]);
      assert.ok(isNow(watch.clock));
      assert.equal(watch.clock.isTrusted?.(), false);
      const pki = await aPki(house);
      await issue(house.owner, pki.profile.id);
      Object.assign(house.clock, { isTrusted: watch.clock.isTrusted });
      try {
        const body = { profileId: pki.profile.id, attributes: { commonName: "late.example.com" } };
        const refused = await house.owner.post("/api/v1/cert-manager/certificates", body);
        assert.equal(refused.status, 503, JSON.stringify(refused.body));
        assert.match(refused.body.message, /clock/);
        assert.equal((await house.owner.get("/api/v1/organization")).status, 200, "everything else works");
      } finally {
        Object.assign(house.clock, { isTrusted: undefined });
      }
    });
});
