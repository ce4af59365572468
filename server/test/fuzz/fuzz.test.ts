/** A bounded share of `npm run test:fuzz` in every test run, each time with another seed. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fuzz } from "./fuzz.ts";
import { sized } from "../full-size.ts";

const seed = Number(process.env["KEYWARD_FUZZ_SEED"] ?? Math.floor(Math.random() * 2 ** 31));

describe(`every route under random requests (KEYWARD_FUZZ_SEED=${seed})`, () => {
  it("answers without a bug, in time, in the envelope or as published, and in bounded memory (S-42, S-46)", async () => {
    const report = await fuzz({ seed, seconds: sized(2, 10), least: sized(100, 200) });
    assert.deepEqual(report.findings, [], `seed ${seed}`);
    assert.ok(report.mostHeapMb > 0, "memory was looked at");
  });
});
