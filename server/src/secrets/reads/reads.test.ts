import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { aProject } from "../../../test/builders.ts";
import { openTestHouse, type TestHouse } from "../../../test/harness.ts";

let house: TestHouse;
before(async () => {
  house = await openTestHouse({ env: { KEYWARD_AUDIT_READS: "strict" } });
});
after(() => house.close());

test("with strict auditing a value is answered only once its reading is durable, the hundredth as the first", async () => {
  const { id: projectId } = await aProject(house.owner);
  await house.owner.post("/api/v4/secrets/A", { projectId, environment: "dev", secretValue: "1" });
  const read = async () => {
    const answer = await house.owner.get(`/api/v4/secrets?projectId=${projectId}&environment=dev`);
    const client = await house.house.database.connect();
    const { rows } = await client.query(
      "SELECT 1 FROM audit_log WHERE request_id = $1 AND event = 'get-secrets'",
      [answer.headers.get("x-request-id")],
    );
    await client.end();
    return rows.length;
  };
  assert.deepEqual(
    await Promise.all(Array.from({ length: 20 }, read)),
    Array.from({ length: 20 }, () => 1),
  );
});
