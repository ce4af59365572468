import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import pg from "pg";
import {
  createTestDatabase,
  stopOwnPostgres,
  withClient,
  type TestDatabase,
} from "../../../test/postgres.ts";
import { systemActor } from "../actor.ts";
import { systemClock } from "../clock.ts";
import { openDatabase, type Database } from "../db/index.ts";
import { silentLog } from "../log.ts";
import { createTail, type NumberedFact, type Tail } from "./index.ts";

const actor = systemActor("test");

async function until(isTrue: () => boolean, what: string): Promise<void> {
  const deadline = Date.now() + 120_000;
  while (!isTrue()) {
    if (Date.now() > deadline) throw new Error(`waited in vain for: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

describe("the tail of the outbox", () => {
  let test: TestDatabase;
  let writer: Database;
  let reader: Database;
  let tail: Tail;
  let heard: NumberedFact[] = [];
  const names = () => heard.map((fact) => (fact.data as { n: number }).n);
  const announce = (database: Database, n: number) =>
    database.write(async (tx) => {
      tx.emit({ name: "numbered", data: { n } });
      tx.audit(actor, { event: "test", orgId: null });
    });

  before(async () => {
    test = await createTestDatabase();
    const open = () =>
      openDatabase({
        connection: test.connection,
        connections: 8,
        clock: systemClock,
        onError: () => undefined,
      });
    writer = open();
    reader = open();
    tail = createTail({ database: reader, clock: systemClock, log: silentLog });
    tail.onFacts((facts) => heard.push(...facts));
    await tail.start();
  });
  after(async () => {
    await tail.stop();
    await Promise.all([writer.close(), reader.close()]);
    await test.drop();
    await stopOwnPostgres();
  });

  it("reads another node's commits without a notification, by its poll", async () => {
    heard = [];
    await announce(writer, 1);
    await until(() => heard.length === 1, "the fact");
    assert.deepEqual(names(), [1]);
  });

  it("E-10 waits for a transaction that drew its number early and committed late, and keeps the order", async () => {
    heard = [];
    const slow = new pg.Client(test.connection);
    await slow.connect();
    await slow.query("BEGIN");
    await slow.query("INSERT INTO outbox (name, data) VALUES ('numbered', '{\"n\": 1}')");
    await announce(reader, 2);
    await announce(reader, 3);
    assert.deepEqual(names(), [], "nothing may overtake the open transaction");
    await slow.query("COMMIT");
    await until(() => heard.length === 3, "all three");
    assert.deepEqual(names(), [1, 2, 3]);
    await slow.end();
  });

  it("passes over a number whose transaction was rolled back", async () => {
    heard = [];
    const doomed = new pg.Client(test.connection);
    await doomed.connect();
    await doomed.query("BEGIN");
    await doomed.query("INSERT INTO outbox (name, data) VALUES ('numbered', '{\"n\": 1}')");
    await announce(reader, 2);
    await doomed.query("ROLLBACK");
    await announce(reader, 3);
    await until(() => heard.length === 2, "both survivors");
    assert.deepEqual(names(), [2, 3]);
    await doomed.end();
  });

  it("delivers each fact once and in order with many writers at once", async () => {
    heard = [];
    await Promise.all(
      Array.from({ length: 8 }, async (_, w) => {
        for (let n = 0; n < 40; n += 1) await announce(w % 2 === 0 ? writer : reader, w * 1000 + n);
      }),
    );
    await until(() => heard.length >= 320, "320 facts");
    assert.equal(new Set(names()).size, 320);
    assert.ok(heard.every((fact, index) => index === 0 || fact.seq > (heard[index - 1] as NumberedFact).seq));
    for (let w = 0; w < 8; w += 1) {
      const own = names().filter((n) => Math.floor(n / 1000) === w);
      assert.deepEqual(
        own,
        [...own].sort((a, b) => a - b),
        "a writer's own order is kept",
      );
    }
  });

  it("delivers the same facts in the same order to two nodes, their own and each other's, with gaps of every kind between", async () => {
    heard = [];
    const second = createTail({ database: writer, clock: systemClock, log: silentLog });
    const heardBySecond: NumberedFact[] = [];
    second.onFacts((facts) => heardBySecond.push(...facts));
    await second.start();
    let kept = 0;
    const nodes = [reader, writer].flatMap((database, w) =>
      [0, 1, 2].map(async (lane) => {
        for (let n = 0; n < 60; n += 1) await announce(database, w * 10_000 + lane * 1000 + n);
        kept += 60;
      }),
    );
    // Draws numbers early, and fills or abandons them late.
    const strangers = [0, 1].map(async (lane) => {
      const client = new pg.Client(test.connection);
      await client.connect();
      for (let n = 0; n < 60; n += 1) {
        await client.query("BEGIN");
        await client.query("INSERT INTO outbox (name, data) VALUES ('numbered', $1)", [
          JSON.stringify({ n: 100_000 + lane * 1000 + n }),
        ]);
        await client.query("SELECT pg_sleep(0.002)");
        const isKept = (n + lane) % 3 !== 0;
        await client.query(isKept ? "COMMIT" : "ROLLBACK");
        if (isKept) kept += 1;
      }
      await client.end();
    });
    await Promise.all([...nodes, ...strangers]);
    await until(() => heard.length >= kept && heardBySecond.length >= kept, `${kept} facts`);
    const { rows } = await withClient(test.server, test.connection.database, (client) =>
      client.query("SELECT seq::int AS seq FROM outbox WHERE seq >= $1 ORDER BY seq", [heard[0]?.seq]),
    );
    const committed = rows.map((row) => row.seq as number);
    assert.equal(committed.length, kept);
    for (const told of [heard, heardBySecond])
      assert.deepEqual(
        told.map((fact) => fact.seq),
        committed,
      );
    assert.deepEqual(heardBySecond, heard, "word for word");
    await second.stop();
  });

  it("notifies only while another node listens, and each still gets everything", async () => {
    const ear = new pg.Client(test.connection);
    await ear.connect();
    const rings: string[] = [];
    ear.on("notification", ({ payload }) => rings.push(payload ?? ""));
    await ear.query("LISTEN keyward_outbox");
    const bells = () => rings.filter((payload) => payload === "").length;
    let [n, seen] = [0, 0];
    /** Whether no notification was heard with this fact, nor late with the one before. */
    const announceQuietly = async (): Promise<boolean> => {
      heard = [];
      await announce(reader, (n += 1));
      await until(() => heard.length === 1, "the fact");
      await ear.query(`NOTIFY keyward_outbox, 'fence ${n}'`);
      await until(() => rings.includes(`fence ${n}`), "the fence");
      const isQuiet = bells() === seen;
      seen = bells();
      return isQuiet;
    };
    // More in a row than one notification covers.
    const MANY = 60;
    let quiet = 0;
    for (const deadline = Date.now() + 120_000; quiet < MANY && Date.now() < deadline;)
      quiet = (await announceQuietly()) ? quiet + 1 : 0;
    assert.equal(quiet, MANY, "alone, it rings for nobody");

    const peers = createTail({ database: writer, clock: systemClock, log: silentLog });
    const heardByPeers: NumberedFact[] = [];
    peers.onFacts((facts) => heardByPeers.push(...facts));
    await peers.start();
    const first = n + 1;
    // Who has been quiet for a moment rings; whoever writes on and on is looked out for anyway.
    for (const deadline = Date.now() + 120_000; bells() < 3 && Date.now() < deadline;) {
      await new Promise((resolve) => setTimeout(resolve, 300));
      await announceQuietly();
    }
    assert.ok(bells() >= 3, "it rings once there is someone to hear it");
    await until(() => heardByPeers.length === n - first + 1, "everything, rung for or not");
    await peers.stop();
    await ear.end();
  });

  it("notices that facts were deleted before it saw them, also when nothing is left of them", async () => {
    let gaps = 0;
    const away = createTail({ database: reader, clock: systemClock, log: silentLog });
    away.onGap(() => (gaps += 1));
    await away.start();
    assert.equal(gaps, 0, "what was swept before it came is no gap");
    const admin = new pg.Client(test.connection);
    await admin.connect();
    // As if this node had been paused during a fact and its deletion: both happen in one instant.
    await admin.query(`BEGIN; INSERT INTO outbox (name, data) VALUES ('numbered', '{"n": 1}');
      WITH gone AS (DELETE FROM outbox RETURNING seq) UPDATE outbox_swept SET seq = (SELECT last_value FROM outbox_seq_seq); COMMIT`);
    await admin.end();
    await until(() => gaps === 1, "the gap");
    await until(() => away.isFresh(), "freshness again");
    assert.equal(gaps, 1);
    await away.stop();
  });

  it("does not call itself fresh while there is more to read", async () => {
    let ahead = 0;
    const clock = { ...systemClock, elapsed: () => systemClock.elapsed() + ahead };
    const late = createTail({ database: reader, clock, log: silentLog });
    const freshAtPage: boolean[] = [];
    late.onFacts((facts) => {
      if (facts.length < 2000) return;
      freshAtPage.push(late.isFresh());
      // Five seconds pass with the first page: what was known before is old, and only a complete poll makes it fresh.
      if (freshAtPage.length === 1) ahead = 5000;
    });
    await late.start();
    const admin = new pg.Client(test.connection);
    await admin.connect();
    const before = late.position();
    await admin.query(
      `INSERT INTO outbox (name, data) SELECT 'numbered', jsonb_build_object('n', n) FROM generate_series(1, 9000) n`,
    );
    await admin.end();
    await until(() => late.position() >= before + 9000 && late.isFresh(), "all pages");
    assert.deepEqual(freshAtPage.slice(1), [false, false, false]);
    await late.stop();
  });

  it("is fresh while it can poll, and no longer once its connection is cut for good", async () => {
    await until(() => tail.isFresh(), "a look");
    const other = openDatabase({
      connection: test.connection,
      connections: 2,
      clock: systemClock,
      onError: () => undefined,
    });
    const lost = createTail({
      database: {
        ...other,
        connect: async () => {
          throw new Error("no way back");
        },
      },
      clock: systemClock,
      log: silentLog,
    });
    assert.ok(!lost.isFresh());
    await assert.rejects(lost.start());
    assert.ok(!lost.isFresh());
    await lost.stop();
    await other.close();
  });
});
