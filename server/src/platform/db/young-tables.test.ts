import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import {
  createTestDatabase,
  stopOwnPostgres,
  withClient,
  type TestDatabase,
} from "../../../test/postgres.ts";
import { systemClock } from "../clock.ts";
import { newId } from "../ids.ts";
import { openDatabase, sql, type Database } from "./index.ts";

const JOINED = "unnest($2::uuid[], $3::text[]) AS n (id, body)";
const change = sql(`UPDATE young y SET body = n.body FROM ${JOINED} WHERE y.id = n.id AND y.owner = $1`);
const look = sql(`SELECT y.body FROM ${JOINED} JOIN young y ON y.id = n.id WHERE y.owner = $1`);
const scans = sql<{ whole: number; byKey: number }>(
  `SELECT seq_scan AS whole, idx_scan AS "byKey" FROM pg_stat_xact_user_tables WHERE relname = 'young'`,
);

const compiles = sql<{ jit: string }>(`SELECT current_setting('jit') AS jit`);

describe("plans that are made while a table is small", () => {
  let test: TestDatabase;
  let database: Database;
  before(async () => {
    test = await createTestDatabase();
    const { database: name } = test.connection;
    await withClient(test.server, "postgres", (client) =>
      client.query(`ALTER DATABASE ${name} SET jit = on`),
    );
    await withClient(test.server, test.connection.database, async (client) => {
      await client.query("CREATE TABLE young (id uuid PRIMARY KEY, owner uuid, body text)");
      await client.query(
        "INSERT INTO young SELECT gen_random_uuid(), gen_random_uuid(), repeat('x', 100) FROM generate_series(1, 100)",
      );
    });
    database = openDatabase({
      connection: test.connection,
      connections: 2,
      clock: systemClock,
      onError: () => undefined,
    });
  });
  after(async () => {
    await database.close();
    await test.drop();
    await stopOwnPostgres();
  });

  it("go by the key all the same: they are kept while the table grows", async () => {
    const seen = await database.write(
      async (tx) => {
        for (const statement of [change, look]) await tx.rows(statement, [newId(), [newId()], ["y"]]);
        return tx.first(scans);
      },
      { audited: false },
    );
    assert.deepEqual(seen, { whole: 0, byKey: 2 });
  });

  it("are not compiled: what can only be read whole counts as very dear there", async () => {
    const looked = await database.read((q) => q.first(compiles));
    const written = await database.write((tx) => tx.first(compiles), { audited: false });
    assert.deepEqual([looked, written], [{ jit: "off" }, { jit: "off" }]);
  });
});
