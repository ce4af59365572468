/** Deleting an environment deletes its secrets: the caller needs the right to delete them. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { aProject, anIdentity, aRole } from "../../test/builders.ts";
import { openStream } from "../../test/event-streams.ts";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";

let house: TestHouse;
before(async () => {
  house = await openTestHouse();
});
after(() => house.close());

test("an environment is deleted only by somebody who may delete every secret in it", async () => {
  const { id: projectId, environments } = await aProject(house.owner);
  const [dev, staging] = ["dev", "staging"].map((slug) => environments.find((one) => one.slug === slug)?.id);
  const { tag } = (await house.owner.post(`/api/v1/projects/${projectId}/tags`, { slug: "kept", color: "" }))
    .body;
  for (const [key, tagIds] of [
    ["A", []],
    ["B", [tag.id]],
  ] as const)
    await house.owner.post(`/api/v4/secrets/${key}`, {
      projectId,
      environment: "dev",
      secretValue: "1",
      tagIds,
    });
  const someone = async (more: readonly unknown[]) => {
    const role = await aRole(house.owner, projectId, [
      { subject: "environments", action: ["read", "delete"] },
      ...more,
    ]);
    return (await anIdentity(house.owner, house.base, projectId, { roles: [{ role }] })).client;
  };
  const url = `/api/v1/projects/${projectId}/environments`;
  const clearer = await someone([]);
  assert.equal((await clearer.delete(`${url}/${dev}`)).status, 403);
  assert.equal((await clearer.delete(`${url}/${staging}`)).status, 200, "an empty one needs no more");
  const mayDelete = { subject: "secrets", action: "delete" };
  const conditions = { secretTags: { $in: ["kept"] } };
  const careful = await someone([mayDelete, { ...mayDelete, inverted: true, conditions }]);
  assert.equal((await careful.delete(`${url}/${dev}`)).status, 403);
  const { secrets } = (await house.owner.get(`/api/v4/secrets?projectId=${projectId}&environment=dev`)).body;
  assert.equal(secrets.length, 2);
  assert.equal((await (await someone([mayDelete])).delete(`${url}/${dev}`)).status, 200);
});

test("an environment that is renamed takes its secrets along: streams hear them go and come", async () => {
  const { id: projectId, environments } = await aProject(house.owner);
  const dev = environments.find((one) => one.slug === "dev")?.id;
  const folder = { projectId, environment: "dev", name: "deep", path: "/" };
  assert.equal((await house.owner.post("/api/v2/folders", folder)).status, 200);
  for (const secretPath of ["/", "/deep"])
    await house.owner.post("/api/v4/secrets/A", {
      projectId,
      environment: "dev",
      secretPath,
      secretValue: "1",
    });
  const reader = await openStream(house.base, house.owner.token, { projectId });
  const change = { slug: "develop" };
  const path = `/api/v1/projects/${projectId}/environments/${dev}`;
  assert.equal((await house.owner.patch(path, change)).status, 200);
  await reader.hears(4);
  assert.deepEqual(reader.told.sort(), [
    "secret:create develop / A",
    "secret:create develop /deep A",
    "secret:delete dev / A",
    "secret:delete dev /deep A",
  ]);
  reader.close();
});
