/** Custom roles through the door: what they may say, whom they bind and how fast. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { aProject, anIdentity, aRole, unique, until } from "../../test/builders.ts";
import { clientOf, openTestHouse, type Answer, type Tenant, type TestHouse } from "../../test/harness.ts";
import { newId } from "../platform/ids.ts";

describe("custom roles", () => {
  let house: TestHouse;
  let tenant: Tenant;
  let project: { id: string; slug: string };
  before(async () => {
    house = await openTestHouse();
    tenant = await house.newTenant();
    project = await aProject(tenant);
  });
  after(() => house.close());

  const at = (more = "", ref = project.id) => `/api/v1/projects/${ref}/roles${more}`;
  const create = (body: Record<string, unknown>, more = {}): Promise<Answer> =>
    tenant.post(at(), { slug: unique("role"), name: "A role", permissions: [], ...body, ...more });

  it("are created, read, listed after the built-in ones, changed and deleted", async () => {
    const permissions = [
      {
        subject: "secrets",
        action: ["readValue"],
        conditions: { environment: { $eq: "dev" }, secretPath: { $glob: "/app/**" } },
      },
      { subject: "secrets", action: "delete", inverted: true },
    ];
    const made = await create({ description: "Reads", permissions });
    assert.equal(made.status, 200);
    const { role } = made.body;
    assert.deepEqual(
      [role.description, role.permissions, role.projectId, role.orgId],
      ["Reads", permissions, project.id, tenant.orgId],
    );
    assert.deepEqual((await tenant.get(at(`/slug/${role.slug}`, project.slug))).body, { role });
    const slugs = (await tenant.get(at())).body.roles.map((one: { slug: string }) => one.slug);
    assert.deepEqual(slugs.slice(0, 4), ["admin", "member", "viewer", "no-access"]);
    assert.ok(slugs.includes(role.slug));
    const changed = (await tenant.patch(at(`/${role.id}`), { name: "Other", description: null })).body.role;
    assert.deepEqual([changed.name, changed.description, changed.permissions], ["Other", null, permissions]);
    assert.deepEqual((await tenant.patch(at(`/${role.id}`), { permissions: [] })).body.role.permissions, []);
    assert.equal((await tenant.delete(at(`/${role.id}`))).status, 200);
    for (const answer of [
      await tenant.get(at(`/slug/${role.slug}`)),
      await tenant.patch(at(`/${role.id}`), {}),
      await tenant.delete(at(`/${role.id}`)),
    ]) {
      assert.equal(answer.status, 404);
    }
  });

  it("have slugs of their own: 409 for a taken one, 400 for a built-in one, 422 for anything that looks like one", async () => {
    const slug = unique("role");
    await create({ slug });
    assert.equal((await create({ slug })).body.error, "Conflict");
    const other = (await create({})).body.role;
    assert.equal((await tenant.patch(at(`/${other.id}`), { slug })).body.error, "Conflict");
    for (const taken of ["admin", "member", "viewer", "no-access", "custom"]) {
      assert.equal((await create({ slug: taken })).status, 400, taken);
      assert.equal((await tenant.patch(at(`/${other.id}`), { slug: taken })).status, 400, taken);
    }
    for (const odd of [
      "Admin",
      " admin",
      "admin\u200b",
      "ａdmin",
      "",
      "a".repeat(65),
      "a b",
      "-a",
      "a--b",
      "../a",
    ]) {
      assert.equal((await create({ slug: odd })).status, 422, JSON.stringify(odd));
    }
  });

  it("answer 422 with the place of everything that is wrong with their rules", async () => {
    const permissions = [
      { subject: "nothing", action: "read" },
      { subject: "secrets", action: ["read", "fly"] },
      { subject: "secrets", action: "read", conditions: { colour: "red" } },
      { subject: "secrets", action: "read", conditions: { environment: { $where: "1" } } },
      { subject: "secrets", action: "read", conditions: { secretPath: { $eq: "/a/../b" } } },
      { subject: "secrets", action: "read", conditions: { environment: { $in: [] } } },
      { subject: "secrets", action: "read", inverted: "yes" },
      "all",
      { subject: "all", action: "manage" },
      { subject: "constructor", action: "__proto__" },
      { subject: "identity", action: "read", conditions: { identityId: "{{identity.metadata.team}}" } },
    ];
    for (const answer of [
      await create({ permissions }),
      await tenant.patch(at(`/${(await create({})).body.role.id}`), { permissions }),
    ]) {
      assert.deepEqual([answer.status, answer.body.error], [422, "ValidationFailure"]);
      const rules = new Set(answer.body.message.map((issue: { path: (string | number)[] }) => issue.path[1]));
      assert.deepEqual(
        [...rules].sort((a, b) => Number(a) - Number(b)),
        permissions.map((_, index) => index),
      );
      for (const issue of answer.body.message) assert.equal(issue.path[0], "permissions");
    }
  });

  it("say what is wrong with their rules before anything is looked up", async () => {
    const permissions = [{ subject: "nothing", action: "read" }];
    assert.equal((await tenant.post(at("", newId()), { slug: "x", name: "x", permissions })).status, 422);
    assert.equal((await tenant.patch(at(`/${newId()}`), { permissions })).status, 422);
  });

  it("are refused to a caller without any right to roles, before one is looked up", async () => {
    const slug = await aRole(tenant, project.id, [{ subject: "secrets", action: "read" }]);
    const { client } = await anIdentity(tenant, house.base, project.id, { roles: [{ role: slug }] });
    assert.equal((await client.patch(at(`/${newId()}`), { name: "x" })).status, 403);
    assert.equal((await client.delete(at(`/${newId()}`))).status, 403);
    assert.equal((await tenant.patch(at(`/${newId()}`), { name: "x" })).status, 404);
    assert.equal((await client.post(at(), { slug: "x", name: "x", permissions: [] })).status, 403);
    assert.equal((await client.get(at())).body.error, "PermissionDenied");
  });

  it("S-26 take what an identity carries for what it is: nothing in it widens a rule", async () => {
    const { id } = (
      await tenant.post(`/api/v1/projects/${project.id}/identities`, {
        name: "x",
        metadata: [{ key: "team", value: "*" }],
      })
    ).body.identity;
    const slug = await aRole(tenant, project.id, [
      { subject: "identity", action: "read", conditions: { identityId: { $eq: "*" } } },
    ]);
    const { client } = await anIdentity(tenant, house.base, project.id, {
      roles: [{ role: slug }],
      metadata: [{ key: "team", value: "*,+/**" }],
    });
    assert.equal((await client.get(`/api/v1/projects/${project.id}/identities/${id}`)).status, 403);
  });

  it("deny with inverted rules, whichever role allows", async () => {
    const { id } = (await tenant.post(`/api/v1/projects/${project.id}/identities`, { name: "x" })).body
      .identity;
    const denies = await aRole(tenant, project.id, [
      { subject: "identity", action: "read", inverted: true, conditions: { identityId: { $eq: id } } },
    ]);
    const { client } = await anIdentity(tenant, house.base, project.id, {
      roles: [{ role: denies }, { role: "viewer" }],
    });
    const refused = await client.get(`/api/v1/projects/${project.id}/identities/${id}`);
    assert.equal(refused.status, 403);
    assert.equal(refused.body.details[0].inverted, true);
  });

  it("S-34 take effect for their holders at once when changed or deleted, on every node", async () => {
    const second = await house.openNode();
    const { role } = (await create({ permissions: [{ subject: "role", action: "read" }] })).body;
    const bot = await anIdentity(tenant, house.base, project.id, { roles: [{ role: role.slug }] });
    const nodes = [bot.client, clientOf(second.base, bot.token)] as const;
    const expect = async (status: number) => {
      assert.equal((await nodes[0].get(at())).status, status);
      await until(async () => (await nodes[1].get(at())).status === status, 1000);
    };
    await expect(200);
    await tenant.patch(at(`/${role.id}`), { permissions: [] });
    await expect(403);
    await tenant.patch(at(`/${role.id}`), { permissions: [{ subject: "role", action: "read" }] });
    await expect(200);
    await tenant.delete(at(`/${role.id}`));
    await expect(403);
    const left = (await tenant.get(`/api/v1/projects/${project.id}/memberships/identities/${bot.id}`)).body
      .identityMembership;
    assert.deepEqual(
      left.roles.map((held: { role: string }) => held.role),
      ["no-access"],
    );
  });

  describe("of the organisation", () => {
    const ORG = "/api/v1/organization/roles";

    it("speak of the organisation's subjects only", async () => {
      const slug = unique("role");
      const made = await tenant.post(ORG, {
        slug,
        name: "Auditor",
        permissions: [{ subject: "audit-logs", action: "read" }],
      });
      assert.deepEqual([made.status, made.body.role.projectId], [200, undefined]);
      assert.equal(
        (
          await tenant.post(ORG, {
            slug: unique("role"),
            name: "x",
            permissions: [{ subject: "secrets", action: "read" }],
          })
        ).status,
        422,
      );
      assert.deepEqual(
        (await tenant.get(ORG)).body.roles.map((one: { slug: string }) => one.slug).slice(0, 3),
        ["admin", "member", "no-access"],
      );
      assert.equal((await tenant.get(`${ORG}/slug/${slug}`)).body.role.id, made.body.role.id);
      assert.equal((await tenant.get(at(`/slug/${slug}`))).status, 404, "it is no role of a project");
      assert.equal((await tenant.patch(at(`/${made.body.role.id}`), { name: "x" })).status, 404);
      assert.equal((await tenant.delete(`${ORG}/${made.body.role.id}`)).status, 200);
    });
  });
});
