import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { until } from "../../../test/builders.ts";
import { createTestDatabase, stopOwnPostgres, type TestDatabase } from "../../../test/postgres.ts";
import { steppedClock } from "../clock.ts";
import { openDatabase, type Database } from "../db/index.ts";
import { silentLog } from "../log.ts";
import { createJobs, inBatches } from "./index.ts";

describe("jobs", () => {
  let test: TestDatabase;
  let db: Database;
  const clock = steppedClock();
  before(async () => {
    test = await createTestDatabase();
    db = openDatabase({ connection: test.connection, connections: 8, clock, onError: () => undefined });
  });
  after(async () => {
    await db.close();
    await test.drop();
    await stopOwnPostgres();
  });

  const node = (name: string, run: () => Promise<void>, everySeconds = 60) => {
    const jobs = createJobs({ db, clock, log: silentLog });
    jobs.add({ name, everySeconds, run });
    return jobs;
  };

  it("run on one node of many, once per interval", async () => {
    let runs = 0;
    const nodes = Array.from({ length: 6 }, () => node("once", async () => void (runs += 1)));
    await Promise.all(nodes.map((each) => each.runDue()));
    assert.equal(runs, 1);
    clock.advance(61_000);
    await Promise.all(nodes.map((each) => each.runDue()));
    assert.equal(runs, 2);
  });

  it("are taken over when the node that ran them died", async () => {
    const dead = node("orphan", () => new Promise(() => undefined));
    void dead.runDue();
    let runs = 0;
    const heir = node("orphan", async () => void (runs += 1));
    const deadline = Date.now() + 120_000;
    // The claim of the dead node must be in the database first.
    const claimed = async () => (await heir.runDue()).length === 0;
    while (!(await claimed()) && Date.now() < deadline) runs = 0;
    clock.advance(61_000);
    await heir.runDue();
    assert.equal(runs, 1);
  });

  it("are not ended by a node that comes back after another has taken them over", async () => {
    const begun: (() => void)[] = [];
    const slow = () => new Promise<void>((resolve) => void begun.push(resolve));
    const begin = async () => {
      const count = begun.length + 1;
      const turn = node("taken-over", slow, 10).runDue();
      await until(async () => begun.length === count, 20_000);
      return { end: begun[count - 1] as () => void, turn };
    };
    const third = node("taken-over", async () => undefined, 10);
    const late = await begin();
    clock.advance(61_000);
    const heir = await begin();
    late.end();
    await late.turn;
    clock.advance(30_000);
    assert.deepEqual(await third.runDue(), [], "the heir still has it");
    heir.end();
    await heir.turn;
    clock.advance(11_000);
    assert.deepEqual(await third.runDue(), ["taken-over"]);
  });

  it("go on at their next time after a failure", async () => {
    let runs = 0;
    const jobs = node("failing", async () => {
      runs += 1;
      throw new Error("not today");
    });
    await jobs.runDue();
    await jobs.runDue();
    assert.equal(runs, 1);
    clock.advance(61_000);
    await jobs.runDue();
    assert.equal(runs, 2);
  });

  it("R-13 are not stopped by a clock that once ran a year ahead", async () => {
    let runs = 0;
    const jobs = node("skewed", async () => void (runs += 1));
    clock.advance(365 * 86_400_000);
    await jobs.runDue();
    clock.advance(-365 * 86_400_000 + 61_000);
    await jobs.runDue();
    assert.equal(runs, 2);
  });

  const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

  it("do not wait for one another", async () => {
    let runs = 0;
    const jobs = node("endless", () => new Promise(() => undefined));
    jobs.add({ name: "beside", everySeconds: 1, run: async () => void (runs += 1) });
    jobs.start();
    const deadline = Date.now() + 120_000;
    while (runs < 2 && Date.now() < deadline) await pause(20);
    assert.ok(runs >= 2);
    const stoppedAt = Date.now();
    await jobs.stop();
    assert.ok(Date.now() - stoppedAt < 60_000, "a stop does not wait for ever");
    let heirRuns = 0;
    await node("endless", async () => void (heirRuns += 1)).runDue();
    assert.equal(heirRuns, 1, "what was cut off is free for the next node");
  });

  it("do large clean-ups in chunks until nothing is left", async () => {
    const chunks: number[] = [];
    let left = 12_000;
    await inBatches(async (batch) => {
      const chunk = Math.min(batch, left);
      left -= chunk;
      chunks.push(chunk);
      return chunk;
    });
    assert.equal(left, 0);
    assert.ok(chunks.length > 1);
  });

  it("that take long hold up no others", async () => {
    const jobs = createJobs({ db, clock, log: silentLog });
    let [runs, starts] = [0, 0];
    let end = () => undefined as void;
    const endless = new Promise<void>((resolve) => (end = resolve));
    jobs.add(
      { name: "long", everySeconds: 1, run: () => ((starts += 1), endless) },
      { name: "short", everySeconds: 1, run: async () => void (runs += 1) },
    );
    jobs.start();
    await until(async () => runs >= 2, 10_000);
    assert.equal(starts, 1, "and are not begun again meanwhile");
    end();
    await jobs.stop();
  });

  it("are told when the node stops, so that they can end in the middle", async () => {
    const jobs = createJobs({ db, clock, log: silentLog });
    let [hasBegun, hasEnded] = [false, false];
    jobs.add({
      name: "listening",
      everySeconds: 60,
      async run(isStopping) {
        assert.equal(isStopping?.(), false);
        hasBegun = true;
        await until(async () => isStopping?.() ?? false, 20_000);
        hasEnded = true;
      },
    });
    jobs.start();
    await until(async () => hasBegun, 20_000);
    await jobs.stop();
    assert.ok(hasEnded);
  });
});
