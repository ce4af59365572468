/** A few routes of `everyWrite` in every test run, each time others. */
import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { stopOwnPostgres } from "../postgres.ts";
import { everyWrite } from "./scenarios.ts";
import { sized } from "../full-size.ts";

const seed = Number(process.env["KEYWARD_FAULTS_SEED"] ?? Math.floor(Math.random() * 2 ** 31));

describe(`write routes and COMMIT (KEYWARD_FAULTS_SEED=${seed})`, () => {
  after(() => stopOwnPostgres());

  it("R-01 a write whose connection ends at COMMIT or right after it is whole or absent", async () => {
    assert.deepEqual((await everyWrite({ seed, seconds: sized(1, 5) })).faults, []);
  });
});
