/** A rollback gives nobody what they could not get by an ordinary change. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { aProject, anIdentity, aRole } from "../../test/builders.ts";
import { openTestHouse, type Answer, type TestHouse } from "../../test/harness.ts";

let house: TestHouse;
before(async () => {
  house = await openTestHouse();
});
after(() => house.close());

const ok = (answer: Answer) => {
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body;
};

/** Two folders, a secret in the first, and a moment afterwards. */
async function aPast() {
  const { id: projectId } = await aProject(house.owner);
  const at = { projectId, environment: "dev" };
  for (const name of ["open", "closed"]) ok(await house.owner.post("/api/v2/folders", { ...at, name }));
  const { secret } = ok(
    await house.owner.post("/api/v4/secrets/K", { ...at, secretPath: "/open", secretValue: "hush" }),
  );
  house.clock.advance(1000);
  const moment = house.clock.now().toISOString();
  house.clock.advance(1000);
  const url = `/api/v1/projects/${projectId}/secrets/rollback`;
  const back = { environment: "dev", secretPath: "/open", recursive: true, at: moment };
  const conditions = { environment: { $eq: "dev" }, secretPath: { $glob: "/open{,/**}" } };
  const rules = ["secrets", "secret-rollback"].map((subject) => ({
    subject,
    action: subject === "secrets" ? ["read", "create", "edit", "delete"] : ["read", "create"],
    conditions,
  }));
  const someone = async (more: readonly unknown[]) => {
    const role = await aRole(house.owner, projectId, [...rules, ...more]);
    return (await anIdentity(house.owner, house.base, projectId, { roles: [{ role }] })).client;
  };
  return { projectId, at, secret, url, back, conditions, someone };
}

test("a secret that was moved out of somebody's reach does not come back as a copy for them", async () => {
  const { projectId, at, secret, url, back, someone } = await aPast();
  ok(
    await house.owner.post("/api/v4/secrets/move", {
      projectId,
      sourceEnvironment: "dev",
      sourceSecretPath: "/open",
      destinationEnvironment: "dev",
      destinationSecretPath: "/closed",
      secretIds: [secret.id],
    }),
  );
  const client = await someone([]);
  for (const dryRun of [true, false])
    assert.equal((await client.post(url, { ...back, dryRun })).status, 403, `dry: ${dryRun}`);
  // Deleted there, it was last closed.
  ok(await house.owner.delete("/api/v4/secrets/K", { ...at, secretPath: "/closed" }));
  assert.equal((await client.post(url, back)).status, 403);
  ok(await house.owner.post(url, back));
});

test("what was deleted where somebody can read it comes back for them", async () => {
  const { at, url, back, someone } = await aPast();
  ok(await house.owner.delete("/api/v4/secrets/K", { ...at, secretPath: "/open" }));
  ok(await (await someone([])).post(url, back));
});

test("a folder comes back only for somebody who may make it", async () => {
  const { at, url, back, someone, conditions } = await aPast();
  ok(await house.owner.delete("/api/v2/folders/open", { ...at, path: "/", forceDelete: true }));
  const client = await someone([]);
  for (const dryRun of [true, false])
    assert.equal((await client.post(url, { ...back, dryRun })).status, 403, `dry: ${dryRun}`);
  const builder = await someone([{ subject: "secret-folders", action: "create", conditions }]);
  ok(await builder.post(url, back));
});
