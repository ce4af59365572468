import assert from "node:assert/strict";
import { pbkdf2 } from "node:crypto";
import { describe, test } from "node:test";
import { promisify } from "node:util";
import { Problem } from "../../../platform/problem.ts";
import { createTurns, makeKey } from "./service.ts";

describe("keys for certificates", () => {
  test("many RSA keys at once do not keep a login waiting, which needs the same threads", async () => {
    let made = 0;
    const keys = Array.from({ length: 12 }, () => makeKey("RSA_2048").then(() => (made += 1)));
    await promisify(pbkdf2)("a password", "salt", 1, 32, "sha256");
    assert.ok(made <= 4, `${made} keys were made before`);
    await Promise.all(keys);
    assert.equal(made, 12, "each in its turn");
  });

  test("whoever would wait for too long is told so at once; a failure passes its turn on", async () => {
    const inTurn = createTurns(2, 3);
    let [running, most] = [0, 0];
    const work = async () => {
      most = Math.max(most, (running += 1));
      await new Promise((resolve) => setImmediate(resolve));
      running -= 1;
      throw new Error("no key");
    };
    const round = async () => {
      const ends = await Promise.allSettled(Array.from({ length: 7 }, () => inTurn(work)));
      return ends.map((end) => (end as PromiseRejectedResult).reason);
    };
    for (let times = 0; times < 3; times += 1) {
      const reasons = await round();
      assert.deepEqual(
        reasons.map((reason) => (reason instanceof Problem ? reason.status : reason.message)),
        ["no key", "no key", "no key", "no key", "no key", 429, 429],
      );
    }
    assert.deepEqual([most, running], [2, 0]);
  });
});
