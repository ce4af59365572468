import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { badRequest } from "../problem.ts";
import { createWriteGroups } from "./write-groups.ts";

const turn = () => new Promise((resolve) => setImmediate(resolve));

/** A database that refuses some by themselves, fails whole groups for some, and is away for others. */
function stage({ atOnce = 2, most = 5 } = {}) {
  const seen = { groups: [] as number[][], alone: [] as number[], underWay: 0, mostUnderWay: 0, idle: 0 };
  const during = async <T>(work: () => T): Promise<T> => {
    seen.underWay += 1;
    seen.mostUnderWay = Math.max(seen.mostUnderWay, seen.underWay);
    await turn();
    seen.underWay -= 1;
    return work();
  };
  const submit = createWriteGroups<number, string>({
    atOnce,
    take: () => most,
    alone: (item) =>
      during(() => {
        seen.alone.push(item);
        if (item % 10 !== 0) throw new Error(`refused ${item}`);
        return `alone ${item}`;
      }),
    together: (items) =>
      during(() => {
        seen.groups.push([...items]);
        if (items.some((item) => item % 7 === 3)) throw new Error("somebody's row");
        if (items.some((item) => item % 11 === 5)) throw badRequest("the database is away");
        return items.map((item) =>
          item % 2 === 0
            ? { status: "fulfilled", value: `together ${item}` }
            : { status: "rejected", reason: new Error(`refused ${item}`) },
        );
      }),
    onIdle: () => void (seen.idle += 1),
  });
  return { submit, seen };
}

describe("writes in groups", () => {
  it("answer everybody once, with their own outcome, in groups that are bounded, and come to rest", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(200), { minLength: 1, maxLength: 40 }), async (items) => {
        const { submit, seen } = stage();
        const outcomes = await Promise.allSettled(items.map(submit));
        for (const [n, outcome] of outcomes.entries()) {
          const said = outcome.status === "fulfilled" ? outcome.value : (outcome.reason as Error).message;
          assert.match(said, new RegExp(`(^| )${items[n]}$|^the database is away$`));
        }
        assert.ok(seen.groups.every((group) => group.length <= 5));
        assert.ok(seen.mostUnderWay <= 2);
        await turn();
        assert.equal(seen.underWay, 0);
        assert.ok(seen.idle >= 1);
      }),
      { numRuns: 200 },
    );
  });

  it("are tried one by one when a group failed for one of them", async () => {
    const { submit, seen } = stage({ atOnce: 1 });
    const outcomes = await Promise.allSettled([1, 10, 20, 3].map(submit));
    assert.deepEqual(seen.groups, [[10, 20, 3]]);
    assert.deepEqual(seen.alone, [1, 10, 20, 3]);
    assert.deepEqual(
      outcomes.map(({ status }) => status),
      ["rejected", "fulfilled", "fulfilled", "rejected"],
    );
  });

  it("are not tried again when it is unknown what became of the group", async () => {
    const { submit, seen } = stage({ atOnce: 1 });
    const outcomes = await Promise.allSettled([10, 20, 5].map(submit));
    assert.deepEqual(seen.alone, [10]);
    assert.deepEqual(
      outcomes.map((outcome) => (outcome.status === "rejected" ? (outcome.reason as Error).message : "done")),
      ["done", "the database is away", "the database is away"],
    );
  });
});
