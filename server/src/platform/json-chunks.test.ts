import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { NotJson, parseInChunks, TooManyParts } from "./json-chunks.ts";
import { sized } from "../../test/full-size.ts";

const ROOMY = { all: 1_000_000, item: 1_000_000 };
const outcome = async (work: () => unknown): Promise<unknown> => {
  try {
    return await work();
  } catch (error) {
    return error instanceof SyntaxError || error instanceof NotJson ? "not JSON" : error;
  }
};

describe("JSON in chunks", () => {
  it("is what the parser says", async () => {
    await fc.assert(
      fc.asyncProperty(fc.json({ maxDepth: 5 }), async (text) => {
        assert.deepEqual(await parseInChunks(text, ROOMY), JSON.parse(text));
      }),
      { numRuns: sized(200, 500) },
    );
  });

  it("refuses what the parser refuses, and nothing else", async () => {
    const pieces = fc.constantFrom(
      ...'{}[]:,"',
      '"a"',
      '"\\""',
      '"b\\\\"',
      " ",
      "1",
      "null",
      "tru",
      "[0]",
      "__proto__",
    );
    await fc.assert(
      fc.asyncProperty(fc.array(pieces, { maxLength: 14 }), fc.boolean(), async (list, isWrapped) => {
        const text = isWrapped ? `{"a":[${list.join("")}]}` : list.join("");
        assert.deepEqual(
          await outcome(() => parseInChunks(text, ROOMY)),
          await outcome(() => JSON.parse(text) as unknown),
          text,
        );
      }),
      { numRuns: sized(4000, 20_000) },
    );
  });

  it("keeps lists that are longer than a chunk, in their places", async () => {
    const value = {
      __proto__x: [1],
      secrets: Array.from({ length: 20_000 }, (_, n) => ({ n, list: [[], {}, `"],[${n}`] })),
      empty: [],
      others: [[1, 2], "x".repeat(100_000), null],
    };
    assert.deepEqual(await parseInChunks(JSON.stringify(value), ROOMY), value);
    assert.deepEqual(
      Object.keys((await parseInChunks('{"__proto__":[1,2],"a":[3],"a":[4]}', ROOMY)) as object),
      Object.keys(JSON.parse('{"__proto__":[1,2],"a":[3],"a":[4]}') as object),
    );
  });

  it("counts the parts of all of it and of each item", async () => {
    const limits = { all: 100, item: 20 };
    const refused = (text: string) => assert.rejects(parseInChunks(text, limits), TooManyParts);
    await refused(`{"a":[${"1,".repeat(100)}1]}`);
    await refused(`{"a":[[${"1,".repeat(20)}1]]}`);
    await refused(`{"a":{"b":[${"1,".repeat(20)}1]}}`);
    await refused(`[${"1,".repeat(20)}1]`);
    await parseInChunks(`{"a":[${"[1,2],".repeat(20)}1]}`, limits);
  });
});
