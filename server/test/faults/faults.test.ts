/** A short walk through `npm run test:faults` in every `npm run test:full`, each time with another seed. */
import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { stopOwnPostgres } from "../postgres.ts";
import { whyNoDisk } from "./disk.ts";
import { badWire, crashes, databaseAway, fullDisk, pausedNode, silentConnections } from "./scenarios.ts";

const seed = Number(process.env["KEYWARD_FAULTS_SEED"] ?? Math.floor(Math.random() * 2 ** 31));

describe(`real processes under faults (KEYWARD_FAULTS_SEED=${seed})`, () => {
  after(() => stopOwnPostgres());

  it("R-01 kill -9 of server or database loses nothing acknowledged and leaves nothing half done", async () => {
    assert.deepEqual((await crashes({ seed, seconds: 2 })).faults, []);
  });

  it("R-02 a bad connection to the database means 503 and a retry, never a lost, doubled or half-done change", async () => {
    assert.deepEqual((await badWire({ seed, seconds: 3 })).faults, []);
  });

  it("R-02 a database that was away costs neither an event nor an alert's delivery", async () => {
    assert.deepEqual((await databaseAway({ seed, seconds: 2 })).faults, []);
  });

  it("R-03 a paused node of three stops nobody else and catches up", async () => {
    assert.deepEqual((await pausedNode({ seed, seconds: 2 })).faults, []);
  });

  it("P-29 hundreds of connections that say nothing keep nobody from being served, nor the node from ending in time", async () => {
    assert.deepEqual((await silentConnections({ seed, seconds: 1 })).faults, []);
  });

  it("R-04 a full disk means 503 and nothing lost, and room brings everything back", async (t) => {
    const why = whyNoDisk();
    if (why !== undefined) return t.skip(why);
    assert.deepEqual((await fullDisk({ seed, seconds: 1 })).faults, []);
  });
});
