/** Organisations through the door. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { aProject, anIdentity } from "../../test/builders.ts";
import { openTestHouse, OWNER, type TestHouse } from "../../test/harness.ts";

describe("an organisation", () => {
  let house: TestHouse;
  before(async () => {
    house = await openTestHouse();
  });
  after(() => house.close());

  it("is what a machine identity sees of all organisations: its own", async () => {
    const tenant = await house.newTenant("Solo");
    const { organizations } = (await tenant.get("/api/v1/organization")).body;
    assert.deepEqual(
      organizations.map((one: { id: string; name: string }) => [one.id, one.name]),
      [[tenant.orgId, "Solo"]],
    );
    const [accessible] = (await tenant.get("/api/v1/organization/accessible-with-sub-orgs")).body
      .organizations;
    assert.deepEqual([accessible.id, accessible.subOrganizations], [tenant.orgId, []]);
    const { organization } = (await tenant.get("/api/v1/identities/details")).body.identityDetails;
    assert.deepEqual(Object.keys(organization).sort(), ["id", "name", "slug"]);
  });

  it("is one of several for a person who belongs to several", async () => {
    const tenant = await house.newTenant();
    const { accessToken } = (await house.anonymous.post("/api/v3/auth/login", OWNER)).body;
    const ids = (await house.as(accessToken).get("/api/v1/organization")).body.organizations.map(
      (one: { id: string }) => one.id,
    );
    assert.ok(ids.includes(tenant.orgId) && ids.includes(house.owner.orgId));
    assert.equal(
      (await house.as(accessToken).get("/api/v1/identities/details")).status,
      400,
      "none is selected yet",
    );
  });

  it("is renamed by its admins", async () => {
    const tenant = await house.newTenant();
    const { status, body } = await tenant.patch("/api/v1/organization", { name: " New name " });
    assert.deepEqual([status, body.organization.name, body.organization.id], [200, "New name", tenant.orgId]);
    const { slug } = body.organization;
    assert.equal((await tenant.patch("/api/v1/organization", { slug })).status, 200, "its own is no change");
    for (const change of [{ name: "" }, { name: "x".repeat(65) }, { slug: "A" }, { slug: "" }])
      assert.equal((await tenant.patch("/api/v1/organization", change)).status, 422);
    const { client } = await anIdentity(tenant, house.base, (await aProject(tenant)).id, {
      roles: [{ role: "admin" }],
    });
    assert.equal((await client.patch("/api/v1/organization", { name: "x" })).body.error, "PermissionDenied");
  });

  it("M7 tells nobody which slugs others have; the instance's admins choose them", async () => {
    const [tenant, other] = [await house.newTenant(), await house.newTenant()];
    const taken = other.orgSlug;
    for (const slug of [taken, "nobody-has-it"]) {
      const { status, body } = await tenant.patch("/api/v1/organization", { slug });
      assert.deepEqual([status, body.error], [403, "PermissionDenied"], slug);
    }
    const mine = await house.owner.patch("/api/v1/organization", { slug: "head-office" });
    assert.deepEqual([mine.status, mine.body.organization.slug], [200, "head-office"]);
    assert.equal((await house.owner.patch("/api/v1/organization", { slug: taken })).body.error, "Conflict");
  });

  it("S-31 keeps its id whatever a body says", async () => {
    const [tenant, other] = [await house.newTenant(), await house.newTenant()];
    const { body } = await tenant.patch("/api/v1/organization", {
      id: other.orgId,
      organizationId: other.orgId,
      orgId: other.orgId,
      name: "mine",
    });
    assert.equal(body.organization.id, tenant.orgId);
    assert.notEqual((await other.get("/api/v1/organization")).body.organizations[0].name, "mine");
  });
});
