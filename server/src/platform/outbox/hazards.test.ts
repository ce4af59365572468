/** What other nodes, other roles, other servers and our own bugs may do to a tail. */
import assert from "node:assert/strict";
import { after, before, beforeEach, describe, it } from "node:test";
import pg from "pg";
import {
  createTestDatabase,
  stopOwnPostgres,
  withClient,
  type TestDatabase,
} from "../../../test/postgres.ts";
import { systemActor } from "../actor.ts";
import { systemClock } from "../clock.ts";
import { openDatabase, sql, type Database } from "../db/index.ts";
import type { Log } from "../log.ts";
import { openOutbox } from "./source.ts";
import { createTail, outboxJobs, type NumberedFact, type Tail } from "./index.ts";

const actor = systemActor("test");
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

async function until(isTrue: () => boolean, what: string): Promise<void> {
  const deadline = Date.now() + 120_000;
  while (!isTrue()) {
    if (Date.now() > deadline) throw new Error(`waited in vain for: ${what}`);
    await pause(2);
  }
}

describe("a tail among others", () => {
  let test: TestDatabase;
  let writer: Database;
  let reader: Database;
  let tail: Tail;
  let heard: NumberedFact[] = [];
  let gaps = 0;
  let reconnects = 0;
  const errors: unknown[] = [];
  const log = {
    debug: () => undefined,
    info: () => undefined,
    warn: () => undefined,
    error: (said: unknown) => void errors.push(said),
    fatal: () => undefined,
  } as unknown as Log;
  const numbers = () => heard.map((fact) => (fact.data as { n: number }).n);
  const open = (faults: unknown[] = errors) =>
    openDatabase({
      connection: test.connection,
      connections: 4,
      clock: systemClock,
      onError: () => undefined,
      onFault: (error) => void faults.push(error),
    });
  const announce = (n: number, database = writer) =>
    database.write(async (tx) => {
      tx.emit({ name: "numbered", data: { n } });
      tx.audit(actor, { event: "test", orgId: null });
    });
  const inDatabase = <T>(work: (client: pg.Client) => Promise<T>) =>
    withClient(test.server, test.connection.database, work);
  const cutTail = () =>
    inDatabase((client) =>
      client.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND query LIKE '%outbox_swept%' AND pid <> pg_backend_pid()`,
      ),
    );

  before(async () => {
    test = await createTestDatabase();
    writer = open();
    reader = open();
    tail = createTail({ database: reader, clock: systemClock, log });
    tail.onFacts((facts) => heard.push(...facts));
    tail.onGap(() => (gaps += 1));
    tail.onReconnect(() => (reconnects += 1));
    await tail.start();
  });
  beforeEach(() => {
    heard = [];
    gaps = 0;
    reconnects = 0;
    errors.length = 0;
  });
  after(async () => {
    await tail.stop();
    await Promise.all([writer.close(), reader.close()]);
    await test.drop();
    await stopOwnPostgres();
  });

  it("F3 P-06 waits for a transaction of another role that is open between number and commit", async () => {
    const role = `other_${test.connection.database}`;
    await inDatabase((client) =>
      client.query(`CREATE ROLE ${role} LOGIN; GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO ${role};
        GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO ${role}`),
    );
    const other = new pg.Client({ ...test.connection, user: role });
    await other.connect();
    await other.query("BEGIN");
    await other.query("INSERT INTO outbox (name, data) VALUES ('numbered', '{\"n\": 1}')");
    await announce(2);
    await announce(3, reader);
    await pause(5000);
    assert.deepEqual(numbers(), [], "nothing overtakes it");
    assert.ok(tail.isFresh(), "what could be seen is known: only its order has to wait");
    await other.query("COMMIT");
    await until(() => heard.length === 3, "all three");
    assert.deepEqual(numbers(), [1, 2, 3]);
    await other.end();
    await inDatabase((client) => client.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`));
  });

  it("F2 learns from an ordinary role which server it is", async () => {
    const role = `plain_${test.connection.database}`;
    await inDatabase((client) =>
      client.query(`CREATE ROLE ${role} LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO ${role};
        GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO ${role}`),
    );
    const database = openDatabase({
      connection: { ...test.connection, user: role },
      connections: 1,
      clock: systemClock,
      onError: () => undefined,
    });
    const nothing = () => undefined;
    const source = openOutbox(database);
    const outlook = await source.open({ onLost: nothing, onNotify: nothing, onPeers: nothing });
    const { system, timeline } = await outlook.begin();
    assert.match(system ?? "", /^\d{10,}$/);
    assert.match(timeline ?? "", /^[0-9A-F]{8}$/);
    await outlook.end();
    await source.stop();
    await database.close();
    await inDatabase((client) => client.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`));
  });

  it("F4 hints a fact behind a hole once, and stays fresh there", async () => {
    const hints: number[] = [];
    tail.onInvalidate(({ data }) => void hints.push((data as { n: number }).n));
    const slow = new pg.Client(test.connection);
    await slow.connect();
    await slow.query("BEGIN");
    await slow.query("INSERT INTO outbox (name, data) VALUES ('numbered', '{\"n\": 10}')");
    await announce(11);
    for (let n = 0; n < 15; n += 1) {
      await pause(100);
      assert.ok(tail.isFresh(), "fresh while it waits");
    }
    await slow.query("COMMIT");
    await until(() => heard.length === 2, "both");
    assert.deepEqual(numbers(), [10, 11]);
    assert.deepEqual(hints, [11, 10]);
    await slow.end();
  });

  it("P-05 reads on where it was after its connection broke, and says that caches have to be cleared", async () => {
    await announce(1);
    await until(() => heard.length === 1, "the first");
    await cutTail();
    await announce(2);
    await until(() => heard.length === 2, "the second");
    await announce(3, reader);
    await until(() => heard.length === 3, "our own");
    assert.deepEqual([numbers(), gaps], [[1, 2, 3], 0]);
    assert.ok(reconnects > 0);
  });

  it("P-05 is sure of its position however long ago the last fact was deleted", async () => {
    await announce(1);
    await until(() => heard.length === 1, "the fact");
    await inDatabase((client) => client.query("UPDATE outbox SET at = at - interval '1 hour'"));
    // Who changes the past is found out; from here on the past is as it is.
    await cutTail();
    await until(() => gaps === 1, "the gap");
    await outboxJobs(writer)[0]?.run({} as never);
    await inDatabase(async (client) =>
      assert.equal((await client.query("SELECT 1 FROM outbox")).rows.length, 0, "all of it is swept"),
    );
    await until(() => tail.isFresh(), "freshness");
    gaps = 0;
    heard = [];
    await announce(2);
    await until(() => heard.length === 1, "the next");
    reconnects = 0;
    await cutTail();
    await until(() => reconnects > 0 && tail.isFresh(), "freshness after the cut");
    assert.equal(gaps, 0);
  });

  it("F2 finds out that a fact it delivered is gone or another, though the numbers went on", async () => {
    await announce(1);
    await until(() => heard.length === 1, "the fact");
    const lost = heard[0] as NumberedFact;
    // What a server does that was promoted without it: the number is somebody else's, and others were drawn since.
    await inDatabase(async (client) => {
      await client.query("DELETE FROM outbox WHERE seq = $1", [lost.seq]);
      await client.query(
        `INSERT INTO outbox (xid, seq, name, data) OVERRIDING SYSTEM VALUE VALUES ($1::text::xid8, $2, 'numbered', '{"n": 7}')`,
        [lost.xid, lost.seq],
      );
    });
    await announce(8);
    await cutTail();
    await until(() => gaps === 1, "the gap");
    heard = [];
    await announce(9);
    await until(() => numbers().includes(9), "what comes later");
    assert.equal(gaps, 1);
  });

  it("F2 does not count as delivered what was committed on an old connection", async () => {
    const slow = reader.write(async (tx) => {
      await tx.rows(sql("SELECT pg_sleep(0.5)"));
      tx.emit({ name: "numbered", data: { n: 1 } });
      tx.audit(actor, { event: "test", orgId: null });
    });
    let isCurrent: boolean | undefined;
    reader.onCommitted((_facts, current) => (isCurrent = current));
    await pause(100);
    reader.renew();
    await slow;
    assert.equal(isCurrent, false);
    await until(() => heard.length === 1, "it is read back all the same");
    await announce(2, reader);
    assert.equal(isCurrent, true);
    await until(() => heard.length === 2, "the next");
    assert.deepEqual(numbers(), [1, 2]);
  });

  it("calls all listeners though one fails, and logs it as an error", async () => {
    const faults: unknown[] = [];
    const database = open(faults);
    const fragile = createTail({ database, clock: systemClock, log });
    const later: string[] = [];
    database.onCommitted(() => {
      throw new Error("a committed listener");
    });
    database.onCommitted(() => void later.push("committed"));
    fragile.onInvalidate(() => {
      throw new Error("a hint listener");
    });
    fragile.onInvalidate(() => void later.push("hint"));
    fragile.onFacts(() => {
      throw new Error("a fact listener");
    });
    fragile.onFacts(() => void later.push("facts"));
    let forgotten = 0;
    fragile.onReconnect(() => (forgotten += 1));
    await fragile.start();
    await announce(1, database);
    await until(() => later.length === 3, "the later listeners");
    assert.deepEqual(later.sort(), ["committed", "facts", "hint"]);
    assert.equal(faults.length, 1);
    assert.equal(errors.length, 2);
    assert.equal(forgotten, 1, "who could not be told what changed may remember nothing");
    await fragile.stop();
    await database.close();
  });
});
