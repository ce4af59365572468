import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { aProject, aRole, unique } from "../../test/builders.ts";
import { openTestHouse, type TestHouse } from "../../test/harness.ts";

const rulesOf = (count: number, patternLength = 0) =>
  Array.from({ length: count }, (_, n) => ({
    subject: "secrets",
    action: ["describeSecret"],
    inverted: true,
    conditions: { secretName: patternLength > 0 ? { $glob: `*${"A".repeat(patternLength - 1)}` } : `N${n}` },
  }));

describe("H3 what one holder's roles may hold together", () => {
  let house: TestHouse;
  let project: { id: string };
  before(async () => {
    house = await openTestHouse();
    project = await aProject(house.owner);
  });
  after(() => house.close());
  const path = (more: string) => `/api/v1/projects/${project.id}${more}`;
  const identityWith = (roles: readonly string[]) =>
    house.owner.post(path("/identities"), { name: unique("bot"), roles: roles.map((role) => ({ role })) });

  it("is bounded where they are given, in rules", async () => {
    const [one, two, three] = [
      await aRole(house.owner, project.id, rulesOf(500)),
      await aRole(house.owner, project.id, rulesOf(500)),
      await aRole(house.owner, project.id, rulesOf(1)),
    ];
    assert.equal((await identityWith([one, two])).status, 200);
    const { status, body } = await identityWith([one, two, three]);
    assert.equal(status, 400);
    assert.match(body.message, /at most 1000 rules/);
  });

  it("is bounded in characters of wildcard patterns, the same role given twice counting twice", async () => {
    const heavy = await aRole(house.owner, project.id, rulesOf(8, 300));
    assert.equal((await identityWith([heavy])).status, 200);
    const { status, body } = await identityWith([heavy, heavy]);
    assert.equal(status, 400);
    assert.match(body.message, /characters of wildcard patterns/);
  });

  it("cannot be passed by writing more into a role that is held already", async () => {
    const [full, small] = [
      await aRole(house.owner, project.id, rulesOf(500)),
      await aRole(house.owner, project.id, rulesOf(400)),
    ];
    const other = await aRole(house.owner, project.id, rulesOf(100));
    const made = await identityWith([full, small, other]);
    assert.equal(made.status, 200);
    const { body } = await house.owner.get(path(`/roles/slug/${small}`));
    const change = (count: number) =>
      house.owner.patch(path(`/roles/${body.role.id}`), { permissions: rulesOf(count) });
    const more = await change(401);
    assert.equal(more.status, 400);
    assert.match(more.body.message, /would hold too much/);
    assert.equal((await change(399)).status, 200);
    assert.equal((await change(400)).status, 200);
  });

  it("leaves one role its 4096 characters of patterns", async () => {
    const send = (count: number) =>
      house.owner.post(path("/roles"), { slug: unique("role"), name: "x", permissions: rulesOf(count, 256) });
    assert.equal((await send(16)).status, 200);
    const { status, body } = await send(17);
    assert.equal(status, 422);
    assert.match(JSON.stringify(body.message), /4096 characters of wildcard patterns/);
  });
});
