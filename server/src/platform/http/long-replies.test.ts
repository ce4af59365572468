import assert from "node:assert/strict";
import { test } from "node:test";
import { z } from "zod";
import { createReplyWriter } from "./long-replies.ts";

const write = createReplyWriter(
  z.object({ items: z.array(z.object({ name: z.string(), more: z.record(z.string(), z.unknown()) })) }),
);

test("a few small items are written at once, a few large ones in chunks, both to the same text", async () => {
  const small = {
    items: Array.from({ length: 8 }, (_, n) => ({ name: `${n}`, more: { list: [n, null, "é"] } })),
  };
  assert.equal(write(small), JSON.stringify(small));
  const texts = { items: [{ name: "a".repeat(40_000), more: {} }] };
  const deep = {
    items: [{ name: "a", more: { list: Array.from({ length: 20_000 }, (_, n) => ({ n, is: true })) } }],
  };
  const numbers = { items: [{ name: "a", more: { list: Array.from({ length: 40_000 }, (_, n) => n) } }] };
  for (const large of [texts, deep, numbers]) {
    const written = write(large);
    assert.ok(written instanceof Promise, "in bites");
    assert.equal((await written).toString(), JSON.stringify(large));
  }
});
