import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { z } from "zod";
import { readLongBody } from "./long-input.ts";

const SCHEMA = z.object({
  name: z.string(),
  extra: z.record(z.string(), z.string()).optional(),
  items: z
    .array(z.object({ key: z.string().trim() }))
    .max(100)
    .default([]),
});
const placesIn = ({ issues }: { issues: readonly { path: readonly PropertyKey[] }[] }) =>
  issues.map(({ path }) => path.join("."));

describe("a long body", () => {
  it("is read as a short one is, items and defaults included", async () => {
    assert.deepEqual(await readLongBody(SCHEMA, { name: "a", items: [{ key: " k " }] }, false), {
      data: { name: "a", items: [{ key: "k" }] },
      issues: [],
    });
    assert.deepEqual((await readLongBody(SCHEMA, { name: "a" }, false)).data, { name: "a", items: [] });
  });

  it("is refused for what no database can store, wherever it stands, with its place", async () => {
    const nul = "a\0b";
    const refused = async (body: unknown) => placesIn(await readLongBody(SCHEMA, body, true));
    assert.deepEqual(await refused({ name: nul }), ["name"]);
    assert.deepEqual(await refused({ name: "a", extra: { deep: nul } }), ["extra.deep"]);
    assert.deepEqual(await refused({ name: "a", items: [{ key: "k" }, { key: "\ud800" }] }), ["items.1.key"]);
    assert.ok((await refused({ name: "a", [nul]: 1 })).includes(nul));
  });

  it("is refused for each wrong item, up to fifty of them, and for a list that is too long", async () => {
    const items = [{ key: "k" }, { key: 1 }, {}];
    assert.deepEqual(placesIn(await readLongBody(SCHEMA, { name: "a", items }, false)), [
      "items.1.key",
      "items.2.key",
    ]);
    const wrong = Array.from({ length: 80 }, () => ({}));
    assert.equal((await readLongBody(SCHEMA, { name: "a", items: wrong }, false)).issues.length, 50);
    const many = Array.from({ length: 101 }, () => ({ key: "k" }));
    assert.deepEqual(placesIn(await readLongBody(SCHEMA, { name: "a", items: many }, false)), ["items"]);
  });
});
