import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isUuid, newId, newRequestId } from "./ids.ts";

describe("ids", () => {
  it("are UUIDs of version 7 that are never the same and rise within a millisecond", () => {
    const ids = Array.from({ length: 1500 }, () => newId(1_800_000_000_000));
    assert.ok(ids.every((id) => isUuid(id) && id[14] === "7" && "89ab".includes(id.charAt(19))));
    assert.equal(new Set(ids).size, ids.length);
    assert.deepEqual(ids, [...ids].sort());
  });

  it("of requests are req- and fourteen letters or digits", () => {
    const ids = Array.from({ length: 500 }, newRequestId);
    assert.ok(ids.every((id) => /^req-[0-9A-Za-z]{14}$/.test(id)));
    assert.equal(new Set(ids).size, ids.length);
  });
});
