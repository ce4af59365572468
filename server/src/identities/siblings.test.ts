/** Reading, listing, changing and deleting identities, and their memberships in projects. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { aProject, anIdentity, aRole, unique, until } from "../../test/builders.ts";
import { clientOf, openTestHouse, type Client, type Tenant, type TestHouse } from "../../test/harness.ts";
import { against } from "../../test/people.ts";
import { newId } from "../platform/ids.ts";

describe("the identities of a project", () => {
  let house: TestHouse;
  let tenant: Tenant;
  let project: { id: string; slug: string };
  before(async () => {
    house = await openTestHouse();
    tenant = await house.newTenant();
    project = await aProject(tenant);
  });
  after(() => house.close());

  const at = (more = "", ref = project.id) => `/api/v1/projects/${ref}/identities${more}`;
  const make = async (body: Record<string, unknown> = {}, ref = project.id) =>
    (await tenant.post(at("", ref), { name: unique("bot"), ...body })).body.identity;
  const withRole = async (permissions: readonly unknown[]) => {
    const slug = await aRole(tenant, project.id, permissions);
    return anIdentity(tenant, house.base, project.id, { roles: [{ role: slug }] });
  };

  describe("listed", () => {
    it("are counted, ordered from the oldest and paged without overlap", async () => {
      const { id } = await aProject(tenant);
      const made: string[] = [];
      for (let n = 0; n < 7; n += 1) made.push((await make({}, id)).id);
      const seen: string[] = [];
      for (let offset = 0; offset < 9; offset += 3) {
        const { status, body } = await tenant.get(at(`?limit=3&offset=${offset}`, id));
        assert.deepEqual([status, body.totalCount], [200, 7]);
        seen.push(...body.identities.map((identity: { id: string }) => identity.id));
      }
      assert.deepEqual(seen, made);
      assert.deepEqual((await tenant.get(at("?offset=7", id))).body, { identities: [], totalCount: 7 });
    });

    it("are found by a part of the name in any case, wildcards taken literally", async () => {
      const { id } = await aProject(tenant);
      for (const name of ["100% Done", "100x done", "a_b", "axb", "back\\slash", "Ünïcode"])
        await make({ name }, id);
      const find = async (term: string) => {
        const { body } = await tenant.get(at(`?search=${encodeURIComponent(term)}`, id));
        assert.equal(body.totalCount, body.identities.length);
        return body.identities.map((identity: { name: string }) => identity.name);
      };
      assert.deepEqual(await find("DONE"), ["100% Done", "100x done"]);
      assert.deepEqual(await find("0%"), ["100% Done"]);
      assert.deepEqual(await find("%"), ["100% Done"]);
      assert.deepEqual(await find("_"), ["a_b"]);
      assert.deepEqual(await find("\\"), ["back\\slash"]);
      assert.deepEqual(await find("ünï"), ["Ünïcode"]);
      assert.deepEqual(await find("'; DROP TABLE identities; --"), []);
      assert.equal((await tenant.get(at("?search=", id))).body.totalCount, 6, "an empty search is none");
    });

    it("S-30 refuse every page size that is not a whole number within bounds", async () => {
      for (const query of [
        "limit=0",
        "limit=-1",
        "limit=1e9",
        "limit=1001",
        "limit=NaN",
        "limit=1.5",
        "limit=0x10",
        "limit=1&limit=2",
        "limit[]=1",
        "offset=-1",
        "offset=1e3",
        "offset=NaN",
        "limit=%20",
      ]) {
        const { status, body } = await tenant.get(at(`?${query}`));
        if (query === "limit[]=1") assert.equal(status, 200, "an unknown key is ignored");
        else assert.deepEqual([status, body.error], [422, "ValidationFailure"], query);
      }
      assert.equal((await tenant.get(at("?limit=&offset="))).status, 200, "empty means absent");
      assert.equal((await tenant.get(at("?limit=1000"))).status, 200);
    });

    it("S-25 show and count only what the reader could read one by one", async () => {
      const [seen, hidden] = [await make(), await make()];
      const { client } = await withRole([
        { subject: "identity", action: ["read"], conditions: { identityId: { $in: [seen.id] } } },
      ]);
      assert.equal((await client.get(at(`/${hidden.id}`))).status, 403);
      const { body } = await client.get(at());
      assert.deepEqual(
        [body.identities.map((identity: { id: string }) => identity.id), body.totalCount],
        [[seen.id], 1],
      );
      assert.deepEqual((await client.get(at(`?search=${hidden.name}`))).body, {
        identities: [],
        totalCount: 0,
      });
      const memberships = (await client.get(`/api/v1/projects/${project.id}/memberships/identities`)).body;
      assert.deepEqual(
        [
          memberships.identityMemberships.map((m: { identityId: string }) => m.identityId),
          memberships.totalCount,
        ],
        [[seen.id], 1],
      );
    });

    it("S-25 leave out what an inverted rule denies", async () => {
      const hidden = await make();
      const { client } = await withRole([
        { subject: "identity", action: ["read"] },
        {
          subject: "identity",
          action: ["read"],
          inverted: true,
          conditions: { identityId: { $eq: hidden.id } },
        },
      ]);
      const all = (await tenant.get(at("?limit=1000"))).body;
      const { body } = await client.get(at("?limit=1000"));
      assert.equal(body.totalCount, all.totalCount - 1);
      assert.ok(!body.identities.some((identity: { id: string }) => identity.id === hidden.id));
    });

    it("need read on identity", async () => {
      const { client } = await withRole([{ subject: "secrets", action: "read" }]);
      assert.equal((await client.get(at())).body.error, "PermissionDenied");
    });
  });

  describe("changed", () => {
    it("take each field that is present and leave the others", async () => {
      const made = await make({ metadata: [{ key: "a", value: "1" }] });
      house.clock.advance(5000);
      const renamed = (await tenant.patch(at(`/${made.id}`), { name: "  other " })).body.identity;
      assert.deepEqual({ ...renamed, updatedAt: made.updatedAt }, { ...made, name: "other" });
      assert.ok(Date.parse(renamed.updatedAt) > Date.parse(made.updatedAt));
      const shielded = (await tenant.patch(at(`/${made.id}`), { hasDeleteProtection: true })).body.identity;
      assert.deepEqual(
        [shielded.hasDeleteProtection, shielded.name, shielded.metadata],
        [true, "other", made.metadata],
      );
      const bare = (await tenant.patch(at(`/${made.id}`), { hasDeleteProtection: false, metadata: [] })).body
        .identity;
      assert.deepEqual([bare.hasDeleteProtection, bare.metadata, bare.name], [false, [], "other"]);
      const nothing = await tenant.patch(at(`/${made.id}`), {});
      assert.equal(nothing.status, 200);
      assert.deepEqual((await tenant.get(at(`/${made.id}`))).body, nothing.body);
    });

    it("replace their metadata as a whole", async () => {
      const made = await make({
        metadata: [
          { key: "a", value: "1" },
          { key: "b", value: "2" },
        ],
      });
      const { body } = await tenant.patch(at(`/${made.id}`), { metadata: [{ key: "c", value: "3" }] });
      assert.deepEqual(
        body.identity.metadata.map((item: { key: string }) => item.key),
        ["c"],
      );
    });

    it("refuse null and sizes beyond the bounds with 422", async () => {
      const made = await make();
      for (const body of [
        { name: null },
        { name: "" },
        { name: "x".repeat(256) },
        { metadata: null },
        { hasDeleteProtection: null },
        { metadata: [{ key: "" }] },
      ]) {
        assert.equal((await tenant.patch(at(`/${made.id}`), body)).status, 422, JSON.stringify(body));
      }
    });

    it("need edit on that identity", async () => {
      const [own, other] = [await make(), await make()];
      const { client } = await withRole([
        { subject: "identity", action: ["edit"], conditions: { identityId: { $eq: own.id } } },
      ]);
      assert.equal((await client.patch(at(`/${own.id}`), { name: "x" })).status, 200);
      assert.equal((await client.patch(at(`/${other.id}`), { name: "x" })).body.error, "PermissionDenied");
    });

    it("S-31 never change owner, instance rights or id by mass assignment", async () => {
      const made = await make();
      const { body } = await tenant.patch(at(`/${made.id}`), {
        name: "x",
        id: newId(),
        orgId: newId(),
        projectId: newId(),
        isInstanceAdmin: true,
        authMethods: ["x"],
        roles: [{ role: "admin" }],
      });
      assert.deepEqual(
        [body.identity.id, body.identity.orgId, body.identity.projectId, body.identity.authMethods],
        [made.id, tenant.orgId, project.id, []],
      );
    });
  });

  describe("deleted", () => {
    it("are gone, and answered as they were", async () => {
      const made = await make();
      const { status, body } = await tenant.delete(at(`/${made.id}`));
      assert.deepEqual([status, body], [200, { identity: made }]);
      for (const answer of [
        await tenant.get(at(`/${made.id}`)),
        await tenant.patch(at(`/${made.id}`), {}),
        await tenant.delete(at(`/${made.id}`)),
      ]) {
        assert.deepEqual([answer.status, answer.body.error], [404, "NotFound"]);
      }
    });

    it("are refused with 400 while protected", async () => {
      const made = await make({ hasDeleteProtection: true });
      const refused = await tenant.delete(at(`/${made.id}`));
      assert.deepEqual([refused.status, refused.body.error], [400, "BadRequest"]);
      assert.equal((await tenant.get(at(`/${made.id}`))).status, 200);
      await tenant.patch(at(`/${made.id}`), { hasDeleteProtection: false });
      assert.equal((await tenant.delete(at(`/${made.id}`))).status, 200);
    });

    it("need delete on that identity", async () => {
      const made = await make();
      const { client } = await withRole([{ subject: "identity", action: ["read", "edit"] }]);
      assert.equal((await client.delete(at(`/${made.id}`))).body.error, "PermissionDenied");
    });

    it("S-06 S-34 S-58 lose their tokens at once, on the other node too", async () => {
      const second = await house.openNode();
      const bot = await anIdentity(tenant, house.base, project.id, { roles: [{ role: "viewer" }] });
      const nodes = [bot.client, clientOf(second.base, bot.token)] as const;
      for (const node of nodes) assert.equal((await node.get(at())).status, 200);
      await tenant.delete(at(`/${bot.id}`));
      assert.equal(
        (await nodes[0].get(at())).status,
        401,
        "the node that deleted it refuses the very next request",
      );
      await until(async () => (await nodes[1].get(at())).status === 401, 1000);
      assert.equal((await house.anonymous.post("/api/v1/auth/universal-auth/login", bot)).status, 401);
      assert.equal(
        (await house.anonymous.post("/api/v1/auth/token/renew", { accessToken: bot.token })).status,
        401,
      );
    });

    it("S-58 go with their project, and so do their tokens, on every node", async () => {
      const second = await house.openNode();
      const doomed = await aProject(tenant);
      const bot = await anIdentity(tenant, house.base, doomed.id, { roles: [{ role: "admin" }] });
      const nodes = [bot.client, clientOf(second.base, bot.token)] as const;
      const details = "/api/v1/identities/details";
      for (const node of nodes) assert.equal((await node.get(details)).status, 200);
      assert.equal((await tenant.delete(`/api/v1/projects/${doomed.id}`)).status, 200);
      assert.equal((await nodes[0].get(details)).status, 401);
      await until(async () => (await nodes[1].get(details)).status === 401, 1000);
    });
  });

  it("are found only in their own project", async () => {
    const made = await make();
    const other = await aProject(tenant);
    for (const answer of [
      await tenant.get(at(`/${made.id}`, other.id)),
      await tenant.patch(at(`/${made.id}`, other.id), { name: "x" }),
      await tenant.delete(at(`/${made.id}`, other.id)),
      await tenant.get(`/api/v1/identities/${made.id}`),
      await tenant.delete(`/api/v1/identities/${made.id}`),
    ]) {
      assert.equal(answer.status, 404);
    }
    assert.equal((await tenant.get(at("/not-a-uuid"))).status, 422);
  });

  describe("as members", () => {
    const membership = (identityId: string, ref = project.id) =>
      `/api/v2/workspace/${ref}/identity-memberships/${identityId}`;
    const orgIdentity = async (client: Client = tenant) =>
      (await client.post("/api/v1/identities", { name: unique("org-bot") })).body.identity;

    it("are taken in with one role or several, read, changed and let go", async () => {
      const identity = await orgIdentity();
      const added = await tenant.post(membership(identity.id), { role: "viewer" });
      assert.equal(added.status, 200);
      const held = added.body.identityMembership;
      assert.deepEqual(
        [held.identityId, held.project.id, held.identity.id, held.roles.length, held.roles[0].role],
        [identity.id, project.id, identity.id, 1, "viewer"],
      );
      assert.equal((await tenant.post(membership(identity.id), { role: "viewer" })).body.error, "Conflict");
      assert.deepEqual((await tenant.get(membership(identity.id))).body.identityMembership, held);
      assert.deepEqual(
        (await tenant.get(`/api/v2/workspace/identity-memberships/${held.id}`)).body.identityMembership,
        held,
      );
      const changed = (
        await tenant.patch(membership(identity.id), {
          roles: [{ role: "member" }, { role: "viewer", isTemporary: true, temporaryRange: "1h" }],
        })
      ).body;
      assert.deepEqual(changed.roles.map((role: { role: string }) => role.role).sort(), ["member", "viewer"]);
      assert.equal((await tenant.patch(membership(identity.id), { roles: [] })).status, 422);
      assert.equal((await tenant.delete(membership(identity.id))).status, 200);
      assert.equal((await tenant.get(membership(identity.id))).status, 404);
    });

    it("S-34 lose their rights at once when let go or given less, on the other node too", async () => {
      const second = await house.openNode();
      const identity = await orgIdentity();
      await tenant.post(membership(identity.id), { role: "viewer" });
      await tenant.post(`/api/v1/auth/token-auth/identities/${identity.id}`, {});
      const { accessToken } = (
        await tenant.post(`/api/v1/auth/token-auth/identities/${identity.id}/tokens`, {})
      ).body;
      const nodes = [house.as(accessToken), clientOf(second.base, accessToken)] as const;
      for (const node of nodes) assert.equal((await node.get(at())).status, 200);
      await tenant.patch(membership(identity.id), { roles: [{ role: "no-access" }] });
      assert.equal((await nodes[0].get(at())).status, 403);
      await until(async () => (await nodes[1].get(at())).status === 403, 1000);
      await tenant.patch(membership(identity.id), { roles: [{ role: "viewer" }] });
      await until(async () => (await nodes[1].get(at())).status === 200, 1000);
      await tenant.delete(membership(identity.id));
      assert.equal((await nodes[0].get(`/api/v1/projects/${project.id}`)).status, 403);
      await until(async () => (await nodes[1].get(`/api/v1/projects/${project.id}`)).status === 403, 1000);
    });

    it("cannot be taken out of the project they belong to, nor into another", async () => {
      const made = await make();
      assert.equal((await tenant.delete(membership(made.id))).status, 400);
      const other = await aProject(tenant);
      assert.equal((await tenant.post(membership(made.id, other.id), { role: "viewer" })).status, 404);
    });

    it("are given at most what the giver holds", async () => {
      const identity = await orgIdentity();
      const { client } = await withRole([
        { subject: "identity", action: ["read", "create", "edit", "assign-role"] },
      ]);
      assert.equal(
        (await client.post(membership(identity.id), { role: "admin" })).body.error,
        "PermissionBoundaryError",
      );
      assert.equal((await client.post(membership(identity.id), { role: "no-access" })).status, 200);
      assert.equal(
        (await client.patch(membership(identity.id), { roles: [{ role: "viewer" }] })).body.error,
        "PermissionBoundaryError",
      );
      assert.equal(
        (await client.patch(membership(identity.id), { roles: [{ role: "no-such" }] })).status,
        404,
      );
    });
  });

  it("end with the roles of one of two changes at once, not with those of both", async () => {
    const bot = await anIdentity(tenant, house.base, project.id, { roles: [{ role: "viewer" }] });
    const path = `/api/v1/projects/${project.id}/memberships/identities/${bot.id}`;
    const { id } = (await tenant.get(path)).body.identityMembership;
    const answer = await against(
      house,
      [
        ["UPDATE memberships SET updated_at = now() WHERE id = $1", [id]],
        ["DELETE FROM membership_roles WHERE membership_id = $1", [id]],
        [
          "INSERT INTO membership_roles (id, membership_id, role) VALUES (gen_random_uuid(), $1, 'admin')",
          [id],
        ],
      ],
      () => tenant.patch(path, { roles: [{ role: "no-access" }] }),
    );
    assert.equal(answer.status, 200);
    const { roles } = (await tenant.get(path)).body.identityMembership;
    assert.deepEqual(
      roles.map((held: { role: string }) => held.role),
      ["no-access"],
    );
  });

  it("answer 404, not a bug, when a role is deleted at the moment it is given", async () => {
    const identity = (await tenant.post("/api/v1/identities", { name: unique("org-bot") })).body.identity;
    const membership = `/api/v1/projects/${project.id}/memberships/identities/${identity.id}`;
    await tenant.post(membership, { role: "no-access" });
    for (let round = 0; round < 6; round += 1) {
      const slug = await aRole(tenant, project.id, []);
      const { role } = (await tenant.get(`/api/v1/projects/${project.id}/roles/slug/${slug}`)).body;
      const answers = await Promise.all([
        tenant.patch(membership, { roles: [{ role: slug }] }),
        tenant.post(at(), { name: "x", roles: [{ role: slug }] }),
        tenant.delete(`/api/v1/projects/${project.id}/roles/${role.id}`),
        tenant.patch(membership, { roles: [{ role: slug }] }),
        tenant.post(at(), { name: "x", roles: [{ role: slug }] }),
      ]);
      for (const { status } of answers) assert.ok([200, 404].includes(status), `answered ${status}`);
    }
    assert.ok(
      (await tenant.get(membership)).body.identityMembership.roles.length > 0,
      "and no membership is left without a role",
    );
  });

  describe("of the organisation", () => {
    it("are created, read, listed, changed and deleted", async () => {
      const created = await tenant.post("/api/v1/identities", {
        name: "  ci ",
        organizationId: tenant.orgId,
        role: "member",
        metadata: [{ key: "k", value: "v" }],
      });
      assert.equal(created.status, 200);
      const { identity } = created.body;
      assert.deepEqual(
        [identity.name, identity.orgId, identity.projectId, identity.authMethods, identity.metadata[0].key],
        ["ci", tenant.orgId, null, [], "k"],
      );
      const got = (await tenant.get(`/api/v1/identities/${identity.id}`)).body.identity;
      assert.deepEqual(
        [got.identity.id, got.role, got.orgId, got.metadata],
        [identity.id, "member", tenant.orgId, identity.metadata],
      );
      const listed = (await tenant.get(`/api/v1/identities?orgId=${tenant.orgId}&search=CI`)).body;
      assert.ok(listed.identities.some((row: { identityId: string }) => row.identityId === identity.id));
      const changed = await tenant.patch(`/api/v1/identities/${identity.id}`, {
        role: "no-access",
        name: "ci-2",
        hasDeleteProtection: true,
      });
      assert.deepEqual([changed.status, changed.body.identity.name], [200, "ci-2"]);
      assert.equal((await tenant.get(`/api/v1/identities/${identity.id}`)).body.identity.role, "no-access");
      assert.equal((await tenant.delete(`/api/v1/identities/${identity.id}`)).status, 400);
      await tenant.patch(`/api/v1/identities/${identity.id}`, { hasDeleteProtection: false });
      assert.equal((await tenant.delete(`/api/v1/identities/${identity.id}`)).status, 200);
      assert.equal((await tenant.get(`/api/v1/identities/${identity.id}`)).status, 404);
    });

    it("take the organisation's roles only, exactly by slug", async () => {
      for (const role of ["viewer", "Admin", "ADMIN", "admin ", "nothing"]) {
        assert.equal((await tenant.post("/api/v1/identities", { name: "x", role })).status, 404, role);
      }
    });

    it("S-25 are listed only to those who could read them one by one", async () => {
      const [seen, hidden] = [
        (await tenant.post("/api/v1/identities", { name: "seen" })).body.identity,
        (await tenant.post("/api/v1/identities", { name: "hidden" })).body.identity,
      ];
      const slug = unique("role");
      await tenant.post("/api/v1/organization/roles", {
        slug,
        name: "r",
        permissions: [{ subject: "identity", action: "read", conditions: { identityId: seen.id } }],
      });
      const reader = (await tenant.post("/api/v1/identities", { name: "reader", role: slug })).body.identity;
      await tenant.post(`/api/v1/auth/token-auth/identities/${reader.id}`, {});
      const client = house.as(
        (await tenant.post(`/api/v1/auth/token-auth/identities/${reader.id}/tokens`, {})).body.accessToken,
      );
      const { body } = await client.get("/api/v1/identities");
      assert.deepEqual(
        [body.identities.map((row: { identityId: string }) => row.identityId), body.totalCount],
        [[seen.id], 1],
      );
      assert.equal((await client.get(`/api/v1/identities/${hidden.id}`)).status, 403);
    });
  });
});
