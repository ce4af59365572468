import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createSecrets, deleteSecrets, MAX_BATCH, updateSecrets } from "./contract.ts";

const place = { projectId: "p", environment: "dev" };

describe("a batch of secrets", () => {
  const batches = {
    created: [createSecrets, { secretKey: "A", secretValue: "x" }],
    updated: [updateSecrets, { secretKey: "A", secretValue: "x" }],
    deleted: [deleteSecrets, { secretKey: "A" }],
  } as const;
  for (const [what, [{ body }, item]] of Object.entries(batches))
    it(`that are ${what} holds one at least and ${MAX_BATCH} at most`, () => {
      const takes = (count: number) =>
        body.safeParse({ ...place, secrets: Array.from({ length: count }, () => item) }).success;
      assert.deepEqual([0, 1, 2, MAX_BATCH, MAX_BATCH + 1].map(takes), [false, true, true, true, false]);
    });
});
