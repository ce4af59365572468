import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { createTestDatabase, stopOwnPostgres, type TestDatabase } from "../../../test/postgres.ts";
import { systemActor } from "../actor.ts";
import { systemClock } from "../clock.ts";
import { newId } from "../ids.ts";
import { Problem } from "../problem.ts";
import { escapeLike, openDatabase, sql, type Database } from "./index.ts";

const actor = systemActor("test");
const entry = { event: "test", orgId: null };
const insertJob = sql(`INSERT INTO jobs (name, next_at) VALUES ($1, now())`);
const countJobs = sql<{ count: number }>(`SELECT count(*) AS count FROM jobs WHERE name = $1`);
const countAudit = sql<{ count: number }>(`SELECT count(*) AS count FROM audit_log`);

describe("the database", () => {
  let test: TestDatabase;
  let database: Database;
  const countOf = async (name: string) => (await database.read((q) => q.first(countJobs, [name])))?.count;

  before(async () => {
    test = await createTestDatabase();
    database = openDatabase({
      connection: test.connection,
      connections: 4,
      clock: systemClock,
      onError: () => undefined,
    });
  });
  after(async () => {
    await database.close();
    await test.drop();
    await stopOwnPostgres();
  });

  it("cannot be changed through read, not even by a statement that tries", async () => {
    await assert.rejects(database.read((q) => q.rows(insertJob, ["by-reading"])));
    assert.equal(await countOf("by-reading"), 0);
  });

  it("keeps everything of a write or nothing, facts and audit rows included", async () => {
    const before = await database.read((q) => q.first(countAudit));
    await assert.rejects(
      database.write(async (tx) => {
        await tx.rows(insertJob, ["half"]);
        tx.audit(actor, entry);
        throw new Error("changed my mind");
      }),
      /changed my mind/,
    );
    assert.equal(await countOf("half"), 0);
    assert.deepEqual(await database.read((q) => q.first(countAudit)), before);
  });

  it("fails the whole write when a statement that travels with COMMIT fails", async () => {
    await assert.rejects(
      database.write(async (tx) => {
        await tx.rows(insertJob, ["first"]);
        tx.later(insertJob, ["first"]);
        tx.audit(actor, entry);
      }),
      /duplicate key/,
    );
    assert.equal(await countOf("first"), 0);
  });

  it("S-53 refuses a write that leaves no audit row", async () => {
    await assert.rejects(
      database.write((tx) => tx.rows(insertJob, ["silent"])),
      /no audit row/,
    );
    assert.equal(await countOf("silent"), 0);
  });

  it("tells of facts only after their commit, and never of a rolled-back one", async () => {
    const heard: string[] = [];
    database.onCommitted((facts) => heard.push(...facts.map((fact) => fact.name)));
    await database.write(async (tx) => {
      tx.emit({ name: "kept", data: {} });
      tx.audit(actor, entry);
      assert.deepEqual(heard, []);
    });
    await assert.rejects(
      database.write(async (tx) => {
        tx.emit({ name: "lost", data: {} });
        throw new Error("no");
      }),
    );
    assert.deepEqual(heard, ["kept"]);
  });

  it("answers a committed write as committed, whatever a listener makes of its facts", async () => {
    const own = openDatabase({
      connection: test.connection,
      connections: 2,
      clock: systemClock,
      onError: (error) => void failures.push(error.message),
    });
    const failures: string[] = [];
    own.onCommitted(() => {
      throw new Error("a listener's bug");
    });
    const answer = await own.write(async (tx) => {
      tx.emit({ name: "kept", data: {} });
      tx.audit(actor, entry);
      return "done";
    });
    assert.deepEqual([answer, failures], ["done", ["a listener's bug"]]);
    await own.close();
  });

  it("repeats a write that met another in a deadlock", async () => {
    const names = [newId(), newId()];
    for (const name of names) await database.write((tx) => tx.rows(insertJob, [name]), { audited: false });
    const touch = sql(`UPDATE jobs SET next_at = now() WHERE name = $1`);
    const cross = (first: string, second: string) =>
      database.write(
        async (tx) => {
          await tx.rows(touch, [first]);
          await new Promise((resolve) => setTimeout(resolve, 50));
          await tx.rows(touch, [second]);
        },
        { audited: false },
      );
    const [a = "", b = ""] = names;
    await Promise.all([cross(a, b), cross(b, a)]);
  });

  it("serves many reads at once on its few lanes, each with its own answer", async () => {
    const echo = sql<{ n: number }>(`SELECT $1::int AS n`);
    const answers = await Promise.all(
      Array.from({ length: 500 }, (_, n) => database.read((q) => q.first(echo, [n]))),
    );
    assert.deepEqual(
      answers.map((row) => row?.n),
      Array.from({ length: 500 }, (_, n) => n),
    );
  });

  it("survives that all its connections are cut", async () => {
    const cut = sql(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`,
    );
    await database.write((tx) => tx.rows(cut), { audited: false });
    assert.equal(await countOf("nobody"), 0);
    await database
      .write((tx) => tx.rows(insertJob, ["after-the-cut"]), { audited: false })
      .catch((error: unknown) => {
        // The cut may be noticed only by the first write: it is then told that the database was away, and may try again.
        assert.ok(error instanceof Problem && error.status === 503);
        return database.write((tx) => tx.rows(insertJob, ["after-the-cut"]), { audited: false });
      });
    assert.equal(await countOf("after-the-cut"), 1);
  });

  it("answers 503 when it is away", async () => {
    const nowhere = openDatabase({
      connection: { ...test.connection, port: 1 },
      connections: 2,
      clock: systemClock,
      onError: () => undefined,
    });
    const isAway = (error: unknown) =>
      error instanceof Problem && error.status === 503 && error.retryAfterSeconds !== undefined;
    await assert.rejects(
      nowhere.read((q) => q.first(countAudit)),
      isAway,
    );
    await assert.rejects(
      nowhere.write((tx) => tx.rows(countAudit), { audited: false }),
      isAway,
    );
    await nowhere.close();
  });

  it("takes the wildcards of LIKE literally in a search term", () =>
    assert.equal(escapeLike("50%_\\"), "50\\%\\_\\\\"));
});
