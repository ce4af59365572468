import assert from "node:assert/strict";
import { test } from "node:test";
import { createBound } from "./bound.ts";
import type { Query } from "./db/index.ts";
import { Problem } from "./problem.ts";

const nothing = {} as Query;

test("a bound is exact for one node, and counts far less often than it is asked", async () => {
  let [there, counts] = [0, 0];
  const bound = createBound({
    most: 100_000,
    words: ["A box has at most", "things"],
    count: async () => {
      counts += 1;
      return there;
    },
  });
  for (; there < 100_000; there += 1) await bound.leaveRoom(nothing, "box");
  await assert.rejects(
    bound.leaveRoom(nothing, "box"),
    (error) =>
      error instanceof Problem &&
      error.status === 400 &&
      error.message === "A box has at most 100,000 things.",
  );
  assert.ok(counts < 300, `${counts} counts`);
  there -= 1;
  await bound.leaveRoom(nothing, "box");
});

test("several nodes together do not pass it, each box has its own, and many are asked for at once", async () => {
  let there = 0;
  const options = {
    most: 20_000,
    words: ["A box has at most", "things"] as const,
    count: async () => there,
  };
  const nodes = Array.from({ length: 8 }, () => createBound(options));
  let refused = 0;
  for (let n = 0; n < 24_000; n += 1) {
    const allowed = await nodes[n % 8]?.leaveRoom(nothing, "box").then(
      () => true,
      () => false,
    );
    if (allowed) there += 1;
    else refused += 1;
  }
  assert.equal(there, 20_000);
  assert.equal(refused, 4000);
  await assert.rejects(nodes[0]?.leaveRoom(nothing, "box") ?? Promise.resolve());
  there = 19_000;
  await nodes[0]?.leaveRoom(nothing, "other", 1000);
  await assert.rejects(nodes[1]?.leaveRoom(nothing, "third", 1001) ?? Promise.resolve());
});
