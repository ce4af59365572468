import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { aProject } from "../../../test/builders.ts";
import { clientOf, openTestHouse, type Tenant, type TestHouse } from "../../../test/harness.ts";
import { newId } from "../../platform/ids.ts";
import {
  accept,
  against,
  anOrgRole,
  aPerson,
  eventsOf,
  expectStatus,
  giveRole,
  invite,
  look,
  membershipIdOf,
  type Person,
} from "../../../test/people.ts";

const PATH = "/api/v1/organization/members";

describe("members of an organisation", () => {
  let t: TestHouse;
  let tenant: Tenant;
  let other: Tenant;
  let ada: Person;
  /** In the other organisation only. */
  let grace: Person;
  before(async () => {
    t = await openTestHouse();
    [tenant, other] = [await t.newTenant(), await t.newTenant()];
    ada = await aPerson(t, tenant, { firstName: "Ada", lastName: "Lovelace" });
    grace = await aPerson(t, other);
  });
  after(() => t.close());

  /** The instance admin belongs to every organisation and is the only admin of a new one. */
  const ownerIn = (org: Tenant) => membershipIdOf(org, t.ownerUser.email);

  describe("listing", () => {
    test("shows each person with role and account, in the order they came", async () => {
      const { members, totalCount } = expectStatus(await tenant.get(PATH), 200);
      assert.equal(totalCount, 2);
      assert.equal(members[0].user.email, t.ownerUser.email);
      assert.equal(members[0].role, "admin");
      const { createdAt, ...rest } = members[1];
      assert.equal(new Date(createdAt).toISOString(), createdAt);
      const { userId: id, email } = ada;
      const user = { id, email, username: email, firstName: "Ada", lastName: "Lovelace" };
      assert.deepEqual(rest, { id: ada.membershipId, role: "member", user });
    });

    test("names the custom role of who holds one", async () => {
      const slug = await anOrgRole(tenant, [{ subject: "audit-logs", action: "read" }]);
      await giveRole(tenant, ada, slug);
      const { members } = expectStatus(await tenant.get(`${PATH}?search=${ada.email}`), 200);
      assert.equal(members[0].role, "custom");
      assert.equal(members[0].customRole.slug, slug);
    });

    test("finds by any part of address or name, and takes wildcards literally", async () => {
      const found = async (search: string) =>
        expectStatus(await tenant.get(`${PATH}?search=${encodeURIComponent(search)}`), 200).totalCount;
      assert.equal(await found("LOVE"), 1);
      assert.equal(await found("ada"), 1);
      assert.equal(await found("example.com"), 2);
      assert.equal(await found("a_a"), 0);
      assert.equal(await found("%"), 0);
    });

    test("pages, and counts everybody", async () => {
      const first = expectStatus(await tenant.get(`${PATH}?limit=1`), 200);
      const second = expectStatus(await tenant.get(`${PATH}?limit=1&offset=1`), 200);
      assert.equal(first.members.length, 1);
      assert.notEqual(first.members[0].id, second.members[0].id);
      assert.ok(first.totalCount >= 2);
      assert.deepEqual(expectStatus(await tenant.get(`${PATH}?limit=1&offset=0`), 200), first);
    });

    test("shows a conditional reader only whom the condition names, and counts no others", async () => {
      const conditions = { userEmail: { $in: [ada.email, "visible@example.com"] } };
      const role = await anOrgRole(tenant, [{ subject: "member", action: "read", conditions }]);
      await giveRole(tenant, ada, role);
      await invite(tenant, { email: "visible@example.com" });
      await invite(tenant, { email: "hidden@example.com" });
      const { members, totalCount } = expectStatus(await ada.get(PATH), 200);
      const shown = members.map((member: { user: { email: string } }) => member.user.email);
      assert.deepEqual([shown, totalCount], [[ada.email], 1]);
      const invited = expectStatus(await ada.get("/api/v1/organization/invitations"), 200);
      const emails = invited.invitations.map((one: { email: string }) => one.email);
      assert.deepEqual([emails, invited.totalCount], [["visible@example.com"], 1]);
    });

    test("never shows people of another organisation", async () => {
      const { totalCount } = expectStatus(await tenant.get(`${PATH}?search=${grace.email}`), 200);
      assert.equal(totalCount, 0);
    });

    test("answers 401 without a token", async () => {
      assert.equal((await t.anonymous.get(PATH)).status, 401);
    });

    test("answers 403 without the right to read members", async () => {
      await giveRole(tenant, ada, "no-access");
      assert.equal((await ada.get(PATH)).status, 403);
    });

    test("answers 422 to a page that is none", async () => {
      assert.equal((await tenant.get(`${PATH}?limit=0`)).status, 422);
    });
  });

  describe("changing a role", () => {
    test("takes effect with the next request and leaves an audit row", async () => {
      await giveRole(tenant, ada, "no-access");
      assert.equal((await ada.get(PATH)).status, 403);
      const changed = await tenant.patch(`${PATH}/${ada.membershipId}`, { role: "member" });
      assert.equal(expectStatus(changed, 200).member.role, "member");
      assert.equal((await ada.get(PATH)).status, 200);
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
      await aPerson(t, org, { email: ada.email, role: "admin" });
      assert.equal((await org.patch(`${PATH}/${await ownerIn(org)}`, { role: "member" })).status, 200);
    });

    test("of all admins at once leaves one", async () => {
      const org = await t.newTenant();
      const role = "admin";
      const one = await aPerson(t, org, { email: ada.email, role });
      const another = await aPerson(t, org, { email: grace.email, role });
      const ids = [await ownerIn(org), one.membershipId, another.membershipId];
      const change = (id: string, index: number) =>
        index === 0 ? org.delete(`${PATH}/${id}`) : org.patch(`${PATH}/${id}`, { role: "member" });
      const statuses = (await Promise.all(ids.map(change))).map((answer) => answer.status);
      assert.deepEqual(statuses.sort(), [200, 200, 400]);
    });

    test("answers 403 without the right to edit members", async () => {
      await giveRole(tenant, ada, "member");
      const answer = await ada.patch(`${PATH}/${ada.membershipId}`, { role: "member" });
      assert.deepEqual([answer.status, answer.body.error], [403, "PermissionDenied"]);
    });

    test("cannot give more than the giver holds", async () => {
      const action = ["read", "edit", "assign-role"];
      await giveRole(tenant, ada, await anOrgRole(tenant, [{ subject: "member", action }]));
      const answer = await ada.patch(`${PATH}/${ada.membershipId}`, { role: "admin" });
      assert.deepEqual([answer.status, answer.body.error], [403, "PermissionBoundaryError"]);
    });

    test("respects a condition on whom it is about", async () => {
      const edit = { subject: "member", action: "edit" };
      const others = { ...edit, conditions: { userEmail: { $ne: ada.email } } };
      await giveRole(tenant, ada, await anOrgRole(tenant, [others]));
      assert.equal((await ada.patch(`${PATH}/${ada.membershipId}`, { role: "no-access" })).status, 403);
      const own = { ...edit, conditions: { userEmail: { $eq: ada.email } } };
      await giveRole(tenant, ada, await anOrgRole(tenant, [own]));
      assert.equal((await ada.patch(`${PATH}/${ada.membershipId}`, { role: "no-access" })).status, 200);
    });

    test("answers 404, not a bug, when the role is deleted at the same moment", async () => {
      const slug = await anOrgRole(tenant, [{ subject: "audit-logs", action: "read" }]);
      const answer = await against(t, [["DELETE FROM roles WHERE slug = $1", [slug]]], () =>
        tenant.patch(`${PATH}/${ada.membershipId}`, { role: slug }),
      );
      assert.equal(answer.status, 404);
    });

    test("answers 404 for an unknown role", async () => {
      const answer = await tenant.patch(`${PATH}/${ada.membershipId}`, { role: "nobody-wrote-this" });
      assert.equal(answer.status, 404);
    });

    test("answers 404 for a member of another organisation, in the words for an unknown one", async () => {
      const [theirs, unknown] = [grace.membershipId, newId()];
      const refused = await tenant.patch(`${PATH}/${theirs}`, { role: "member" });
      const none = await tenant.patch(`${PATH}/${unknown}`, { role: "member" });
      assert.equal(refused.status, 404);
      assert.equal(refused.body.message.replace(theirs, unknown), none.body.message);
    });

    test("answers 422 without a role or with an id that is none", async () => {
      assert.equal((await tenant.patch(`${PATH}/${newId()}`, {})).status, 422);
      assert.equal((await tenant.patch(`${PATH}/me`, { role: "member" })).status, 422);
    });
  });

  describe("removing", () => {
    test("ends the person's sessions there and their place in every project, and nothing elsewhere", async () => {
      const org = await t.newTenant();
      const project = await aProject(org);
      const projects = [{ projectId: project.id, roles: [{ role: "member" }] }];
      const person = await aPerson(t, org, { email: grace.email, projects });
      assert.equal((await person.get(PATH)).status, 200);

      const removed = expectStatus(await org.delete(`${PATH}/${person.membershipId}`), 200);
      assert.equal(removed.member.user.id, person.userId);
      assert.equal((await person.get(PATH)).status, 401);
      assert.equal((await grace.get(PATH)).status, 200);
      const left = expectStatus(await org.get(`/api/v1/projects/${project.id}/memberships`), 200);
      assert.equal(left.totalCount, 0);
      assert.equal((await eventsOf(t, org.orgId)).at(-1), "remove-member");
      assert.equal((await org.delete(`${PATH}/${person.membershipId}`)).status, 404);

      // The account stays, and its owner may come back; the old session may not.
      expectStatus(await accept(t, await invite(org, { email: grace.email })), 200);
      assert.equal((await person.get(PATH)).status, 401);
    });

    test("is felt on another node", async () => {
      const node = await t.openNode();
      const person = await aPerson(t, tenant, { email: grace.email });
      const there = clientOf(node.base, person.token);
      expectStatus(await there.get(PATH), 200);
      expectStatus(await tenant.delete(`${PATH}/${person.membershipId}`), 200);
      const told = async (): Promise<boolean> => (await there.get(PATH)).status === 401;
      for (let tries = 0; !(await told()); tries += 1) assert.ok(tries < 2000, "the other node never heard");
    });

    test("of the last admin is refused with 400", async () => {
      const org = await t.newTenant();
      const id = await ownerIn(org);
      assert.equal((await org.delete(`${PATH}/${id}`)).status, 400);
      assert.equal((await look(t, "SELECT 1 FROM memberships WHERE id = $1", [id])).length, 1);
    });

    test("by a conditional remover takes only whom the condition names", async () => {
      const [named, spared] = [await aPerson(t, tenant), await aPerson(t, tenant)];
      const conditions = { userEmail: { $in: [named.email] } };
      const mayRemove = [
        { subject: "member", action: "read" },
        { subject: "member", action: ["edit", "delete"], conditions },
      ];
      await giveRole(tenant, ada, await anOrgRole(tenant, mayRemove));
      assert.equal((await ada.delete(`${PATH}/${spared.membershipId}`)).status, 403);
      assert.equal((await ada.patch(`${PATH}/${spared.membershipId}`, { role: "no-access" })).status, 403);
      expectStatus(await ada.delete(`${PATH}/${named.membershipId}`), 200);
    });

    test("answers 401 without a token and 403 without the right to delete members", async () => {
      assert.equal((await t.anonymous.delete(`${PATH}/${ada.membershipId}`)).status, 401);
      await giveRole(tenant, ada, "member");
      assert.equal((await ada.delete(`${PATH}/${ada.membershipId}`)).status, 403);
    });

    test("answers 404 for a member of another organisation, in the words for an unknown one", async () => {
      const [theirs, unknown] = [grace.membershipId, newId()];
      const refused = await tenant.delete(`${PATH}/${theirs}`);
      const none = await tenant.delete(`${PATH}/${unknown}`);
      assert.equal(refused.status, 404);
      assert.equal(refused.body.message.replace(theirs, unknown), none.body.message);
      assert.equal((await grace.get(PATH)).status, 200);
    });

    test("answers 404 for the membership of a machine identity", async () => {
      const [row] = await look(t, "SELECT id FROM memberships WHERE identity_id = $1", [tenant.identityId]);
      assert.equal((await tenant.delete(`${PATH}/${(row as { id: string }).id}`)).status, 404);
    });

    test("answers 422 to an id that is none", async () => {
      assert.equal((await tenant.delete(`${PATH}/me`)).status, 422);
    });
  });
});
