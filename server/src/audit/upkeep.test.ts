import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { steppedClock } from "../platform/clock.ts";
import { openDatabase, type Database } from "../platform/db/index.ts";
import { newId } from "../platform/ids.ts";
import { silentLog, type Log } from "../platform/log.ts";
import { createTestDatabase, stopOwnPostgres, withClient, type TestDatabase } from "../../test/postgres.ts";
import { createAuditPartitions } from "./partitions.ts";
import { createAuditRetention } from "./retention.ts";

describe("maintenance of the audit log", () => {
  let test: TestDatabase;
  let database: Database;
  const clock = steppedClock(new Date("2031-11-15T12:00:00Z"));
  const warnings: string[] = [];
  const log: Log = Object.assign(Object.create(silentLog) as Log, {
    warn: (fields: { month: string }) => void warnings.push(fields.month),
  });

  before(async () => {
    test = await createTestDatabase();
    database = openDatabase({ connection: test.connection, connections: 8, clock, onError: () => undefined });
  });
  after(async () => {
    await database.close();
    await test.drop();
    await stopOwnPostgres();
  });

  const query = <Row extends object>(text: string, values: unknown[] = []) =>
    withClient(
      test.server,
      test.connection.database,
      async (client) => (await client.query<Row>(text, values)).rows,
    );
  const partitionOf = async (id: string) =>
    (
      await query<{ name: string }>("SELECT tableoid::regclass::text AS name FROM audit_log WHERE id = $1", [
        id,
      ])
    )[0]?.name;
  const months = async () =>
    (
      await query<{ name: string }>(
        "SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'audit_log'::regclass ORDER BY 1",
      )
    ).map((row) => row.name);
  const insertAt = async (at: string, projectId: string | null = null) => {
    const id = newId();
    await query(
      "INSERT INTO audit_log (id, at, project_id, event, actor_type, actor_name, metadata) VALUES ($1, $2, $3, 'e', 'system', 's', '{}')",
      [id, at, projectId],
    );
    return id;
  };
  const partitions = () => createAuditPartitions({ db: database, clock, log });
  const forget = (retentionDays: number) =>
    createAuditRetention({ db: database, clock, log, retentionDays }).applyRetention();
  const isKept = async (id: string) => (await partitionOf(id)) !== undefined;

  it("makes this month and the next two, once, however many nodes do it at the same time", async () => {
    await Promise.all(Array.from({ length: 6 }, () => partitions().ensurePartitions()));
    assert.deepEqual(await months(), [
      "audit_log_2031_11",
      "audit_log_2031_12",
      "audit_log_2032_01",
      "audit_log_default",
    ]);
    await partitions().ensurePartitions();
    assert.equal((await months()).length, 4);
  });

  it("puts every row into the month of its moment in UTC, and what has no month into the default", async () => {
    const places = {
      "2031-11-01T00:00:00.000Z": "audit_log_2031_11",
      "2031-11-30T23:59:59.999Z": "audit_log_2031_11",
      "2031-12-01T00:30:00.000+01:00": "audit_log_2031_11",
      "2031-12-01T00:00:00.000Z": "audit_log_2031_12",
      "2032-01-31T23:59:59.999Z": "audit_log_2032_01",
      "2031-10-31T23:59:59.999Z": "audit_log_default",
    };
    for (const [at, place] of Object.entries(places))
      assert.equal(await partitionOf(await insertAt(at)), place, at);
  });

  it("gives a month the indexes by which the log is read", async () => {
    const indexes = await query<{ def: string }>(
      "SELECT indexdef AS def FROM pg_indexes WHERE tablename = 'audit_log_2032_01'",
    );
    assert.equal(
      indexes.filter(({ def }) => /\(org_id, at DESC, id DESC\)|\(project_id, at DESC, id DESC\)/.test(def))
        .length,
      2,
    );
  });

  it("leaves a month in the default partition when rows of it lie there, says so once, and makes the others", async () => {
    const stray = await insertAt("2032-02-10T00:00:00Z");
    clock.set(new Date("2032-01-20T00:00:00Z"));
    const maintenance = partitions();
    await maintenance.ensurePartitions();
    await maintenance.ensurePartitions();
    assert.deepEqual(warnings, ["audit_log_2032_02"]);
    assert.equal(await partitionOf(stray), "audit_log_default");
    assert.equal(await partitionOf(await insertAt("2032-02-11T00:00:00Z")), "audit_log_default");
    assert.ok((await months()).includes("audit_log_2032_03"));
  });

  it("drops whole months that are older than the retention, and deletes rows without a month one by one", async () => {
    const [old, young] = [await insertAt("2031-12-05T00:00:00Z"), await insertAt("2032-01-05T00:00:00Z")];
    const [oldStray, youngStray] = [
      await insertAt("2031-06-01T00:00:00Z"),
      await insertAt("2032-02-12T00:00:00Z"),
    ];
    clock.set(new Date("2032-01-30T00:00:00Z"));
    await forget(30);
    assert.ok((await months()).includes("audit_log_2031_12"), "its last day is still to be kept");
    assert.ok(!(await months()).includes("audit_log_2031_11"));
    assert.ok(await isKept(old));
    clock.set(new Date("2032-01-31T00:00:00Z"));
    await forget(30);
    assert.ok(!(await months()).includes("audit_log_2031_12"));
    assert.deepEqual(
      [await isKept(old), await isKept(oldStray), await isKept(young), await isKept(youngStray)],
      [false, false, true, true],
    );
  });

  it("deletes nothing of the instance when the retention is 0", async () => {
    const before = await months();
    clock.set(new Date("2099-01-01T00:00:00Z"));
    await forget(0);
    assert.deepEqual(await months(), before);
  });

  it("deletes a project's rows as early as the project wants, in chunks, and nobody else's", async () => {
    clock.set(new Date("2032-03-20T00:00:00Z"));
    const orgId = newId();
    await query(
      "INSERT INTO organizations (id, name, slug, created_at, updated_at) VALUES ($1, 'o', 'o', now(), now())",
      [orgId],
    );
    const project = async (days: number | null) => {
      const id = newId();
      await query(
        "INSERT INTO projects (id, org_id, name, slug, type, audit_retention_days, created_at, updated_at) VALUES ($1, $2, 'p', $3, 'secret-manager', $4, now(), now())",
        [id, orgId, id, days],
      );
      return id;
    };
    const [short, zero, none] = [await project(10), await project(0), await project(null)];
    const kept = [
      await insertAt("2032-03-10T00:10:00Z", short),
      await insertAt("2032-03-01T00:00:00Z", zero),
      await insertAt("2032-03-01T00:00:00Z", none),
      await insertAt("2032-03-01T00:00:00Z"),
    ];
    const gone = await insertAt("2032-03-09T23:59:59.999Z", short);
    await query(
      `INSERT INTO audit_log (id, at, project_id, event, actor_type, actor_name, metadata)
       SELECT gen_random_uuid(), '2032-03-01T00:00:00Z'::timestamptz + (n / 3) * interval '1 second', $1, 'many', 'system', 's', '{}' FROM generate_series(1, 12001) n`,
      [short],
    );
    await forget(0);
    assert.equal(await isKept(gone), false);
    assert.deepEqual(await query("SELECT count(*)::int AS count FROM audit_log WHERE event = 'many'"), [
      { count: 0 },
    ]);
    for (const id of kept) assert.ok(await isKept(id));
  });
});
