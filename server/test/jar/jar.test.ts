/** Some hundreds of histories in every test run; KEYWARD_JAR=1000000 npm test -- test/jar (npm run test:jar) tries that many. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Worker } from "node:worker_threads";
import { diceOf, Jar } from "./jar.ts";
import type { Findings, Stretch } from "./worker.ts";
import { sized } from "../full-size.ts";

const HISTORIES = Number(process.env["KEYWARD_JAR"] ?? sized(400, 2000));
const FIRST = Number(process.env["KEYWARD_JAR_SEED"] ?? Math.floor(Math.random() * 2 ** 31));

/** One for a run among other tests; a long run is alone. */
const THREADS = HISTORIES > 10_000 ? 2 : 1;

const run = (stretch: Stretch): Promise<Findings> =>
  new Promise((resolve, reject) => {
    const worker = new Worker(new URL("./worker.js", import.meta.url), { workerData: stretch });
    worker.once("message", resolve);
    worker.once("error", reject);
  });

describe(`the tail in a jar (KEYWARD_JAR_SEED=${FIRST})`, () => {
  it(`P-07 loses nothing, keeps the order, tells once and is never fresher than its snapshot, in ${HISTORIES} histories`, async (t) => {
    const sum: Record<string, number> = {};
    const each = Math.ceil(HISTORIES / THREADS);
    const stretches = Array.from({ length: THREADS }, (_, n) =>
      run({ first: FIRST + n * each, count: each }),
    );
    for (const { seed, faults, seen } of await Promise.all(stretches)) {
      assert.deepEqual(faults, [], `again: KEYWARD_JAR=1 KEYWARD_JAR_SEED=${seed} npm test -- test/jar`);
      for (const [what, count] of Object.entries(seen)) sum[what] = (sum[what] ?? 0) + count;
    }
    // The histories are worth something only if what they are about happens in them.
    for (const what of HISTORIES < 100 ? [] : ["told", "gaps", "reconnects", "lossy"])
      assert.ok((sum[what] ?? 0) > HISTORIES / 10, `${what}: ${sum[what]}`);
    t.diagnostic(JSON.stringify(sum));
  });

  it("P-07 F4 is fresh 99.9 % of the time while a hundred transactions are always between number and commit", async () => {
    const roll = diceOf(FIRST);
    const jar = new Jar(roll, { latencyMs: 0.5 });
    await jar.start();
    const { schedule } = jar;
    let [fresh, asked] = [0, 0];
    const [perMs, delayMs] = [3, 35];
    for (let ms = 0; ms < 2500; ms += 1) {
      for (let n = 0; n < perMs; n += 1)
        jar.transact({ facts: 1, isOwn: false, isKept: true, openMs: roll(2 * delayMs), showMs: 0 });
      await schedule.runUntil(schedule.now + 1);
      asked += 1;
      if (ms % 250 === 0 ? jar.checkFreshness() : jar.tail.isFresh()) fresh += 1;
    }
    await jar.judge();
    assert.deepEqual(jar.faults, []);
    assert.ok(fresh / asked >= 0.999, `fresh in ${fresh} of ${asked} milliseconds`);
  });
});
