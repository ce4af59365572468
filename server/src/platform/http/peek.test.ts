import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { topLevelTexts } from "./peek.ts";
import { sized } from "../../../test/full-size.ts";

const FIELDS = ["projectId", "workspaceId"];
const asked = (text: string) => Object.fromEntries(topLevelTexts(Buffer.from(text), FIELDS));

test("finds what the parser would find at the top, and nothing deeper", () => {
  const value = fc.oneof(fc.string({ unit: "binary" }), fc.jsonValue({ maxDepth: 3 }));
  const key = fc.oneof(fc.constantFrom(...FIELDS), fc.string({ unit: "binary" }));
  fc.assert(
    fc.property(fc.array(fc.tuple(key, value), { maxLength: 8 }), fc.boolean(), (pairs, isSpaced) => {
      const text = `{${pairs.map(([k, v]) => `${JSON.stringify(k)}${isSpaced ? " : " : ":"}${JSON.stringify(v)}`).join(isSpaced ? " , " : ",")}}`;
      const parsed = JSON.parse(text) as Record<string, unknown>;
      for (const field of FIELDS) {
        const [seen, real] = [asked(text)[field], Object.hasOwn(parsed, field) ? parsed[field] : undefined];
        // Of a name that comes twice, once as a text, the parser may take the other: then the contract refuses it.
        if (typeof real === "string") assert.equal(seen, real, text);
      }
    }),
    { numRuns: sized(200, 500) },
  );
});

test("says something or nothing about what is not JSON, and ends", () => {
  for (const text of [
    "",
    "{",
    '{"projectId"',
    '{"projectId":"',
    '{"projectId":"a\\',
    "[[[[",
    '"projectId"',
    "}}}{{{",
  ])
    assert.ok(asked(text));
  assert.deepEqual(asked('{"a":{"projectId":"inner"},"projectId":"outer"}'), { projectId: "outer" });
  assert.deepEqual(asked('["projectId","x"]'), {});
});
