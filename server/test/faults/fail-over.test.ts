/** The shortest of `npm run test:ha` in every `npm run test:full`. */
import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { stopOwnPostgres } from "../postgres.ts";
import { failOver, twoRoles } from "./scenarios.ts";

describe("real nodes on servers that change", () => {
  after(() => stopOwnPostgres());

  it("P-04 F2 a fail-over that loses commits leaves nothing of them in caches, and streams are closed", async () => {
    assert.deepEqual((await failOver({ seed: 1, seconds: 1 })).faults, []);
  });

  it("P-06 F3 two database roles: what one of them commits slowly reaches the other's caches and streams", async () => {
    assert.deepEqual((await twoRoles({ seed: 1, seconds: 2 })).faults, []);
  });
});
