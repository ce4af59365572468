import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { aProject } from "../../../test/builders.ts";
import { openTestHouse, type TestHouse } from "../../../test/harness.ts";

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
