import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { aProject, anIdentity, aRole } from "../../test/builders.ts";
import { openTestHouse, type Client, type TestHouse } from "../../test/harness.ts";

let house: TestHouse;
before(async () => {
  house = await openTestHouse();
});
after(() => house.close());

const at = (projectId: string, more: Record<string, unknown> = {}) => ({
  projectId,
  environment: "dev",
  secretPath: "/",
  ...more,
});
const aTag = async (projectId: string, slug: string): Promise<string> =>
  (await house.owner.post(`/api/v1/projects/${projectId}/tags`, { slug, color: "" })).body.tag.id;
const clientWith = async (projectId: string, rules: readonly unknown[]): Promise<Client> =>
  (
    await anIdentity(house.owner, house.base, projectId, {
      roles: [{ role: await aRole(house.owner, projectId, rules) }],
    })
  ).client;
const old = (projectId: string, key: string, version: number) =>
  `/api/v4/secrets/${key}?projectId=${projectId}&environment=dev&version=${version}`;
const NOT_RESTRICTED = {
  subject: "secrets",
  action: "readValue",
  inverted: true,
  conditions: { secretTags: { $in: ["restricted"] } },
};
const HISTORY = { subject: "secret-rollback", action: ["read", "create"] };

test("an old version stays hidden from a reader whom its tags of then exclude, in every answer", async () => {
  const { id: projectId } = await aProject(house.owner);
  const tagIds = [await aTag(projectId, "restricted")];
  const { secret } = (
    await house.owner.post(
      "/api/v4/secrets/A",
      at(projectId, {
        secretValue: "old-value",
        secretMetadata: [{ key: "pin", value: "old-pin", isEncrypted: true }],
        tagIds,
      }),
    )
  ).body;
  await house.owner.patch(
    "/api/v4/secrets/A",
    at(projectId, { secretValue: "new-value", secretMetadata: [], tagIds: [] }),
  );
  const rules = [{ subject: "secrets", action: "read" }, NOT_RESTRICTED];
  const narrow = await clientWith(projectId, [...rules, HISTORY]);
  assert.equal((await narrow.get(old(projectId, "A", 2))).body.secret.secretValue, "new-value");
  const answers = [
    await narrow.get(old(projectId, "A", 1)),
    await narrow.get(`/api/v4/secrets/id/${secret.id}/versions`),
  ];
  for (const { status, body } of answers) {
    assert.equal(status, 200, JSON.stringify(body));
    const text = JSON.stringify(body);
    assert.ok(!text.includes("old-value") && !text.includes("old-pin"), text);
  }
  assert.equal(answers[0]?.body.secret.secretValueHidden, true);
  assert.equal((await house.owner.get(old(projectId, "A", 1))).body.secret.secretValue, "old-value");

  const withoutHistory = await clientWith(projectId, rules);
  assert.equal((await withoutHistory.get(old(projectId, "A", 1))).status, 403);
  assert.equal((await withoutHistory.get(old(projectId, "A", 2))).status, 200);
  const stranger = await clientWith(projectId, [HISTORY]);
  for (const version of [1, 99]) assert.equal((await stranger.get(old(projectId, "A", version))).status, 403);
});

test("a history that moved to a more open folder is checked by the folders where it was written", async () => {
  const project = await aProject(house.owner);
  const { id: projectId } = project;
  const prod = at(projectId, { environment: "prod" });
  const { secret } = (await house.owner.post("/api/v4/secrets/A", { ...prod, secretValue: "prod-old" })).body;
  await house.owner.patch("/api/v4/secrets/A", { ...prod, secretValue: "sanitised" });
  house.clock.advance(10);
  const moved = await house.owner.post("/api/v4/secrets/move", {
    projectId,
    sourceEnvironment: "prod",
    sourceSecretPath: "/",
    destinationEnvironment: "dev",
    destinationSecretPath: "/",
    secretIds: [secret.id],
  });
  assert.equal(moved.status, 200, JSON.stringify(moved.body));
  const conditions = { environment: { $eq: "dev" } };
  const developer = await clientWith(projectId, [
    { subject: "secrets", action: ["read", "create", "edit", "delete"], conditions },
    { ...HISTORY, conditions },
  ]);
  const describer = await clientWith(projectId, [
    { subject: "secrets", action: ["read", "edit"], conditions },
    { subject: "secrets", action: "describeSecret" },
    HISTORY,
  ]);
  const rollback = { version: 1 };
  const check = async () => {
    for (const client of [developer, describer]) {
      const list = await client.get(`/api/v4/secrets/id/${secret.id}/versions`);
      assert.equal(list.status, 200, JSON.stringify(list.body));
      const text =
        JSON.stringify(list.body) + JSON.stringify((await client.get(old(projectId, "A", 1))).body);
      assert.ok(text.includes("sanitised") && !text.includes("prod-old"), text);
      assert.equal((await client.post(`/api/v4/secrets/id/${secret.id}/rollback`, rollback)).status, 403);
    }
  };
  await check();
  assert.equal((await describer.get(old(projectId, "A", 1))).body.secret.secretValueHidden, true);
  assert.equal((await developer.get(old(projectId, "A", 1))).status, 403);
  assert.equal((await house.owner.get(old(projectId, "A", 1))).body.secret.secretValue, "prod-old");

  // The environment of then is gone, and with it the name that rules would know it by.
  const gone = project.environments.find(({ slug }) => slug === "prod");
  const deleted = await house.owner.delete(`/api/v1/projects/${projectId}/environments/${gone?.id}`);
  assert.equal(deleted.status, 200, JSON.stringify(deleted.body));
  await check();
  assert.equal((await house.owner.get(old(projectId, "A", 1))).body.secret.secretValue, "prod-old");
  const back = await house.owner.post(`/api/v4/secrets/id/${secret.id}/rollback`, rollback);
  assert.equal(back.body.secret?.secretValue, "prod-old", JSON.stringify(back.body));
});

