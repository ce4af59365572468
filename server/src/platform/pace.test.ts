import assert from "node:assert/strict";
import { test } from "node:test";
import { inChunks } from "./pace.ts";

const spend = (ms: number): void => {
  const until = performance.now() + ms;
  while (performance.now() < until);
};

test("H5 however many long loops there are, a round of the event loop holds one chunk", async () => {
  let rounds = 0;
  let isOver = false;
  const count = (): void => {
    rounds += 1;
    if (!isOver) setImmediate(count);
  };
  count();
  const done: number[] = [];
  await Promise.all(
    Array.from({ length: 8 }, async (_none, loop) => {
      await inChunks([1, 2, 3, 4, 5], () => (spend(1.2), done.push(loop)));
    }),
  );
  isOver = true;
  assert.equal(done.length, 40);
  // Each loop's first chunk is in the caller's own time; the other 32 have a round each.
  assert.ok(rounds >= 32, `${rounds} rounds for 32 bites`);
  assert.deepEqual(done.slice(8, 16), [0, 1, 2, 3, 4, 5, 6, 7], "in turns");
});
