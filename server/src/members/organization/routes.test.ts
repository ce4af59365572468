import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { aProject } from "../../../test/builders.ts";
import { clientOf, openTestHouse, type Tenant, type TestHouse } from "../../../test/harness.ts";
import { newId } from "../../platform/ids.ts";
import {
  accept,
  anAddress,
  anOrgRole,
  aPerson,
  eventsOf,
  expectStatus,
  invite,
  look,
  membershipIdOf,
  PASSWORD,
  refusalOf,
  sessionIn,
} from "../test-people.ts";

const PATH = "/api/v1/organization/members";

describe("members of an organisation", () => {
  let t: TestHouse;
  let tenant: Tenant;
  before(async () => {
    t = await openTestHouse();
    tenant = await t.newTenant();
  });
  after(() => t.close());

  /** The instance admin belongs to every organisation and is the only admin of a new one. */
  const ownerIn = (org: Tenant) => membershipIdOf(org, t.ownerUser.email);

  describe("listing", () => {
    test("shows each person with role and account, in the order they came", async () => {
      const org = await t.newTenant();
      const person = await aPerson(t, org, { firstName: "Grace", lastName: "Hopper" });
      const { members, totalCount } = expectStatus(await org.get(PATH), 200);
      assert.equal(totalCount, 2);
      assert.deepEqual(
        members.map((member: { role: string }) => member.role),
        ["admin", "member"],
      );
      const { createdAt, ...rest } = members[1];
      assert.equal(new Date(createdAt).toISOString(), createdAt);
      const { userId: id, email } = person;
      const user = { id, email, username: email, firstName: "Grace", lastName: "Hopper" };
      assert.deepEqual(rest, { id: person.membershipId, role: "member", user });
    });

    test("names the custom role of who holds one", async () => {
      const slug = await anOrgRole(tenant, [{ subject: "audit-logs", action: "read" }]);
      const person = await aPerson(t, tenant, { role: slug });
      const { members } = expectStatus(await tenant.get(`${PATH}?search=${person.email}`), 200);
      assert.equal(members[0].role, "custom");
      assert.equal(members[0].customRole.slug, slug);
    });

    test("finds by any part of address or name, and takes wildcards literally", async () => {
      const org = await t.newTenant();
      await aPerson(t, org, { email: "ada_l@example.com", firstName: "Ada", lastName: "Lovelace" });
      const found = async (search: string) =>
        expectStatus(await org.get(`${PATH}?search=${encodeURIComponent(search)}`), 200).totalCount;
      assert.equal(await found("LOVE"), 1);
      assert.equal(await found("ada_l"), 1);
      assert.equal(await found("example.com"), 2);
      assert.equal(await found("%"), 0);
    });

    test("pages, and counts everybody", async () => {
      const first = expectStatus(await tenant.get(`${PATH}?limit=1`), 200);
      const second = expectStatus(await tenant.get(`${PATH}?limit=1&offset=1`), 200);
      assert.equal(first.members.length, 1);
      assert.notEqual(first.members[0].id, second.members[0].id);
      assert.ok(first.totalCount >= 2);
    });

    test("shows a conditional reader only whom the condition names, and counts no others", async () => {
      const org = await t.newTenant();
      const conditions = { userEmail: { $glob: "*@inside.example" } };
      const role = await anOrgRole(org, [{ subject: "member", action: "read", conditions }]);
      const reader = await aPerson(t, org, { role, email: "reader@inside.example" });
      await invite(org, { email: "other@inside.example" });
      await invite(org, { email: "other@outside.example" });
      const { members, totalCount } = expectStatus(await reader.get(PATH), 200);
      assert.deepEqual(
        [members.map((member: { user: { email: string } }) => member.user.email), totalCount],
        [["reader@inside.example"], 1],
      );
      const invited = expectStatus(await reader.get("/api/v1/organization/invitations"), 200);
      assert.deepEqual(
        [invited.invitations.map((one: { email: string }) => one.email), invited.totalCount],
        [["other@inside.example"], 1],
      );
    });

    test("never shows people of another organisation", async () => {
      const other = await t.newTenant();
      const stranger = await aPerson(t, other);
      const { totalCount } = expectStatus(await tenant.get(`${PATH}?search=${stranger.email}`), 200);
      assert.equal(totalCount, 0);
    });

    test("answers 401 without a token", async () => {
      assert.equal((await t.anonymous.get(PATH)).status, 401);
    });

    test("answers 403 without the right to read members", async () => {
      const person = await aPerson(t, tenant, { role: "no-access" });
      assert.equal((await person.get(PATH)).status, 403);
    });

    test("answers 422 to a page that is none", async () => {
      assert.equal((await tenant.get(`${PATH}?limit=0`)).status, 422);
    });
  });

  describe("changing a role", () => {
    test("takes effect with the next request and leaves an audit row", async () => {
      const person = await aPerson(t, tenant, { role: "no-access" });
      assert.equal((await person.get(PATH)).status, 403);
      const changed = await tenant.patch(`${PATH}/${person.membershipId}`, { role: "member" });
      assert.equal(expectStatus(changed, 200).member.role, "member");
      assert.equal((await person.get(PATH)).status, 200);
      assert.equal((await eventsOf(t, tenant.orgId)).at(-1), "update-member");
    });

    test("of the last admin is refused with 400, and changes nothing", async () => {
      const org = await t.newTenant();
      const id = await ownerIn(org);
      assert.equal((await org.patch(`${PATH}/${id}`, { role: "member" })).status, 400);
      const { members } = expectStatus(await org.get(PATH), 200);
      assert.equal(members[0].role, "admin");
    });

    test("of the last admin to admin is no demotion", async () => {
      const org = await t.newTenant();
      assert.equal((await org.patch(`${PATH}/${await ownerIn(org)}`, { role: "admin" })).status, 200);
    });

    test("of one of two admins is allowed", async () => {
      const org = await t.newTenant();
      await aPerson(t, org, { role: "admin" });
      assert.equal((await org.patch(`${PATH}/${await ownerIn(org)}`, { role: "member" })).status, 200);
    });

    test("of all admins at once leaves one", async () => {
      const org = await t.newTenant();
      const people = [await aPerson(t, org, { role: "admin" }), await aPerson(t, org, { role: "admin" })];
      const ids = [await ownerIn(org), ...people.map((person) => person.membershipId)];
      const change = (id: string, index: number) =>
        index === 0 ? org.delete(`${PATH}/${id}`) : org.patch(`${PATH}/${id}`, { role: "member" });
      const statuses = (await Promise.all(ids.map(change))).map((answer) => answer.status);
      assert.deepEqual(statuses.sort(), [200, 200, 400]);
    });

    test("answers 403 without the right to edit members", async () => {
      const person = await aPerson(t, tenant);
      const answer = await person.patch(`${PATH}/${person.membershipId}`, { role: "member" });
      assert.equal(answer.status, 403);
      assert.equal(answer.body.error, "PermissionDenied");
    });

    test("cannot give more than the giver holds", async () => {
      const role = await anOrgRole(tenant, [{ subject: "member", action: ["read", "edit", "assign-role"] }]);
      const person = await aPerson(t, tenant, { role });
      const answer = await person.patch(`${PATH}/${person.membershipId}`, { role: "admin" });
      assert.equal(answer.status, 403);
      assert.equal(answer.body.error, "PermissionBoundaryError");
    });

    test("respects a condition on whom it is about", async () => {
      const conditions = { userEmail: { $eq: "someone@else.example" } };
      const role = await anOrgRole(tenant, [
        { subject: "member", action: ["edit", "assign-role"], conditions },
      ]);
      const person = await aPerson(t, tenant, { role });
      const answer = await person.patch(`${PATH}/${person.membershipId}`, { role: "no-access" });
      assert.equal(answer.status, 403);
    });

    test("answers 404 for an unknown role", async () => {
      const person = await aPerson(t, tenant);
      const answer = await tenant.patch(`${PATH}/${person.membershipId}`, { role: "nobody-wrote-this" });
      assert.equal(answer.status, 404);
    });

    test("answers 404 for a member of another organisation, in the words for an unknown one", async () => {
      const [theirs, unknown] = [await ownerIn(await t.newTenant()), newId()];
      const other = await tenant.patch(`${PATH}/${theirs}`, { role: "member" });
      const none = await tenant.patch(`${PATH}/${unknown}`, { role: "member" });
      assert.equal(other.status, 404);
      assert.equal(other.body.message.replace(theirs, unknown), none.body.message);
    });

    test("answers 422 without a role or with an id that is none", async () => {
      assert.equal((await tenant.patch(`${PATH}/${newId()}`, {})).status, 422);
      assert.equal((await tenant.patch(`${PATH}/me`, { role: "member" })).status, 422);
    });
  });

  describe("removing", () => {
    test("ends the person's sessions there and their place in every project, and nothing elsewhere", async () => {
      const [org, other] = [await t.newTenant(), await t.newTenant()];
      const project = await aProject(org);
      const person = await aPerson(t, org, {
        projects: [{ projectId: project.id, roles: [{ role: "member" }] }],
      });
      const joined = expectStatus(await accept(t, await invite(other, { email: person.email })), 200);
      const elsewhere = t.as(await sessionIn(t, joined.accessToken, other.orgId));
      assert.equal((await person.get(PATH)).status, 200);

      const removed = expectStatus(await org.delete(`${PATH}/${person.membershipId}`), 200);
      assert.equal(removed.member.user.id, person.userId);
      assert.equal((await person.get(PATH)).status, 401);
      assert.equal((await elsewhere.get(PATH)).status, 200);
      const left = expectStatus(await org.get(`/api/v1/projects/${project.id}/memberships`), 200);
      assert.equal(left.totalCount, 0);
      assert.equal((await eventsOf(t, org.orgId)).at(-1), "remove-member");
    });

    test("is final for old sessions, even if the person is invited again", async () => {
      const org = await t.newTenant();
      const person = await aPerson(t, org);
      expectStatus(await org.delete(`${PATH}/${person.membershipId}`), 200);
      expectStatus(await accept(t, await invite(org, { email: person.email })), 200);
      assert.equal((await person.get(PATH)).status, 401);
    });

    test("is felt on another node", async () => {
      const node = await t.openNode();
      const person = await aPerson(t, tenant);
      const there = clientOf(node.base, person.token);
      expectStatus(await there.get(PATH), 200);
      expectStatus(await tenant.delete(`${PATH}/${person.membershipId}`), 200);
      const told = async (): Promise<boolean> => (await there.get(PATH)).status === 401;
      for (let tries = 0; !(await told()); tries += 1) assert.ok(tries < 2000, "the other node never heard");
    });

    test("keeps the account: the person can still log in", async () => {
      const person = await aPerson(t, tenant);
      expectStatus(await tenant.delete(`${PATH}/${person.membershipId}`), 200);
      const login = await t.anonymous.post("/api/v3/auth/login", { email: person.email, password: PASSWORD });
      assert.equal(login.status, 200);
    });

    test("of the last admin is refused with 400", async () => {
      const org = await t.newTenant();
      const id = await ownerIn(org);
      assert.equal((await org.delete(`${PATH}/${id}`)).status, 400);
      assert.equal((await look(t, "SELECT 1 FROM memberships WHERE id = $1", [id])).length, 1);
    });

    test("answers 403 without the right to delete members", async () => {
      const person = await aPerson(t, tenant);
      assert.equal((await person.delete(`${PATH}/${person.membershipId}`)).status, 403);
    });

    test("answers 404 for a member of another organisation, and for one removed already", async () => {
      const theirs = await ownerIn(await t.newTenant());
      assert.equal((await tenant.delete(`${PATH}/${theirs}`)).status, 404);
      const person = await aPerson(t, tenant);
      expectStatus(await tenant.delete(`${PATH}/${person.membershipId}`), 200);
      const again = refusalOf(await tenant.delete(`${PATH}/${person.membershipId}`));
      assert.equal(again.status, 404);
    });

    test("answers 404 for the membership of a machine identity", async () => {
      const sql = "SELECT id FROM memberships WHERE identity_id = $1";
      const [row] = await look(t, sql, [tenant.identityId]);
      const { id } = row as { id: string };
      assert.equal((await tenant.delete(`${PATH}/${id}`)).status, 404);
    });
  });

  test("a person of one organisation can be invited by address into another", async () => {
    const email = anAddress();
    expectStatus(await accept(t, await invite(tenant, { email })), 200);
    const other = await t.newTenant();
    expectStatus(await accept(t, await invite(other, { email })), 200);
    assert.notEqual(await membershipIdOf(tenant, email), await membershipIdOf(other, email));
  });
});
