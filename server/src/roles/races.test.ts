import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { anIdentity, aProject, aRole, credentials } from "../../test/builders.ts";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";
import { against } from "../../test/people.ts";

describe("two changes at once", () => {
  let house: TestHouse;
  before(async () => {
    house = await openTestHouse();
  });
  after(() => house.close());

  it("of a role: a rename never brings back rules that were taken away", async () => {
    const project = await aProject(house.owner);
    const path = `/api/v1/projects/${project.id}/roles`;
    const wide = [{ subject: "secrets", action: "readValue" }];
    const { body } = await house.owner.post(path, { slug: "wide", name: "Wide", permissions: wide });
    const one = `${path}/${body.role.id}`;
    for (let round = 0; round < 15; round += 1) {
      await house.owner.patch(one, { permissions: wide });
      const answers = await Promise.all([
        house.owner.patch(one, { name: `Name ${round}` }),
        house.owner.patch(one, { permissions: [] }),
        house.owner.patch(one, { description: `Text ${round}` }),
      ]);
      assert.deepEqual(
        answers.map(({ status }) => status),
        [200, 200, 200],
      );
      const { role } = (await house.owner.get(`${path}/slug/wide`)).body;
      assert.deepEqual(
        [role.permissions, role.name, role.description],
        [[], `Name ${round}`, `Text ${round}`],
      );
    }
  });

  it("of a role: one who may not delete what it has come to say does not delete it", async () => {
    const project = await aProject(house.owner);
    const path = `/api/v1/projects/${project.id}`;
    const clerkRole = await aRole(house.owner, project.id, [{ subject: "role", action: ["read", "delete"] }]);
    const clerk = await anIdentity(house.owner, house.base, project.id, { roles: [{ role: clerkRole }] });
    const made = await house.owner.post(`${path}/roles`, { slug: "growing", name: "Grows", permissions: [] });
    const { id } = made.body.role;
    const more = JSON.stringify([{ subject: "secrets", action: "readValue" }]);
    const answer = await against(house, [["UPDATE roles SET rules = $2 WHERE id = $1", [id, more]]], () =>
      clerk.client.delete(`${path}/roles/${id}`),
    );
    assert.deepEqual([answer.status, answer.body.error], [403, "PermissionBoundaryError"]);
  });

  it("a role goes while one of its holders leaves", async () => {
    const project = await aProject(house.owner);
    const path = `/api/v1/projects/${project.id}`;
    const made = await house.owner.post(`${path}/roles`, { slug: "held", name: "Held", permissions: [] });
    const identity = await house.owner.post(`${path}/identities`, { name: "x", roles: [{ role: "held" }] });
    const answer = await against(
      house,
      [["DELETE FROM memberships WHERE identity_id = $1", [identity.body.identity.id]]],
      () => house.owner.delete(`${path}/roles/${made.body.role.id}`),
    );
    assert.equal(answer.status, 200);
  });

  it("of how an identity logs in: neither undoes the other", async () => {
    const { body } = await house.owner.post("/api/v1/identities", { name: "raced" });
    await credentials(house.owner, body.identity.id);
    const path = `/api/v1/auth/universal-auth/identities/${body.identity.id}`;
    for (let round = 1; round <= 15; round += 1) {
      await Promise.all([
        house.owner.patch(path, { accessTokenTTL: round }),
        house.owner.patch(path, { accessTokenTrustedIps: [{ ipAddress: `10.0.0.${round}` }] }),
      ]);
      const { identityUniversalAuth: now } = (await house.owner.get(path)).body;
      assert.deepEqual(
        [now.accessTokenTTL, now.accessTokenTrustedIps[0].ipAddress],
        [round, `10.0.0.${round}`],
      );
    }
  });

  it("S-56 of hundreds of passwords: some are checked, the rest are told to come back, and others are served", async () => {
    const tries = Array.from({ length: 120 }, (_, n) =>
      house.anonymous.post("/api/v3/auth/login", {
        email: `nobody${n}@example.com`,
        password: "wrong wrong",
      }),
    );
    assert.equal((await house.owner.get("/api/v1/organization")).status, 200);
    const statuses = new Set((await Promise.all(tries)).map(({ status }) => status));
    assert.deepEqual(
      [...statuses].filter((status) => status !== 401 && status !== 429),
      [],
    );
  });
});
