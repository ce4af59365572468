/** What a tag protects stays protected, whatever is done to the tag itself. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { aProject, anIdentity, aRole } from "../../../test/builders.ts";
import { openTestHouse, type Answer, type TestHouse } from "../../../test/harness.ts";
import type { NumberedFact } from "../../platform/outbox/index.ts";

let house: TestHouse;
let facts: NumberedFact[] = [];
before(async () => {
  house = await openTestHouse();
  house.house.tail.onFacts((more) => void facts.push(...more));
});
after(() => house.close());

const ok = (answer: Answer) => {
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body;
};

/** A project with a tag, and a member who is kept from everything that carries it. */
async function aClosedTag() {
  const { id: projectId } = await aProject(house.owner);
  const url = `/api/v1/projects/${projectId}/tags`;
  const { tag } = ok(await house.owner.post(url, { slug: "restricted", color: "" }));
  const role = await aRole(house.owner, projectId, [
    {
      subject: "secrets",
      action: "readValue",
      inverted: true,
      conditions: { secretTags: { $in: ["restricted"] } },
    },
  ]);
  const { client } = await anIdentity(house.owner, house.base, projectId, {
    roles: [{ role: "member" }, { role }],
  });
  const at = { projectId, environment: "dev" };
  return { projectId, at, tag, client, url: `${url}/${tag.id}` };
}

test("a caller who cannot read what carries a tag can neither rename nor delete it, but may change its colour", async () => {
  const { projectId, at, tag, client, url } = await aClosedTag();
  ok(await client.patch(url, { slug: "restricted-too", color: "" }));
  ok(await client.patch(url, { slug: "restricted", color: "" }));
  ok(await house.owner.post("/api/v4/secrets/K", { ...at, secretValue: "hush", tagIds: [tag.id] }));
  const refused = await client.patch(url, { slug: "harmless" });
  assert.equal(refused.status, 403, JSON.stringify(refused.body));
  assert.equal((await client.delete(url)).status, 403);
  ok(await client.patch(url, { slug: "restricted", color: "#ff0000" }));
  const { secret } = ok(await client.get(`/api/v4/secrets/K?projectId=${projectId}&environment=dev`));
  assert.equal(secret.secretValueHidden, true);
  ok(await house.owner.patch(url, { slug: "harmless" }));
});

test("a single secret that carries a tag is changed and deleted only by who may do that to what carries it", async () => {
  const { projectId, at, tag } = await aClosedTag();
  const conditions = { secretTags: { $in: ["restricted"] } };
  const role = await aRole(house.owner, projectId, [
    { subject: "secrets", action: ["edit", "delete"], inverted: true, conditions },
  ]);
  const { client } = await anIdentity(house.owner, house.base, projectId, {
    roles: [{ role: "member" }, { role }],
  });
  ok(await house.owner.post("/api/v4/secrets/K", { ...at, secretValue: "hush", tagIds: [tag.id] }));
  ok(await house.owner.post("/api/v4/secrets/L", { ...at, secretValue: "free" }));
  const changed = { secretValue: "other" };
  assert.equal((await client.patch("/api/v4/secrets/K", { ...at, ...changed })).status, 403);
  const batch = {
    ...at,
    secrets: [
      { secretKey: "L", ...changed },
      { secretKey: "K", ...changed },
    ],
  };
  assert.equal((await client.patch("/api/v4/secrets/batch", batch)).status, 403);
  assert.equal((await client.delete("/api/v4/secrets/K", at)).status, 403);
  ok(await client.patch("/api/v4/secrets/L", { ...at, ...changed }));
  const { secret } = ok(await house.owner.get(`/api/v4/secrets/K?projectId=${projectId}&environment=dev`));
  assert.equal(secret.secretValue, "hush");
});

test("nor does one who cannot read what carried it once", async () => {
  const { at, tag, client, url } = await aClosedTag();
  ok(await house.owner.post("/api/v4/secrets/K", { ...at, secretValue: "hush", tagIds: [tag.id] }));
  ok(await house.owner.patch("/api/v4/secrets/K", { ...at, secretValue: "other", tagIds: [] }));
  assert.equal((await client.patch(url, { slug: "harmless" })).status, 403);
  assert.equal((await client.delete(url)).status, 403);
  ok(await house.owner.delete("/api/v4/secrets/K", at));
  assert.equal((await client.delete(url)).status, 403);
});

test("a tag that is deleted is taken off each secret: a version, and an announcement", async () => {
  const { projectId, at, tag, url } = await aClosedTag();
  ok(await house.owner.post("/api/v4/secrets/A", { ...at, secretValue: "1", tagIds: [tag.id] }));
  ok(await house.owner.post("/api/v4/secrets/B", { ...at, secretValue: "2", tagIds: [tag.id] }));
  ok(await house.owner.post("/api/v4/secrets/C", { ...at, secretValue: "3" }));
  const override = { ...at, type: "personal", secretValue: "mine", tagIds: [tag.id] };
  ok(await house.owner.post("/api/v4/secrets/A", override));
  facts = [];
  ok(await house.owner.delete(url));
  const marker = await aProject(house.owner);
  while (!facts.some((fact) => (fact.data as { projectId?: string }).projectId === marker.id))
    await new Promise((resolve) => setTimeout(resolve, 5));
  const told = facts
    .filter((fact) => fact.name.startsWith("secrets."))
    .map((fact) => fact.data as { change: string; keys: string[] })
    .map(({ change, keys }) => `${change} ${[...keys].sort().join(",")}`);
  assert.deepEqual(told, ["update A,B"]);
  const { secrets } = ok(await house.owner.get(`/api/v4/secrets?projectId=${projectId}&environment=dev`));
  assert.deepEqual(
    secrets.map((s: { secretKey: string; version: number; secretValue: string; tags: unknown[] }) => [
      s.secretKey,
      s.version,
      s.tags.length,
    ]),
    [
      ["A", 2, 0],
      ["B", 2, 0],
      ["C", 1, 0],
    ],
  );
  const { secret } = ok(
    await house.owner.get(`/api/v4/secrets/A?projectId=${projectId}&environment=dev&type=personal`),
  );
  assert.deepEqual([secret.secretValue, secret.version], ["mine", 2]);
});
