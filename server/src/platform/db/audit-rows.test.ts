import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { systemActor } from "../actor.ts";
import { auditRow } from "./audit-rows.ts";

const metadataOf = (metadata: Record<string, unknown>): unknown => {
  const text = auditRow(new Date(), systemActor("test"), { event: "test", orgId: null, metadata }).at(-1);
  assert.ok(String(text).length <= 16_384, `${String(text).length} characters`);
  return JSON.parse(String(text));
};

describe("the metadata of an audit row", () => {
  it("is kept whole up to its bound", () => {
    const metadata = { roleId: "r", permissions: Array.from({ length: 300 }, () => ({ action: "read" })) };
    assert.deepEqual(metadataOf(metadata), metadata);
  });

  it("shows what does not fit by its size, and the rest as it is", () => {
    const metadata = {
      roleId: "r",
      permissions: Array.from({ length: 3000 }, () => ({ action: "read" })),
      note: "n".repeat(20_000),
      conditions: { paths: Array.from({ length: 3000 }, () => "/a") },
    };
    assert.deepEqual(metadataOf(metadata), {
      roleId: "r",
      permissions: { count: 3000 },
      note: `${"n".repeat(200)}…`,
      conditions: { characters: JSON.stringify(metadata.conditions).length },
      isShortened: true,
    });
  });

  it("is never larger, however many values it has", () => {
    const many = Object.fromEntries(Array.from({ length: 5000 }, (_, n) => [`k${n}`, "v".repeat(100)]));
    assert.deepEqual(metadataOf(many), { isShortened: true });
  });
});
