import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before, describe, it } from "node:test";
import { startEmbeddedPostgres, type EmbeddedPostgres } from "@keyward/embedded-postgres";
import fc from "fast-check";
import {
  NeverRan,
  openReadPipelines,
  Pipeline,
  sever,
  SessionClient,
  type PipelineStatement,
  type SessionConfig,
} from "./index.ts";
import { privatePartsOf } from "./private-parts.ts";

let postgres: EmbeddedPostgres;
let dataDir: string;
let config: SessionConfig;

before(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "pg-pipeline-"));
  postgres = await startEmbeddedPostgres({ name: "shop", dataDir, log: () => undefined, durable: false });
  config = { ...postgres.connection, ssl: false, settings: { TimeZone: "UTC", DateStyle: "ISO" } };
});
after(async () => {
  await postgres.stop();
  await rm(dataDir, { recursive: true, force: true });
});

let names = 0;
const named = <Row>(text: string): PipelineStatement<Row> => ({ name: `t${(names += 1)}`, text });
const unnamed = <Row>(text: string): PipelineStatement<Row> => ({ name: undefined, text });

const clients: SessionClient[] = [];
async function connect(more: Partial<SessionConfig> = {}): Promise<SessionClient> {
  const client = new SessionClient({ ...config, ...more });
  client.on("error", () => undefined);
  await client.connect();
  clients.push(client);
  return client;
}
afterEach(async () => {
  for (const client of clients.splice(0)) await client.end().catch(() => undefined);
});

/** Until the database shows it: how long that takes is the machine's affair. */
async function until(client: SessionClient, query: string): Promise<void> {
  while ((await client.query(query)).rows.length === 0)
    await new Promise((resolve) => setTimeout(resolve, 20));
}

