import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { bitsOf, bigramsOf } from "./bigrams.model.ts";

const hasAll = (letters: Buffer, bits: readonly number[]) =>
  bits.every((bit) => ((letters[bit >> 3] ?? 0) >> (bit & 7)) & 1);

describe("the bigrams of a block", () => {
  test("whatever part of whichever name is looked for, its bits are there", () => {
    const text = fc.oneof(fc.string({ minLength: 1 }), fc.string({ minLength: 1, unit: "grapheme" }));
    fc.assert(
      fc.property(
        fc.array(text, { minLength: 1 }),
        fc.nat(),
        fc.nat(),
        fc.integer({ min: 1, max: 6 }),
        (texts, which, from, length) => {
          const chosen = texts[which % texts.length] ?? "";
          const term = chosen.slice(from % chosen.length).slice(0, length);
          assert.ok(hasAll(bigramsOf(texts), bitsOf(term)), JSON.stringify([texts, term]));
        },
      ),
    );
  });

  test("what no name holds is distinguished from what some do", () => {
    const letters = bigramsOf(["api-1.example.com\n40ab", "web"]);
    for (const term of ["a", "e", "-1", "ex", "b", "0a", "eb"])
      assert.ok(hasAll(letters, bitsOf(term)), term);
    for (const term of ["q", "zq", "7", "ba", "_", "*.", "ü", "1-"])
      assert.ok(!hasAll(letters, bitsOf(term)), term);
  });
});
