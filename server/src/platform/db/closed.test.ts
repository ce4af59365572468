import assert from "node:assert/strict";
import { test } from "node:test";
import { openTestHouse } from "../../../test/harness.ts";
import { Problem } from "../problem.ts";
import { slowSql, sql, MAINTENANCE_TURN } from "./index.ts";

test("a query after the database was closed says that the node is stopping, not that there is a bug", async () => {
  const house = await openTestHouse();
  const { database } = house.house;
  await house.close();
  const isUnavailable = (error: unknown) => error instanceof Problem && error.status === 503;
  const [look, slowLook] = [sql<unknown>("SELECT 1"), slowSql<unknown>("SELECT 1")];
  await assert.rejects(
    database.read((q) => q.rows(look)),
    isUnavailable,
  );
  for (const turn of [{ tenant: "one" }, MAINTENANCE_TURN])
    await assert.rejects(
      database.read((q) => q.rows(slowLook), turn),
      isUnavailable,
    );
  await assert.rejects(
    database.write((tx) => tx.rows(look), { audited: false }),
    isUnavailable,
  );
});
