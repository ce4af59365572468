import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { decodeCursor, encodeCursor, planSearch, SAMPLE_SIZE } from "./model.ts";

const texts = Array.from(
  { length: SAMPLE_SIZE },
  (_, index) => `api-${900_000 + index}.prod.example.com\n40${index.toString(16)}`,
);

describe("how a search is planned", () => {
  test("a common term walks the list, a rare one takes the index", () => {
    assert.deepEqual(planSearch("EXAMPLE", { texts, isDominant: true }), { kind: "walk" });
    assert.equal(planSearch("api-123456.", { texts, isDominant: true }).kind, "index");
    assert.deepEqual(planSearch("zq", { texts, isDominant: true }), { kind: "walk" });
    assert.deepEqual(planSearch("zebra", { texts: texts.slice(1), isDominant: true }), { kind: "walk" });
  });

  test("the part looked up is always a part of the term, and not the one that everybody has", () => {
    fc.assert(
      fc.property(fc.string({ minLength: 3, maxLength: 40 }), (term) => {
        const plan = planSearch(term, { texts, isDominant: false });
        if (plan.kind === "index") assert.ok(term.toLowerCase().includes(plan.part) && plan.part.length >= 3);
      }),
    );
    const plan = planSearch("api-123456.prod.example.com", { texts, isDominant: true });
    assert.ok(plan.kind === "index" && /\d{3}/.test(plan.part), JSON.stringify(plan));
  });

  test("a cursor comes back as it was, and nothing else is taken for one", () => {
    const cursor = { at: "2026-06-01T12:00:00.123456Z", id: "01890000-0000-7000-8000-000000000002" };
    assert.deepEqual(decodeCursor(encodeCursor(cursor)), cursor);
    for (const text of ["", "x", Buffer.from("now 1").toString("base64url")])
      assert.throws(() => decodeCursor(text));
  });
});
