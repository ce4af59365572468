import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { decodeCursor, encodeCursor } from "./model.ts";

describe("a place in a list", () => {
  test("a cursor comes back as it was, and nothing else is taken for one", () => {
    const cursor = { at: "2026-06-01T12:00:00.123456Z", id: "01890000-0000-7000-8000-000000000002" };
    assert.deepEqual(decodeCursor(encodeCursor(cursor)), cursor);
    for (const text of ["", "x", Buffer.from("now 1").toString("base64url")])
      assert.throws(() => decodeCursor(text));
  });
});
