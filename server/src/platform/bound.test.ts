import assert from "node:assert/strict";
import { test } from "node:test";
import { createBound } from "./bound.ts";
import type { Tx } from "./db/index.ts";
import { Problem } from "./problem.ts";

/** A change that has ended as soon as it was allowed. */
const nothing = { atEnd: (done: () => void) => done() } as Tx;
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

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
  const before = counts;
  for (let n = 0; n < 100; n += 1) await assert.rejects(bound.leaveRoom(nothing, "box"));
  assert.ok(counts - before <= 10, `${counts - before} counts of what is known to be full`);
  there -= 1;
  await pause(1100);
  await bound.leaveRoom(nothing, "box");
});

test("many at once on one node: as many get in as there is room for, no fewer and no more", async () => {
  for (const [most, free] of [
    [1000, 1],
    [1000, 10],
    [100_000, 25],
  ] as const) {
    let there = most - free;
    const bound = createBound({
      most,
      words: ["A box has at most", "things"],
      count: async () => {
        const counted = there;
        await pause(counted % 3);
        return counted;
      },
    });
    const one = async () => {
      const ends: (() => void)[] = [];
      await bound.leaveRoom({ atEnd: (done: () => void) => void ends.push(done) } as Tx, "box");
      await pause(2);
      there += 1;
      await pause(2); // the answer to COMMIT is on its way
      for (const end of ends) end();
    };
    await Promise.allSettled(Array.from({ length: 300 }, one));
    assert.equal(there, most);
  }
});

test("what failed gives its room back, and a change does not count against itself", async () => {
  let there = 998;
  const bound = createBound({
    most: 1000,
    words: ["A box has at most", "things"],
    count: async () => there,
  });
  const ends: (() => void)[] = [];
  const change = { atEnd: (done: () => void) => void ends.push(done) } as Tx;
  await bound.leaveRoom(change, "box");
  there += 1; // it sees what it has made itself
  await bound.leaveRoom(change, "box");
  there += 1;
  await assert.rejects(bound.leaveRoom(change, "box"));
  there = 998;
  for (const end of ends) end();
  await bound.leaveRoom(nothing, "box", 2);
});

test("who wants the last place waits for whoever holds it, and gets it if that one gives it back", async () => {
  let there = 999;
  const bound = createBound({
    most: 1000,
    words: ["A box has at most", "things"],
    count: async () => there,
  });
  const hold = async () => {
    const ends: (() => void)[] = [];
    await bound.leaveRoom({ atEnd: (done: () => void) => void ends.push(done) } as Tx, "box");
    return () => ends.forEach((end) => end());
  };
  const rollBack = await hold();
  const next = hold();
  await pause(5);
  rollBack();
  const commit = await next;
  const late = hold();
  await pause(5);
  there += 1;
  commit();
  await assert.rejects(late, Problem);
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
