import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "../../test/builders.ts";
import { openTestHouse } from "../../test/harness.ts";
import { withClient } from "../../test/postgres.ts";

test("a node on which no change gets through is not ready, says why without waiting itself, and is again when one does", async () => {
  const house = await openTestHouse();
  const ready = () => house.owner.get("/api/ready");
  assert.equal((await ready()).status, 200);
  await withClient(house.database.server, house.database.connection.database, async (client) => {
    await client.query("BEGIN");
    await client.query("LOCK TABLE audit_log IN EXCLUSIVE MODE");
    const asked = Array.from({ length: 3 }, (_, n) =>
      house.owner.post("/api/v1/identities", { name: `n${n}` }),
    );
    assert.equal((await ready()).status, 200);
    await until(async () => (await ready()).status === 503, 30_000);
    const { body } = await ready();
    assert.match(body.message, /This node is not ready: no change got through for \d+ s/);
    assert.equal((await house.owner.get("/api/live")).status, 200);
    await client.query("ROLLBACK");
    await Promise.all(asked);
  });
  await until(async () => (await ready()).status === 200, 30_000);
  await house.close();
});
