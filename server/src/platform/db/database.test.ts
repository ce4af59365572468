import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect, createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type pg from "pg";
import { openTestDatabase, type OpenedDatabase } from "../../../test/opened-database.ts";
import { withClient, type TestDatabase } from "../../../test/postgres.ts";
import { systemActor } from "../actor.ts";
import { systemClock } from "../clock.ts";
import { newId } from "../ids.ts";
import { Problem } from "../problem.ts";
import { escapeLike, migrate, openDatabase, slowSql, sql, type Database } from "./index.ts";

const actor = systemActor("test");
const entry = { event: "test", orgId: null };
const insertJob = sql(`INSERT INTO jobs (name, next_at) VALUES ($1, now())`);
const countJobs = sql<{ count: number }>(`SELECT count(*) AS count FROM jobs WHERE name = $1`);
const countAudit = sql<{ count: number }>(`SELECT count(*) AS count FROM audit_log`);

/** A startup message is its length, the protocol, and names and values, each with a zero behind it. */
function withoutOptions(startup: Buffer): Buffer {
  const words = startup.subarray(8, -2).toString().split("\0");
  const kept = words.flatMap((word, n) =>
    n % 2 === 0 && word !== "options" ? [word, words[n + 1] ?? ""] : [],
  );
  const body = Buffer.from(`${kept.join("\0")}\0\0`);
  const head = Buffer.alloc(8);
  head.writeInt32BE(8 + body.length);
  startup.copy(head, 4, 4, 8);
  return Buffer.concat([head, body]);
}

