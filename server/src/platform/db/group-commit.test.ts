import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { openTestDatabase, type OpenedDatabase } from "../../../test/opened-database.ts";
import { systemActor } from "../actor.ts";
import { badRequest } from "../problem.ts";
import { sql, type Database } from "./index.ts";

const actor = systemActor("test");
const entry = { event: "test", orgId: null };
const addJob = sql(`INSERT INTO jobs (name, next_at) VALUES ($1, now())`);
const namesLike = sql<{ name: string }>(`SELECT name FROM jobs WHERE name LIKE $1 ORDER BY name`);

describe("a group commit of many callers' rows", () => {
  let opened: OpenedDatabase;
  let database: Database;
  const namesOf = async (prefix: string) =>
    (await database.read((q) => q.rows(namesLike, [`${prefix}%`]))).map((row) => row.name);

  before(async () => {
    opened = await openTestDatabase(3);
    ({ database } = opened);
  });
  after(() => opened.close());

  it("stores all rows, and delivers each caller's facts once", async () => {
    const heard: unknown[] = [];
    database.onCommitted((facts) => heard.push(...facts.map((fact) => fact.data)));
    await Promise.all(
      Array.from({ length: 100 }, (_, n) =>
        database.groupCommit((pen) => {
          pen.defer(addJob, [`append-${String(n).padStart(3, "0")}`]);
          pen.emit({ name: "appended", data: n });
          pen.audit(actor, entry);
        }),
      ),
    );
    assert.equal((await namesOf("append-")).length, 100);
    assert.deepEqual(
      heard.toSorted((a, b) => Number(a) - Number(b)),
      Array.from({ length: 100 }, (_, n) => n),
    );
  });

  it("lets each succeed or fail alone: one whose name is taken does not fail the others", async () => {
    const names = ["a", "b", "b", "c", "a", "d"].map((name) => `taken-${name}`);
    const outcomes = await Promise.allSettled(
      names.map((name) =>
        database.groupCommit((pen) => {
          pen.defer(addJob, [name]);
          pen.audit(actor, entry);
        }),
      ),
    );
    assert.equal(outcomes.filter(({ status }) => status === "rejected").length, 2);
    assert.deepEqual(await namesOf("taken-"), ["taken-a", "taken-b", "taken-c", "taken-d"]);
  });

  it("waits for nobody else's lock", async () => {
    const client = await database.connect();
    const stuck = sql(`SELECT pg_advisory_xact_lock_shared(4713)`);
    await client.query("SELECT pg_advisory_lock(4713)");
    const append = (name: string, isStuck: boolean) =>
      database.groupCommit((pen) => {
        pen.defer(addJob, [name]);
        if (isStuck) pen.defer(stuck, []);
        pen.audit(actor, entry);
      });
    const held: Promise<void>[] = [];
    for (const count of [1, 2]) {
      held.push(append(`lock-held-${count}`, true));
      for (let found = 0; found < count;) {
        await new Promise((resolve) => setTimeout(resolve, 20));
        const { rows } = await client.query("SELECT 1 FROM pg_locks WHERE objid = 4713 AND NOT granted");
        found = rows.length;
      }
    }
    // Would time out with them otherwise: the lock is let go of only afterwards.
    await Promise.all(["a", "b", "c"].map((name) => append(`lock-free-${name}`, false)));
    assert.deepEqual(await namesOf("lock-"), ["lock-free-a", "lock-free-b", "lock-free-c"]);
    await client.query("SELECT pg_advisory_unlock(4713)");
    await Promise.all(held);
    await client.end();
  });

  it("refuses only the caller whose change throws, with its own reason", async () => {
    const outcomes = await Promise.allSettled(
      Array.from({ length: 6 }, (_, n) =>
        database.groupCommit((pen) => {
          if (n === 4) throw badRequest("not this one");
          pen.defer(addJob, [`willing-${n}`]);
          pen.audit(actor, entry);
        }),
      ),
    );
    assert.match(String((outcomes[4] as PromiseRejectedResult).reason), /not this one/);
    assert.deepEqual(
      await namesOf("willing-"),
      [0, 1, 2, 3, 5].map((n) => `willing-${n}`),
    );
  });

  it("refuses only the caller who leaves no audit row", async () => {
    const outcomes = await Promise.allSettled(
      [true, true, false, true].map((isAudited, n) =>
        database.groupCommit((pen) => {
          pen.defer(addJob, [`audited-${n}`]);
          if (isAudited) pen.audit(actor, entry);
        }),
      ),
    );
    assert.deepEqual(
      outcomes.map(({ status }) => status),
      ["fulfilled", "fulfilled", "rejected", "fulfilled"],
    );
    assert.deepEqual(await namesOf("audited-"), ["audited-0", "audited-1", "audited-3"]);
  });
});
