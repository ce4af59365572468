import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Problem } from "../../platform/problem.ts";
import { compileRules, type Rule } from "../index.ts";
import { permittedOf, visiblePart } from "./filter-lists.ts";

const ALL: Rule = { subject: "secrets", action: ["describeSecret"] };
/** As costly as the bound of a holder lets them be, asked about names that come near to matching. */
const slow: Rule[] = Array.from({ length: 8 }, (_, n) => ({
  subject: "secrets",
  action: ["describeSecret"],
  inverted: true,
  conditions: { secretName: { $glob: `${"*A".repeat(250)}Z${n}` } },
}));
const nameOf = (n: number) => `${"AB".repeat(120)}${String(n).padStart(5, "0")}`;
const judge = (rules: readonly Rule[]) => {
  const ability = compileRules(rules);
  return (secretName: string) =>
    ability.can("describeSecret", "secrets", {
      environment: "dev",
      secretPath: "/",
      secretName,
      secretTags: [],
    });
};

describe("what a caller may see of a list", () => {
  it("is what each judgement says, in order, with the count of it", async () => {
    const items = Array.from({ length: 100 }, (_, n) => n);
    const { rows, total } = await visiblePart(items, (n) => n % 3 === 0, { offset: 10, limit: 5 });
    assert.deepEqual(rows, [30, 33, 36, 39, 42]);
    assert.equal(total, 34);
  });

  it("H3 gives way to others while a long list is judged by costly rules", async () => {
    let turns = 0;
    let isOver = false;
    const others = (): void => {
      turns += 1;
      if (!isOver) setImmediate(others);
    };
    setImmediate(others);
    await permittedOf(
      Array.from({ length: 40 }, (_, n) => nameOf(n)),
      judge([ALL, ...slow]),
    );
    isOver = true;
    assert.ok(turns > 3, `others had ${turns} turns`);
  });

  it("H3 is refused, not paid for, where wildcards make it cost seconds", async () => {
    const names = Array.from({ length: 5000 }, (_, n) => nameOf(n));
    let judged = 0;
    const may = judge([ALL, ...slow]);
    const seen = permittedOf(names, (name) => {
      judged += 1;
      return may(name);
    });
    await assert.rejects(seen, (error) => error instanceof Problem && error.status === 400);
    assert.ok(judged < 2500, `${judged} were judged before`);
  });

  it("judges the longest list by honest rules", async () => {
    const honest: Rule[] = Array.from({ length: 100 }, (_, n) => ({
      subject: "secrets",
      action: ["describeSecret"],
      inverted: true,
      conditions: { secretName: { $glob: `TEAM_${n}_*_KEY` } },
    }));
    const names = Array.from({ length: 10_000 }, (_, n) => `TEAM_${n % 200}_${n}_KEY`);
    assert.equal((await permittedOf(names, judge([ALL, ...honest]))).length, 5000);
  });
});
