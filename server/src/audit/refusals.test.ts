import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { aProject, anIdentity } from "../../test/builders.ts";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";

let house: TestHouse;
before(async () => {
  house = await openTestHouse();
});
after(() => house.close());

const refusals = async (projectId: string) => {
  await house.house.refusals.flush();
  const path = `/api/v1/organization/audit-logs?projectId=${projectId}&eventType=request-refused`;
  return (await house.owner.get(path)).body.auditLogs as {
    actor: { metadata: { identityId: string } };
    event: { metadata: { endpoint: string; count: number; firstAt: string; lastAt: string } };
  }[];
};

test("M8 a refusal is in the project's audit log, once a minute however often", async () => {
  const { id } = await aProject(house.owner);
  const nobody = await anIdentity(house.owner, house.base, id, { roles: [{ role: "no-access" }] });
  const ask = () =>
    nobody.client.post("/api/v4/secrets/A", { projectId: id, environment: "dev", secretValue: "x" });
  for (let n = 0; n < 5; n += 1) assert.equal((await ask()).status, 403);
  assert.equal((await nobody.client.get(`/api/v1/projects/${id}/roles`)).status, 403);
  const seen = await refusals(id);
  assert.deepEqual(seen.map(({ event }) => [event.metadata.endpoint, event.metadata.count]).sort(), [
    ["createSecret", 5],
    ["listProjectRoles", 1],
  ]);
  assert.ok(seen.every(({ actor }) => actor.metadata.identityId === nobody.id));
  for (let n = 0; n < 3; n += 1) {
    await ask();
    house.clock.advance(40_000);
  }
  assert.deepEqual(
    (await refusals(id)).map(({ event }) => event.metadata.count).sort(),
    [1, 1, 2, 5],
    "another minute is another row",
  );
});

test("M8 another project's refusals are not in this one's trail, and an organisation's are in its own", async () => {
  const [{ id }, { id: other }] = [await aProject(house.owner), await aProject(house.owner)];
  const nobody = await anIdentity(house.owner, house.base, id, { roles: [{ role: "no-access" }] });
  assert.equal((await nobody.client.post("/api/v1/organization/roles", {})).status, 403);
  assert.equal((await nobody.client.delete(`/api/v1/projects/${other}`)).status, 403);
  assert.deepEqual(await refusals(id), []);
  assert.deepEqual(
    (await refusals(other)).map(({ event }) => event.metadata.endpoint),
    ["deleteProject"],
  );
  const whole = await house.owner.get(
    `/api/v1/organization/audit-logs?eventType=request-refused&actorId=${nobody.id}`,
  );
  assert.deepEqual(
    whole.body.auditLogs.map((row: { projectId: string | null }) => row.projectId).sort(),
    [other, null].sort(),
  );
});

test("M8 a file that brings new secrets is in the audit log as a creation", async () => {
  const { id } = await aProject(house.owner);
  const bring = (content: string) =>
    house.owner.post(`/api/v1/projects/${id}/secrets/import`, { environment: "dev", content });
  const events = async () =>
    (
      await house.owner.get(
        `/api/v1/organization/audit-logs?projectId=${id}&eventType=create-secrets,update-secrets`,
      )
    ).body.auditLogs.map((row: { eventType: string }) => row.eventType);
  assert.equal((await bring("A=1\nB=2\n")).status, 200);
  assert.deepEqual(await events(), ["create-secrets"]);
  assert.equal((await bring("A=3\nC=4\n")).status, 200);
  assert.deepEqual((await events()).sort(), ["create-secrets", "create-secrets", "update-secrets"]);
});
