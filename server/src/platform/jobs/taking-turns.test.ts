import assert from "node:assert/strict";
import { test } from "node:test";
import { takingTurns } from "./index.ts";

test("one tenant's backlog does not hold up another's; a failure ends its own walk only", async () => {
  const order: string[] = [];
  async function* walk(name: string, chunks: number): AsyncGenerator<void> {
    for (let n = 1; n <= chunks; n += 1) {
      order.push(`${name}${n}`);
      if (name === "bad") throw new Error("bad");
      yield;
    }
  }
  await assert.rejects(takingTurns([walk("a", 4), walk("bad", 3), walk("b", 2)]), /bad/);
  assert.deepEqual(order, ["a1", "bad1", "b1", "a2", "b2", "a3", "a4"]);
});

test("what a run may do in all is shared between the walks", async () => {
  let left = 5;
  async function* walk(): AsyncGenerator<void> {
    for (;;) {
      left -= 1;
      yield;
    }
  }
  await takingTurns([walk(), walk(), walk()], () => left <= 0);
  assert.equal(left, 0);
});
