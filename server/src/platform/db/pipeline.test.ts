import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import fc from "fast-check";
import { openTestDatabase, type OpenedDatabase } from "../../../test/opened-database.ts";
import { systemActor } from "../actor.ts";
import { badRequest } from "../problem.ts";
import { searchSql, sql, type Database } from "./index.ts";
import { sized } from "../../../test/full-size.ts";

const actor = systemActor("test");
const entry = { event: "test", orgId: null };
const addJob = sql(`INSERT INTO jobs (name, next_at) VALUES ($1, now())`);
const namesLike = sql<{ name: string }>(`SELECT name FROM jobs WHERE name LIKE $1 ORDER BY name`);

describe("the pipeline to the database", () => {
  let opened: OpenedDatabase;
  let database: Database;
  const namesOf = async (prefix: string) =>
    (await database.read((q) => q.rows(namesLike, [`${prefix}%`]))).map((row) => row.name);

  before(async () => {
    opened = await openTestDatabase(3);
    ({ database } = opened);
  });
  after(() => opened.close());

  it("gives every look of a bundle its own answer, also those behind one that fails", async () => {
    const half = sql<{ n: number }>(`SELECT 100 / $1::int AS n`);
    const looks = Array.from({ length: 60 }, (_, n) => n % 7);
    const answers = await Promise.allSettled(looks.map((n) => database.read((q) => q.first(half, [n]))));
    for (const [at, n] of looks.entries()) {
      const answer = answers[at];
      if (n === 0) assert.match(String((answer as PromiseRejectedResult).reason), /division by zero/);
      else assert.deepEqual((answer as PromiseFulfilledResult<unknown>).value, { n: Math.trunc(100 / n) });
    }
  });

  it("reads the rows of a statement whose first run failed before its columns were known", async () => {
    const echo = sql<{ id: string }>(`SELECT $1::uuid AS id`);
    await assert.rejects(
      database.read((q) => q.first(echo, ["not a uuid"])),
      /invalid input syntax/,
    );
    const id = "01a1dddc-2933-7771-9364-c96a432b3b14";
    // As often as there are read pipelines, and more: whichever connection the failure met, it reads right.
    for (let n = 0; n < 8; n += 1) assert.deepEqual(await database.read((q) => q.first(echo, [id])), { id });
  });

  it("reads unnamed statements of different columns one after the other", async () => {
    const one = searchSql<{ a: number }>(`SELECT $1::int AS a`);
    const two = searchSql<{ b: string; c: boolean }>(`SELECT $1::text AS b, true AS c`);
    await database.write(
      async (tx) => {
        const answers = await Promise.all([
          tx.first(one, [1]),
          tx.first(two, ["x"]),
          tx.first(one, [2]),
          tx.first(two, ["y"]),
        ]);
        assert.deepEqual(answers, [{ a: 1 }, { b: "x", c: true }, { a: 2 }, { b: "y", c: true }]);
      },
      { audited: false },
    );
  });

  it("refuses a value that cannot be written down without harm to its neighbours", async () => {
    const when = sql<{ at: Date }>(`SELECT $1::timestamptz AS at`);
    const [bad, good] = await Promise.allSettled([
      database.read((q) => q.first(when, [new Date(Number.NaN)])),
      database.read((q) => q.first(when, [new Date(0)])),
    ]);
    assert.equal(bad.status, "rejected");
    assert.deepEqual(good, { status: "fulfilled", value: { at: new Date(0) } });
  });

  it("carries text, bytes, moments, numbers and lists of them there and back unchanged", async () => {
    // PostgreSQL stores no NUL; everything else must survive, quotes, backslashes and NULL in words above all.
    const text = fc
      .oneof(
        fc.string({ unit: "binary" }),
        fc.constantFrom("NULL", '"', "\\", "{", "}", ",", "", " ", "\\x41"),
      )
      .map((value) => value.replaceAll("\0", ""));
    const maybe = fc.option(text);
    const bytes = fc.uint8Array({ maxLength: 20 }).map((value) => Buffer.from(value));
    // As far as both sides can count: certificates from elsewhere name the year 0 and years beyond 9999.
    const at = fc.oneof(
      fc.date({ min: new Date("1900-01-01"), max: new Date("9999-12-31"), noInvalidDate: true }),
      fc.date({ min: new Date("-004700-01-01"), max: new Date("+275000-01-01"), noInvalidDate: true }),
      fc
        .constantFrom("0000-06-01", "-000001-12-31", "0001-01-01", "+010000-01-01")
        .map((day) => new Date(day)),
    );
    const echo = sql<Record<string, unknown>>(`
      SELECT $1::text AS one, $2::text[] AS many, $3::bytea AS bytes, $4::bytea[] AS heaps, $5::timestamptz AS at,
             $6::timestamptz[] AS times, $7::int AS number, $8::boolean[] AS flags, $9::jsonb AS json`);
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          one: maybe,
          many: fc.array(maybe, { maxLength: 5 }),
          bytes,
          heaps: fc.array(bytes, { maxLength: 3 }),
          at,
          times: fc.array(at, { maxLength: 3 }),
          number: fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
          flags: fc.array(fc.boolean(), { maxLength: 3 }),
          json: fc.dictionary(fc.stringMatching(/^[a-z]+$/), fc.integer(), { maxKeys: 3 }),
        }),
        async (sent) => {
          const { one, many, heaps, times, number, flags, json } = sent;
          const values = [one, many, sent.bytes, heaps, sent.at, times, number, flags, json];
          const [back] = await database.read((q) => q.rows(echo, values));
          assert.deepEqual({ ...back, json: undefined }, { ...sent, json: undefined });
          assert.deepEqual(back?.["json"], { ...json });
        },
      ),
      { numRuns: sized(38, 150) },
    );
  });

  it("does not line looks up behind one that takes long while another connection is free", async () => {
    const client = await database.connect();
    const quick = sql<{ n: number }>(`SELECT 1 AS n`);
    const stuck = sql(`SELECT pg_advisory_xact_lock_shared(4711)`);
    await client.query("SELECT pg_advisory_lock(4711)");
    const waiting = database.read((q) => q.first(stuck));
    for (let isWaiting = false; !isWaiting;) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      const { rows } = await client.query("SELECT 1 FROM pg_locks WHERE objid = 4711 AND NOT granted");
      isWaiting = rows.length > 0;
    }
    // Would wait for ever otherwise: the lock is let go of only afterwards.
    const answers = await Promise.all(Array.from({ length: 12 }, () => database.read((q) => q.first(quick))));
    assert.deepEqual([...new Set(answers.map((row) => row?.n))], [1]);
    await client.query("SELECT pg_advisory_unlock(4711)");
    await waiting;
    await client.end();
  });

  it("repeats every look that was under way on a connection that the database ended", async () => {
    const client = await database.connect();
    const held = sql<{ n: number }>(`SELECT $1::int AS n, pg_advisory_xact_lock_shared(4712)`);
    const isWaiting = `FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%4712%' AND datname = current_database()`;
    await client.query("SELECT pg_advisory_lock(4712)");
    const looks = Array.from({ length: 40 }, (_, n) => database.read((q) => q.first(held, [n])));
    for (let found = 0; found === 0;) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      found = (await client.query(`SELECT 1 ${isWaiting}`)).rows.length;
    }
    await client.query(`SELECT pg_terminate_backend(pid) ${isWaiting}`);
    await client.query("SELECT pg_advisory_unlock(4712)");
    assert.deepEqual(
      (await Promise.all(looks)).map((row) => row?.n),
      Array.from({ length: 40 }, (_, n) => n),
    );
    await client.end();
  });

  describe("appended rows of many callers", () => {
    it("are all there, and each caller's facts were told of once", async () => {
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

    it("stand or fall by themselves: one whose name is taken does not take the others along", async () => {
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

    it("wait for nobody else's lock", async () => {
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

    it("are refused to the one whose change refuses, with its own reason, and to nobody else", async () => {
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

    it("are refused to the one who leaves no audit row, and to nobody else", async () => {
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
});
