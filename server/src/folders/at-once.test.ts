import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { aProject } from "../../test/builders.ts";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";

let house: TestHouse;
before(async () => {
  house = await openTestHouse();
});
after(() => house.close());

test("folders that are made at once below folders that are not there yet are all made", async () => {
  const { id: projectId } = await aProject(house.owner);
  const make = (name: string, path = "/a/b/c") =>
    house.owner.post("/api/v2/folders", { projectId, environment: "dev", path, name });
  const made = await Promise.all(Array.from({ length: 12 }, (_, n) => make(`f${n}`)));
  assert.deepEqual(
    made.map(({ status }) => status),
    made.map(() => 200),
  );
  const same = await Promise.all(Array.from({ length: 5 }, () => make("same", "/x/y")));
  assert.deepEqual(same.map(({ status }) => status).sort(), [200, 409, 409, 409, 409]);
});

test("a folder that is moved away meanwhile is not described where it went", async () => {
  const { id: projectId } = await aProject(house.owner);
  const at = { projectId, environment: "dev" };
  const { folder } = (await house.owner.post("/api/v2/folders", { ...at, name: "a" })).body;
  const [other, watch] = [await house.house.database.connect(), await house.house.database.connect()];
  try {
    await other.query("BEGIN");
    await other.query("SELECT pg_advisory_xact_lock(project_lock_key($1))", [projectId]);
    await other.query("UPDATE folders SET path = '/b', name = 'b' WHERE id = $1", [folder.id]);
    const answer = house.owner.patch(`/api/v2/folders/${folder.id}`, { ...at, description: "mine" });
    const waiting = `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
    while ((await watch.query(waiting)).rowCount === 0)
      await new Promise((resolve) => setTimeout(resolve, 5));
    await other.query("COMMIT");
    assert.equal((await answer).status, 404);
    const { rows } = await watch.query("SELECT description FROM folders WHERE id = $1", [folder.id]);
    assert.deepEqual(rows, [{ description: null }]);
  } finally {
    await Promise.all([other.end(), watch.end()]);
  }
});
