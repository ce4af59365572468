import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";
import { aProject, anIdentity, aRole } from "../../test/builders.ts";

describe("S-21 who holds a role for an hour", () => {
  let house: TestHouse;
  before(async () => {
    house = await openTestHouse();
  });
  after(() => house.close());

  const anHourlyAdmin = async () => {
    const project = await aProject(house.owner);
    const identity = await anIdentity(house.owner, house.base, project.id, {
      roles: [{ role: "admin", isTemporary: true, temporaryRange: "1h" }],
    });
    return { project, identity, path: `/api/v1/projects/${project.id}` };
  };

  it("cannot make it permanent, for itself or for another", async () => {
    const { identity, path } = await anHourlyAdmin();
    const self = await identity.client.patch(`${path}/memberships/identities/${identity.id}`, {
      roles: [{ role: "admin" }],
    });
    assert.deepEqual([self.status, self.body.error], [403, "PermissionBoundaryError"]);
    const other = await identity.client.post(`${path}/identities`, {
      name: "heir",
      roles: [{ role: "viewer" }],
    });
    assert.deepEqual([other.status, other.body.error], [403, "PermissionBoundaryError"]);
  });

  it("can pass it on for as long as it lasts, and not a minute longer", async () => {
    const { identity, path } = await anHourlyAdmin();
    const within = { role: "viewer", isTemporary: true, temporaryRange: "30m" };
    assert.equal(
      (await identity.client.post(`${path}/identities`, { name: "guest", roles: [within] })).status,
      200,
    );
    const beyond = { ...within, temporaryRange: "61m" };
    assert.equal(
      (await identity.client.post(`${path}/identities`, { name: "guest", roles: [beyond] })).status,
      403,
    );
  });

  it("cannot write a role, nor make credentials for someone whose rights last longer", async () => {
    const { project, identity, path } = await anHourlyAdmin();
    const role = { slug: "mine", name: "Mine", permissions: [{ subject: "secrets", action: "readValue" }] };
    assert.equal((await identity.client.post(`${path}/roles`, role)).status, 403);
    const lasting = await anIdentity(house.owner, house.base, project.id, { roles: [{ role: "admin" }] });
    const secret = await identity.client.post(
      `/api/v1/auth/universal-auth/identities/${lasting.id}/client-secrets`,
      {},
    );
    assert.deepEqual([secret.status, secret.body.error], [403, "PermissionBoundaryError"]);
  });

  it("that will deny something cannot hand that on now for longer than until then", async () => {
    const project = await aProject(house.owner);
    const path = `/api/v1/projects/${project.id}`;
    const denial = await aRole(house.owner, project.id, [
      { subject: "secrets", action: "readValue", inverted: true },
    ]);
    const tomorrow = new Date(house.clock.millis() + 86_400_000).toISOString();
    const identity = await anIdentity(house.owner, house.base, project.id, {
      roles: [
        { role: "admin" },
        { role: denial, isTemporary: true, temporaryRange: "1h", temporaryAccessStartTime: tomorrow },
      ],
    });
    const give = async (role: Record<string, unknown>) =>
      (await identity.client.post(`${path}/identities`, { name: "heir", roles: [role] })).status;
    assert.equal(await give({ role: "viewer" }), 403);
    assert.equal(await give({ role: "viewer", isTemporary: true, temporaryRange: "25h" }), 403);
    assert.equal(await give({ role: "viewer", isTemporary: true, temporaryRange: "23h" }), 200);
    const harmless = await aRole(house.owner, project.id, [{ subject: "tags", action: "read" }]);
    assert.equal(await give({ role: harmless }), 200);
  });

  it("works as an admin until the hour is over", async () => {
    const { identity, path } = await anHourlyAdmin();
    assert.equal((await identity.client.post(`${path}/identities`, { name: "plain" })).status, 200);
    house.clock.advance(3_600_000);
    assert.equal((await identity.client.post(`${path}/identities`, { name: "plain" })).status, 403);
  });
});
