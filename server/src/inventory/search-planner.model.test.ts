import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { groupsOf, NEWEST_SAMPLED, planSearch, sampleOf } from "./search-planner.model.ts";
import { sized } from "../../test/full-size.ts";

const nameAt = (index: number) =>
  `api-${index}.prod.example.com\n40${((index * 7919) % 65_536).toString(16)}`;
const newest = Array.from({ length: NEWEST_SAMPLED }, (_, index) => nameAt(999_999 - index));
const places = Array.from({ length: 50 }, (_, place) =>
  Array.from({ length: 8 }, (_, index) => nameAt(980_000 - place * 19_999 - index)),
);
const sample = await sampleOf({ newest, places, counted: 1_000_000, everywhere: 1_100_000 });
const page = { offset: 0, limit: 20 };

describe("how a search is planned", () => {
  test("a term of many names walks the list, a rare one takes the index", () => {
    assert.deepEqual(planSearch("EXAMPLE", sample, page), { kind: "walk" });
    assert.equal(planSearch("api-123456.", sample, page).kind, "index");
    assert.equal(planSearch("zebra", sample, page).kind, "index");
  });

  test("a term that only old names hold is walked to when its matches are too many to fetch, and not when they are few", async () => {
    const old = (from: number) =>
      sampleOf({
        newest,
        places: places.map((texts, place) => (place < from ? texts : texts.map((text) => `legacy-${text}`))),
        counted: 1_000_000,
        everywhere: 1_000_000,
      });
    assert.equal(planSearch("legacy", await old(5), page).kind, "walk");
    assert.equal(planSearch("egacy-api-1234", await old(50), page).kind, "index");
  });

  test("without three letters in a row, blocks that lack the letters are passed over; a small profile is walked", async () => {
    for (const term of ["zq", "z", "..", "%_%"])
      assert.deepEqual(planSearch(term, sample, page), { kind: "letters" }, term);
    for (const term of ["a", "9", "-", "od"])
      assert.deepEqual(planSearch(term, sample, page), { kind: "walk" }, term);
    const small = await sampleOf({ newest: newest.slice(1), places: [], counted: 0, everywhere: 1_000_000 });
    assert.deepEqual(planSearch("zebra", small, page), { kind: "walk" });
  });

  test("the index of a small part of all certificates is asked for the profile too, that of nearly all is not", async () => {
    const names = newest.map((_, index) => `l${10 + (index % 20)}.r${10 + ((index * 7 + 3) % 20)}.n`);
    const of = async (counted: number) =>
      planSearch(
        "l10.r10",
        await sampleOf({ newest: names, places: [], counted, everywhere: 1_000_000 }),
        page,
      );
    const [few, most] = [await of(20_000), await of(1_000_000)];
    assert.ok(few.kind === "index" && few.isByProfile, JSON.stringify(few));
    assert.ok(most.kind === "index" && !most.isByProfile, JSON.stringify(most));
  });

  test("whatever the term, a name that holds it holds the parts that are looked up, in their order", () => {
    const word = fc.constantFrom(
      "api",
      "-",
      ".",
      "900",
      "0",
      "00",
      "prod",
      "é",
      "ß",
      "x y",
      "%",
      "_",
      "\\",
      "zebra",
    );
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string({ minLength: 1, maxLength: 40 }),
          fc.array(word, { minLength: 1, maxLength: 9 }).map((all) => all.join("")),
        ),
        fc.boolean(),
        (term, isSpread) => {
          const plan = planSearch(term, isSpread ? sample : { ...sample, places: [] }, page);
          if (plan.kind !== "index") return;
          let from = 0;
          for (const part of plan.parts) {
            const at = term.toLowerCase().indexOf(part, from);
            assert.ok(at >= 0 && groupsOf(part).length > 0, JSON.stringify([term, plan]));
            from = at + part.length;
          }
        },
      ),
      { numRuns: sized(200, 500) },
    );
  });

  test("the part that everybody has is not the one that is looked up", () => {
    const plan = planSearch("api-123456.prod.example.com", sample, page);
    assert.ok(plan.kind === "index" && plan.parts.every((part) => /\d\d/.test(part)), JSON.stringify(plan));
  });

  test("names made to be all different are sampled in chunks and to a bound", async () => {
    let turns = 0;
    let isDone = false;
    const count = (): void => {
      turns += 1;
      if (!isDone) setImmediate(count);
    };
    setImmediate(count);
    const letters = (at: number) =>
      Array.from({ length: 500 }, (_, n) => String.fromCharCode(0x4e00 + ((at * 500 + n * 7919) % 20_000)));
    const { shares } = await sampleOf({
      newest: Array.from({ length: NEWEST_SAMPLED }, (_, at) => letters(at).join("")),
      places: [],
      counted: 0,
      everywhere: 1_000_000,
    });
    isDone = true;
    assert.ok(shares.size <= 50_000, String(shares.size));
    assert.ok(turns > 10, String(turns));
  });

  test("words are filed with two blanks before them and one behind, where both ends are known", () => {
    assert.deepEqual(groupsOf("-90").sort(), ["  9", " 90"]);
    assert.deepEqual(groupsOf("00."), ["00 "]);
    assert.deepEqual(groupsOf("10.1.").sort(), ["  1", " 1 ", "10 "]);
    assert.deepEqual(groupsOf("ab"), []);
  });
});