describe("a pipeline", () => {
  it("sends the statements of one turn with one Sync, and gives each caller its own answer", async () => {
    const client = await connect();
    const pipeline = new Pipeline(client);
    const echo = named<{ n: number }>("SELECT $1::int AS n");
    let syncs = 0;
    (privatePartsOf(client).connection as unknown as NodeJS.EventEmitter).on("readyForQuery", () => {
      syncs += 1;
    });
    const ask = (from: number) =>
      Promise.all(Array.from({ length: 20 }, (_, n) => pipeline.rows(echo, [from + n])));
    assert.deepEqual(
      (await ask(0)).flat().map(({ n }) => n),
      Array.from({ length: 20 }, (_, n) => n),
    );
    assert.equal(syncs, 1);
    await ask(100);
    assert.equal(syncs, 2);
  });

  it("prepares a named statement once, and describes its columns once", async () => {
    const client = await connect();
    const pipeline = new Pipeline(client);
    const heard: string[] = [];
    const connection = privatePartsOf(client).connection as unknown as NodeJS.EventEmitter;
    for (const event of ["parseComplete", "rowDescription"])
      connection.on(event, () => void heard.push(event));
    const echo = named<{ n: number }>("SELECT $1::int AS n");
    for (let n = 0; n < 3; n += 1)
      assert.deepEqual(await Promise.all([pipeline.rows(echo, [n]), pipeline.rows(echo, [n])]), [
        [{ n }],
        [{ n }],
      ]);
    assert.deepEqual(heard, ["parseComplete", "rowDescription"]);
  });

  it("skips what comes after a failed statement, says so, and goes on with the next batch", async () => {
    const pipeline = new Pipeline(await connect());
    const half = named<{ n: number }>("SELECT 100 / $1::int AS n");
    const [before0, failed, behind] = await Promise.allSettled(
      [50, 0, 20].map((n) => pipeline.rows(half, [n])),
    );
    assert.deepEqual(before0, { status: "fulfilled", value: [{ n: 2 }] });
    assert.match(String((failed as PromiseRejectedResult).reason), /division by zero/);
    const { reason } = behind as PromiseRejectedResult;
    assert.ok(reason instanceof NeverRan);
    assert.match(String(reason.cause), /division by zero/);
    assert.deepEqual(await pipeline.rows(half, [20]), [{ n: 5 }]);
  });

  it("reads unnamed statements of different columns one after the other", async () => {
    const pipeline = new Pipeline(await connect());
    const one = unnamed<{ a: number }>("SELECT $1::int AS a");
    const two = unnamed<{ b: string; c: boolean }>("SELECT $1::text AS b, true AS c");
    assert.deepEqual(
      await Promise.all([
        pipeline.rows<unknown>(one, [1]),
        pipeline.rows<unknown>(two, ["x"]),
        pipeline.rows<unknown>(one, [2]),
        pipeline.rows<unknown>(two, ["y"]),
      ]),
      [[{ a: 1 }], [{ b: "x", c: true }], [{ a: 2 }], [{ b: "y", c: true }]],
    );
  });

  it("answers a statement without rows with what PostgreSQL says it did", async () => {
    const pipeline = new Pipeline(await connect());
    const said = await Promise.all(
      ["BEGIN", "CREATE TEMP TABLE t (n int)", "INSERT INTO t VALUES (1), (2)", "", "COMMIT"].map((text) =>
        pipeline.run(unnamed(text)),
      ),
    );
    assert.deepEqual(said, ["BEGIN", "CREATE TABLE", "INSERT 0 2", "", "COMMIT"]);
  });

  it("rejects everything that was in flight when it is cut off", async () => {
    const client = await connect();
    const pipeline = new Pipeline(client);
    const sleep = named("SELECT pg_sleep(600)");
    const looks = [pipeline.rows(sleep, []), pipeline.rows(sleep, [])];
    await until(await connect(), "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'");
    assert.ok(pipeline.waitingMs() > 0);
    sever(client);
    const [first, second] = await Promise.allSettled(looks);
    assert.match(String((first as PromiseRejectedResult).reason), /Connection terminated/);
    assert.ok((second as PromiseRejectedResult).reason instanceof NeverRan);
    assert.equal(pipeline.waitingMs(), 0);
  });

  it("cuts the connection when an answer is late: it would be taken for the next one's", async () => {
    const client = await connect({ query_timeout: 50 });
    const ended = new Promise((resolve) => client.once("end", resolve));
    const pipeline = new Pipeline(client);
    await assert.rejects(pipeline.rows(named("SELECT pg_sleep(600)"), []), /Query read timeout/);
    await ended;
  });

  it("carries text, bytes, moments, numbers and lists of them there and back unchanged", async () => {
    const pipeline = new Pipeline(await connect());
    // PostgreSQL stores no NUL; everything else must survive, quotes, backslashes and NULL in words above all.
    const text = fc
      .oneof(
        fc.string({ unit: "binary" }),
        fc.constantFrom("NULL", '"', "\\", "{", "}", ",", "", " ", "\\x41"),
      )
      .map((value) => value.replaceAll("\0", ""));
    const maybe = fc.option(text);
    const bytes = fc.uint8Array({ maxLength: 20 }).map((value) => Buffer.from(value));
    // As far as both sides can count: the year 0 and years beyond 9999 too.
    const at = fc.oneof(
      fc.date({ min: new Date("1900-01-01"), max: new Date("9999-12-31"), noInvalidDate: true }),
      fc.date({ min: new Date("-004700-01-01"), max: new Date("+275000-01-01"), noInvalidDate: true }),
      fc
        .constantFrom("0000-06-01", "-000001-12-31", "0001-01-01", "+010000-01-01")
        .map((day) => new Date(day)),
    );
    const echo = named<Record<string, unknown>>(`
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
          const [back] = await pipeline.rows(echo, values);
          assert.deepEqual({ ...back, json: undefined }, { ...sent, json: undefined });
          assert.deepEqual(back?.["json"], { ...json });
        },
      ),
      { numRuns: 150 },
    );
  });
});

describe("read pipelines", () => {
  const isAway = (error: unknown): boolean =>
    /^57P0/.test((error as { code?: string }).code ?? "") || /Connection terminated/.test(String(error));
  const opened: ReturnType<typeof openReadPipelines>[] = [];
  function open(count = 3) {
    const settings = { ...config.settings, default_transaction_read_only: "on" };
    const pipelines = openReadPipelines({ ...config, settings }, { count, isAway });
    opened.push(pipelines);
    return pipelines;
  }
  afterEach(async () => {
    for (const pipelines of opened.splice(0)) await pipelines.close();
  });

  it("give every read of a batch its own answer, also those behind one that fails", async () => {
    const pipelines = open();
    const half = named<{ n: number }>("SELECT 100 / $1::int AS n");
    const looks = Array.from({ length: 60 }, (_, n) => n % 7);
    const answers = await Promise.allSettled(looks.map((n) => pipelines.rows(half, [n])));
    for (const [at, n] of looks.entries()) {
      const answer = answers[at];
      if (n === 0) assert.match(String((answer as PromiseRejectedResult).reason), /division by zero/);
      else assert.deepEqual((answer as PromiseFulfilledResult<unknown>).value, [{ n: Math.trunc(100 / n) }]);
    }
  });

  it("read the rows of a statement whose first run failed before its columns were known", async () => {
    const pipelines = open(1);
    const echo = named<{ id: string }>("SELECT $1::uuid AS id");
    await assert.rejects(pipelines.rows(echo, ["not a uuid"]), /invalid input syntax/);
    const id = "01a1dddc-2933-7771-9364-c96a432b3b14";
    for (let n = 0; n < 3; n += 1) assert.deepEqual(await pipelines.rows(echo, [id]), [{ id }]);
  });

  it("refuse a value that cannot be written down without harm to its neighbours", async () => {
    const pipelines = open(1);
    const when = named<{ at: Date }>("SELECT $1::timestamptz AS at");
    const [bad, good] = await Promise.allSettled([
      pipelines.rows(when, [new Date(Number.NaN)]),
      pipelines.rows(when, [new Date(0)]),
    ]);
    assert.equal(bad.status, "rejected");
    assert.deepEqual(good, { status: "fulfilled", value: [{ at: new Date(0) }] });
  });

  it("do not queue reads behind a slow one while another connection is free", async () => {
    const pipelines = open();
    const client = await connect();
    await client.query("SELECT pg_advisory_lock(4711)");
    const waiting = pipelines.rows(named("SELECT pg_advisory_xact_lock_shared(4711)"), []);
    await until(client, "SELECT 1 FROM pg_locks WHERE objid = 4711 AND NOT granted");
    // Would wait for ever otherwise: the lock is let go of only afterwards.
    const quick = named<{ n: number }>("SELECT 1 AS n");
    const answers = await Promise.all(Array.from({ length: 12 }, () => pipelines.rows(quick, [])));
    assert.deepEqual([...new Set(answers.flat().map((row) => row.n))], [1]);
    await client.query("SELECT pg_advisory_unlock(4711)");
    await waiting;
  });

  it("retry every read that was in flight on a connection that the database ended", async () => {
    const pipelines = open();
    const client = await connect();
    const held = named<{ n: number }>("SELECT $1::int AS n, pg_advisory_xact_lock_shared(4712)");
    const isWaiting = `FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%4712%'`;
    await client.query("SELECT pg_advisory_lock(4712)");
    const looks = Array.from({ length: 40 }, (_, n) => pipelines.rows(held, [n]));
    await until(client, `SELECT 1 ${isWaiting}`);
    await client.query(`SELECT pg_terminate_backend(pid) ${isWaiting}`);
    await client.query("SELECT pg_advisory_unlock(4712)");
    assert.deepEqual(
      (await Promise.all(looks)).flat().map((row) => row.n),
      Array.from({ length: 40 }, (_, n) => n),
    );
  });

  it("retry nothing where the caller does not call the failure an outage", async () => {
    const pipelines = openReadPipelines(config, { count: 1, isAway: () => false });
    opened.push(pipelines);
    const end = named("SELECT pg_terminate_backend(pg_backend_pid())");
    await assert.rejects(pipelines.rows(end, []), /terminating connection/);
  });

  it("do not use a connection that was opened before a renewal", async () => {
    const pipelines = open(1);
    const who = named<{ pid: number }>("SELECT pg_backend_pid() AS pid");
    const pid = async () => (await pipelines.rows(who, []))[0]?.pid;
    const first = await pid();
    assert.equal(await pid(), first);
    pipelines.renew();
    assert.notEqual(await pid(), first);
  });

  it("cannot write, whatever the statement says, and answer nobody once they are closed", async () => {
    const pipelines = open(1);
    await assert.rejects(pipelines.rows(named("CREATE TABLE never (n int)"), []), /read-only transaction/);
    await pipelines.close();
    await assert.rejects(pipelines.rows(named("SELECT 1"), []), /terminated|closed|end/i);
  });
});

describe("a session", () => {
  const shown = async (client: SessionClient, name: string): Promise<unknown> =>
    (await client.query<{ value: string }>("SELECT current_setting($1) AS value", [name])).rows[0]?.value;

  it("has its settings, and they go before those of the address", async () => {
    const client = await connect({
      options: "-c statement_timeout=1 -c lock_timeout=7",
      settings: { statement_timeout: 4000, search_path: '"a b\t", "c\\d"' },
    });
    assert.equal(await shown(client, "statement_timeout"), "4s");
    assert.equal(await shown(client, "lock_timeout"), "7ms");
    assert.equal(await shown(client, "search_path"), '"a b\t", "c\\d"');
  });

  it("knows that it leads to a primary, and when it was opened", async () => {
    const from = performance.now();
    const client = await connect();
    assert.equal(client.isStandby, false);
    assert.ok(client.askedAt >= from && client.askedAt <= performance.now());
  });
});
