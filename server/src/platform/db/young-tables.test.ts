import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { openTestDatabase, type OpenedDatabase } from "../../../test/opened-database.ts";
import { withClient } from "../../../test/postgres.ts";
import { newId } from "../ids.ts";
import { sql, type Database } from "./index.ts";

const JOINED = "unnest($2::uuid[], $3::text[]) AS n (id, body)";
const change = sql(`UPDATE young y SET body = n.body FROM ${JOINED} WHERE y.id = n.id AND y.owner = $1`);
const look = sql(`SELECT y.body FROM ${JOINED} JOIN young y ON y.id = n.id WHERE y.owner = $1`);
const scans = sql<{ whole: number; byKey: number }>(
  `SELECT seq_scan AS whole, idx_scan AS "byKey" FROM pg_stat_xact_user_tables WHERE relname = 'young'`,
);

const compiles = sql<{ jit: string }>(`SELECT current_setting('jit') AS jit`);

describe("plans that are made while a table is small", () => {
  let opened: OpenedDatabase;
  let database: Database;
  before(async () => {
    opened = await openTestDatabase(2, async ({ server, connection: { database: name } }) => {
      await withClient(server, "postgres", (client) => client.query(`ALTER DATABASE ${name} SET jit = on`));
      await withClient(server, name, async (client) => {
        await client.query("CREATE TABLE young (id uuid PRIMARY KEY, owner uuid, body text)");
        await client.query(
          "INSERT INTO young SELECT gen_random_uuid(), gen_random_uuid(), repeat('x', 100) FROM generate_series(1, 100)",
        );
      });
    });
    ({ database } = opened);
  });
  after(() => opened.close());

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