describe("the database", () => {
  let own: OpenedDatabase;
  let test: TestDatabase;
  let database: Database;
  const countOf = async (name: string) => (await database.read((q) => q.first(countJobs, [name])))?.count;

  before(async () => {
    own = await openTestDatabase(4);
    ({ test, database } = own);
  });
  after(() => own.close());

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

  it("fails the whole write when a statement that is sent with COMMIT fails", async () => {
    await assert.rejects(
      database.write(async (tx) => {
        await tx.rows(insertJob, ["first"]);
        tx.defer(insertJob, ["first"]);
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

  it("delivers facts only after their commit, and never a rolled-back one", async () => {
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

  it("says when a write is over, whether or not it was kept, and not before", async () => {
    const ends: string[] = [];
    await database.write(async (tx) => {
      tx.atEnd(() => void ends.push("kept"));
      tx.audit(actor, entry);
      await tx.rows(sql("SELECT 1"));
      assert.deepEqual(ends, []);
    });
    await assert.rejects(
      database.write(async (tx) => {
        tx.atEnd(() => void ends.push("undone"));
        await tx.rows(sql("SELECT 1 / 0"));
      }),
    );
    assert.deepEqual(ends, ["kept", "undone"]);
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

  it("serves many reads at once on its few read pipelines, each with its own answer", async () => {
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
        // The cut may be noticed only by the first write: it is then answered 503, and may be retried.
        assert.ok(error instanceof Problem && error.status === 503);
        return database.write((tx) => tx.rows(insertJob, ["after-the-cut"]), { audited: false });
      });
    assert.equal(await countOf("after-the-cut"), 1);
  });

  it("retries every read that was in flight on a connection that the database ended", async () => {
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
    await assert.rejects(nowhere.connect(), isAway);
    await nowhere.close();
  });

  const opened = (connection: pg.ClientConfig, connections: number): Database =>
    openDatabase({ connection, connections, clock: systemClock, onError: () => undefined });

  it("makes do with fewer connections than it may have, where the database gives no more", async () => {
    const role = `few_${newId().replaceAll("-", "")}`;
    await withClient(test.server, test.connection.database, async (client) => {
      await client.query(`CREATE ROLE ${role} LOGIN CONNECTION LIMIT 3`);
      await client.query(`GRANT ALL ON ALL TABLES IN SCHEMA public TO ${role}`);
    });
    const few = opened({ ...test.connection, user: role }, 8);
    const rest = sql<{ n: number }>(`SELECT $1::int AS n FROM pg_sleep(0.01)`);
    try {
      // One for each way in, so that each of them has to share.
      await few.read((q) => q.first(rest, [0]));
      await few.read((q) => q.first(slowSql<{ n: number }>(`SELECT 1 AS n`)), { tenant: "org" });
      await few.write((tx) => tx.first(rest, [0]), { audited: false });
      const answers = await Promise.all(
        Array.from({ length: 90 }, async (_, n) => {
          const look =
            n % 3 === 0
              ? few.write((tx) => tx.first(rest, [n]), { audited: false })
              : few.read((q) => q.first(n % 3 === 1 ? rest : slowSql<{ n: number }>(rest.text), [n]), {
                  tenant: "org",
                });
          return (await look)?.n;
        }),
      );
      assert.deepEqual(
        answers,
        answers.map((_, n) => n),
      );
    } finally {
      await few.close();
      await withClient(test.server, test.connection.database, (client) =>
        client.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`),
      );
    }
  });

  it("H5 sixty slow reads of one organisation do not delay another's", async () => {
    const nap = slowSql(`SELECT FROM pg_sleep(0.05)`);
    let done = 0;
    const crowd = Array.from({ length: 60 }, () =>
      database.read((q) => q.rows(nap), { tenant: "crowd" }).then(() => (done += 1)),
    );
    await database.read((q) => q.rows(nap), { tenant: "other" });
    // Two by two; a connection of its own has to be opened meanwhile.
    assert.ok(done <= 30, `${done} looks of the crowd came first`);
    await Promise.all(crowd);
    assert.equal(done, 60, "each in its turn");
    const tooMany = Array.from({ length: 80 }, () =>
      database
        .read((q) => q.rows(nap), { tenant: "crowd" })
        .then(
          () => 200,
          (error: unknown) => (error as Problem).status,
        ),
    );
    assert.equal((await Promise.all(tooMany)).filter((status) => status === 429).length, 14);
  });

  it("H5 an organisation whose changes wait for each other leaves connections for the changes of others", async () => {
    const few = opened(test.connection, 4);
    const nap = sql(`SELECT FROM pg_sleep(0.05)`);
    const change = (tenant: string) => few.write((tx) => tx.rows(nap), { audited: false, tenant });
    let done = 0;
    try {
      const crowd = Array.from({ length: 40 }, () => change("crowd").then(() => (done += 1)));
      await change("other");
      assert.ok(done <= 20, `${done} changes of the crowd came first`);
      await Promise.all(crowd);
    } finally {
      await few.close();
    }
  });

  it("a read that would fill the memory is ended, and the next one is not", async () => {
    const wide = slowSql<{ text: string }>(
      `SELECT repeat('x', 1000000) AS text FROM generate_series(1, $1::int)`,
    );
    const look = (rows: number) => database.read((q) => q.rows(wide, [rows]), { tenant: "org" });
    await assert.rejects(look(5000), (error: Problem) => {
      assert.equal(error.status, 400);
      assert.match(error.message, /more than 192 MB\. Ask for less at a time/);
      return true;
    });
    assert.equal((await look(3)).length, 3);
  });

  it("a slow read without a tenant is refused by the compiler, and at run time", async () => {
    const nap = slowSql(`SELECT FROM pg_sleep(0)`);
    const look = () =>
      database.read((q) => {
        // @ts-expect-error a slow statement needs a turn
        return q.rows(nap);
      });
    await assert.rejects(look(), /somebody's turn/);
  });

  it("keeps its own settings whatever options a connection string brings", async () => {
    const { host, port, user, database: name } = test.connection;
    const options = encodeURIComponent("-c search_path=public -c statement_timeout=1 -c TimeZone=Asia/Tokyo");
    const connectionString = `postgres://${user}@localhost:${port}/${name}?host=${encodeURIComponent(host)}&sslmode=disable&options=${options}`;
    const own = opened({ connectionString }, 2);
    const show = sql<{ timeout: string; zone: string; path: string }>(
      `SELECT current_setting('statement_timeout') AS timeout, current_setting('TimeZone') AS zone, current_setting('search_path') AS path`,
    );
    const expected = { timeout: "8s", zone: "UTC", path: "public" };
    try {
      assert.deepEqual(await own.read((q) => q.first(show)), expected);
      const writing = { ...expected, timeout: "20s" };
      assert.deepEqual(await own.write((tx) => tx.first(show), { audited: false }), writing);
      await assert.rejects(own.read((q) => q.rows(insertJob, ["by-reading"])));
    } finally {
      await own.close();
    }
  });

  it("notices a pooler that drops its settings", async () => {
    const { host, port } = test.connection;
    const pooler = createServer((client) => {
      const server = connect(`${host}/.s.PGSQL.${port}`);
      client.once("data", (startup: Buffer) => {
        server.write(withoutOptions(startup));
        client.pipe(server);
      });
      server.pipe(client);
      for (const side of [client, server])
        side.on("error", () => [client, server].forEach((each) => each.destroy()));
    });
    await new Promise<void>((resolve) => pooler.listen(0, "127.0.0.1", resolve));
    const { port: poolerPort } = pooler.address() as AddressInfo;
    const behind = opened({ ...test.connection, host: "127.0.0.1", port: poolerPort }, 2);
    assert.deepEqual([await behind.hasOwnSettings(), await database.hasOwnSettings()], [false, true]);
    await behind.close();
    pooler.close();
  });

  it("says of a database that cannot hold every text that it cannot be used", async () => {
    const name = `ascii_${newId().replaceAll("-", "")}`;
    const inPostgres = (text: string) =>
      withClient(test.server, "postgres", async (client) => void (await client.query(text)));
    await inPostgres(
      `CREATE DATABASE ${name} ENCODING 'SQL_ASCII' LOCALE_PROVIDER libc LOCALE 'C' TEMPLATE template0`,
    );
    await assert.rejects(
      withClient(test.server, name, (client) => migrate(client, "/nowhere")),
      /stores text as SQL_ASCII; Keyward needs UTF8/,
    );
    await inPostgres(`DROP DATABASE ${name}`);
  });

  it("stops at a migration that fails: what came before it stays, nothing of it and after it is there", async () => {
    const name = `half_${newId().replaceAll("-", "")}`;
    const folder = await mkdtemp(join(tmpdir(), "keyward-migrations-"));
    for (const [file, text] of [
      ["0001_first.sql", "CREATE TABLE first ()"],
      ["0002_broken.sql", "CREATE TABLE second (); SELECT 1 / 0"],
      ["0003_last.sql", "CREATE TABLE third ()"],
    ] as const)
      await writeFile(join(folder, file), text);
    await withClient(test.server, "postgres", (client) =>
      client.query(`CREATE DATABASE ${name} TEMPLATE template0 ENCODING 'UTF8'`),
    );
    await withClient(test.server, name, async (client) => {
      await assert.rejects(migrate(client, folder), /^MigrationError: Migration 0002_broken failed/);
      const { rows } = await client.query(
        "SELECT to_regclass('first') IS NOT NULL AS first, to_regclass('second') IS NOT NULL AS second, to_regclass('third') IS NOT NULL AS third",
      );
      assert.deepEqual(rows, [{ first: true, second: false, third: false }]);
      await writeFile(join(folder, "0002_broken.sql"), "CREATE TABLE second ()");
      assert.deepEqual(await migrate(client, folder), ["0002_broken", "0003_last"]);
    });
    await withClient(test.server, "postgres", (client) => client.query(`DROP DATABASE ${name}`));
    await rm(folder, { recursive: true });
  });

  it("says that it is too busy, not that we have a bug, when two changes keep conflicting", async () => {
    const clash = sql(`DO $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = '40P01'; END $$`);
    const isBusy = (error: unknown) =>
      error instanceof Problem && error.status === 503 && error.retryAfterSeconds !== undefined;
    await assert.rejects(
      database.write((tx) => tx.rows(clash), { audited: false }),
      isBusy,
    );
    await assert.rejects(
      database.read((q) => q.rows(clash)),
      isBusy,
    );
  });

  it("counts a database that lets nobody in as away", async () => {
    for (const wrong of [{ user: "nobody_of_that_name" }, { database: "nothing_of_that_name" }]) {
      const closed = opened({ ...test.connection, ...wrong }, 2);
      await assert.rejects(
        closed.read((q) => q.first(countAudit)),
        (error: unknown) => error instanceof Problem && error.status === 503,
      );
      await closed.close();
    }
  });

  it("takes the wildcards of LIKE literally in a search term", () =>
    assert.equal(escapeLike("50%_\\"), "50\\%\\_\\\\"));
});