test("a folder that was renamed into the open does not take its secrets' history along", async () => {
  const { id: projectId } = await aProject(house.owner);
  const { folder } = (
    await house.owner.post("/api/v2/folders", { projectId, environment: "dev", name: "closed" })
  ).body;
  const { secret } = (
    await house.owner.post("/api/v4/secrets/A", at(projectId, { secretPath: "/closed", secretValue: "hush" }))
  ).body;
  await house.owner.patch("/api/v4/secrets/A", at(projectId, { secretPath: "/closed", secretValue: "fine" }));
  house.clock.advance(10);
  await house.owner.patch(`/api/v2/folders/${folder.id}`, { projectId, environment: "dev", name: "open" });
  house.clock.advance(10);
  await house.owner.patch("/api/v4/secrets/A", at(projectId, { secretPath: "/open", secretValue: "free" }));
  const reader = await clientWith(projectId, [
    { subject: "secrets", action: "read", conditions: { secretPath: { $eq: "/open" } } },
    HISTORY,
  ]);
  const list = await reader.get(`/api/v4/secrets/id/${secret.id}/versions`);
  assert.deepEqual(
    list.body.versions.map((v: { version: number; secretValue: string }) => `${v.version} ${v.secretValue}`),
    // Renaming the folder wrote the value of that day anew, in the open place.
    ["4 free", "3 fine"],
  );
});

test("deleting a secret and bringing it back opens nothing that was closed before", async () => {
  const { id: projectId } = await aProject(house.owner);
  const tagIds = [await aTag(projectId, "restricted")];
  const { secret } = (await house.owner.post("/api/v4/secrets/A", at(projectId, { secretValue: "hush" })))
    .body;
  await house.owner.patch("/api/v4/secrets/A", at(projectId, { tagIds }));
  const thief = await clientWith(projectId, [
    { subject: "secrets", action: ["read", "create", "edit", "delete"] },
    NOT_RESTRICTED,
    HISTORY,
  ]);
  const back = (version: number) => thief.post(`/api/v4/secrets/id/${secret.id}/rollback`, { version });
  assert.equal((await thief.patch("/api/v4/secrets/A", at(projectId, { tagIds: [] }))).status, 403);
  assert.equal((await back(1)).status, 403);
  assert.equal((await thief.delete("/api/v4/secrets/A", at(projectId))).status, 200);
  assert.equal((await back(1)).status, 403);
  const closed = await back(2);
  assert.deepEqual([closed.status, closed.body.secret?.secretValueHidden], [200, true]);
  assert.equal((await back(1)).status, 403);
});

test("a folder that is gone comes back as its dry run says, alone or with all below", async () => {
  const { id: projectId } = await aProject(house.owner);
  await house.owner.post("/api/v2/folders", { projectId, environment: "dev", name: "api" });
  await house.owner.post("/api/v4/secrets/A", at(projectId, { secretPath: "/api", secretValue: "1" }));
  house.clock.advance(1000);
  const moment = house.clock.now().toISOString();
  house.clock.advance(1000);
  await house.owner.delete("/api/v1/folders/api", { workspaceId: projectId, environment: "dev" });
  const back = (dryRun: boolean) =>
    house.owner.post(`/api/v1/projects/${projectId}/secrets/rollback`, {
      ...at(projectId, { secretPath: "/api" }),
      at: moment,
      dryRun,
    });
  const [dry, done] = [await back(true), await back(false)];
  assert.deepEqual([dry.status, done.status], [200, 200], JSON.stringify(done.body));
  assert.deepEqual(done.body.changes, dry.body.changes);
  const read = await house.owner.get(
    `/api/v4/secrets/A?projectId=${projectId}&environment=dev&secretPath=/api`,
  );
  assert.equal(read.body.secret?.secretValue, "1");
});

test("an override does not come back where there is nothing to override", async () => {
  const { id: projectId } = await aProject(house.owner);
  await house.owner.post("/api/v4/secrets/A", at(projectId, { secretValue: "shared" }));
  const { secret } = (
    await house.owner.post("/api/v4/secrets/A", at(projectId, { secretValue: "mine", type: "personal" }))
  ).body;
  await house.owner.delete("/api/v4/secrets/A", at(projectId));
  const back = () => house.owner.post(`/api/v4/secrets/id/${secret.id}/rollback`, { version: 1 });
  assert.equal((await back()).status, 400);
  await house.owner.post("/api/v4/secrets/A", at(projectId, { secretValue: "again" }));
  const done = await back();
  assert.equal(done.status, 200, JSON.stringify(done.body));
  assert.equal(done.body.secret.type, "personal");
});
