import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { anIdentity, aProject, aRole } from "../../../test/builders.ts";
import { openTestHouse, type Tenant, type TestHouse } from "../../../test/harness.ts";
import { newId } from "../../platform/ids.ts";
import {
  against,
  anAddress,
  aPerson,
  eventsOf,
  expectStatus,
  look,
  refusalOf,
  type Person,
} from "../../../test/people.ts";

const pathOf = (project: { id: string }) => `/api/v1/projects/${project.id}/memberships`;

describe("people in a project", () => {
  let t: TestHouse;
  let tenant: Tenant;
  let ada: Person;
  let grace: Person;
  /** Someone in a project of another organisation. */
  let foreign: { project: { id: string }; email: string; membershipId: string };
  before(async () => {
    t = await openTestHouse();
    tenant = await t.newTenant();
    ada = await aPerson(t, tenant, { firstName: "Ada" });
    grace = await aPerson(t, tenant, { firstName: "Grace" });
    const other = await t.newTenant();
    const project = await aProject(other);
    const { email } = await aPerson(t, other);
    const { memberships } = expectStatus(await other.post(pathOf(project), { emails: [email] }), 200);
    foreign = { project, email, membershipId: memberships[0].id };
  });
  after(() => t.close());

  const added = async (project: { id: string }, person: Person, roleSlugs = ["member"]): Promise<string> => {
    const answer = await tenant.post(pathOf(project), { emails: [person.email], roleSlugs });
    return `${pathOf(project)}/${expectStatus(answer, 200).memberships[0].id}`;
  };
  describe("adding", () => {
    test("answers one membership per person, whichever list and spelling named them", async () => {
      const project = await aProject(tenant);
      const body = {
        emails: [ada.email, ` ${ada.email.toUpperCase()} `],
        usernames: [grace.email, ada.email],
        roleSlugs: ["viewer", "viewer"],
      };
      const { memberships } = expectStatus(await tenant.post(pathOf(project), body), 200);
      assert.deepEqual(
        memberships.map((one: { userId: string }) => one.userId).sort(),
        [ada.userId, grace.userId].sort(),
      );
      for (const one of memberships) {
        assert.deepEqual(Object.keys(one).sort(), ["createdAt", "id", "projectId", "updatedAt", "userId"]);
        assert.equal(one.projectId, project.id);
      }
      const listed = expectStatus(await ada.get(pathOf(project)), 200).memberships;
      const roles = listed.map((one: { roles: { role: string }[] }) => one.roles.map((role) => role.role));
      assert.deepEqual(roles, [["viewer"], ["viewer"]]);
      assert.ok((await eventsOf(t, tenant.orgId)).includes("create-project-membership"));
    });

    test("gives the role member by default, at the addresses that older clients know", async () => {
      for (const prefix of ["/api/v2/workspace", "/api/v1/workspace"]) {
        const project = await aProject(tenant);
        const path = `${prefix}/${project.slug}/memberships`;
        expectStatus(await tenant.post(path, { usernames: [ada.email] }), 200);
        const listed = expectStatus(await tenant.get(`/api/v1/workspace/${project.id}/memberships`), 200);
        assert.equal(listed.memberships[0].roles[0].role, "member");
      }
    });

    test("takes effect with the next request", async () => {
      const project = await aProject(tenant);
      assert.equal((await ada.get(pathOf(project))).status, 403);
      await added(project, ada);
      assert.equal((await ada.get(pathOf(project))).status, 200);
    });

    test("answers 404 for who is not of the organisation, naming nobody and adding nobody", async () => {
      const project = await aProject(tenant);
      const { email: elsewhere } = foreign;
      const ask = (email: string) => tenant.post(pathOf(project), { emails: [ada.email, email] });
      const [known, unknown] = [await ask(elsewhere), await ask(anAddress())];
      assert.deepEqual(refusalOf(known), {
        status: 404,
        error: "NotFound",
        message: "The member was not found.",
      });
      assert.deepEqual(refusalOf(unknown), refusalOf(known));
      assert.equal(expectStatus(await tenant.get(pathOf(project)), 200).totalCount, 0);
    });

    test("answers 404 for a project of another organisation, in the words for an unknown one", async () => {
      const { project } = foreign;
      const unknown = newId();
      const ask = (id: string) => tenant.post(pathOf({ id }), { emails: [ada.email] });
      const [theirs, none] = [await ask(project.id), await ask(unknown)];
      assert.equal(theirs.status, 404);
      assert.equal(theirs.body.message.replace(project.id, unknown), none.body.message);
    });

    test("answers 404 for an unknown role", async () => {
      const project = await aProject(tenant);
      const answer = await tenant.post(pathOf(project), { emails: [ada.email], roleSlugs: ["unheard-of"] });
      assert.equal(answer.status, 404);
    });

    test("answers 409 if one is a member already, and adds nobody", async () => {
      const project = await aProject(tenant);
      await added(project, ada);
      const answer = await tenant.post(pathOf(project), { emails: [grace.email, ada.email] });
      assert.equal(answer.status, 409);
      assert.equal(expectStatus(await tenant.get(pathOf(project)), 200).totalCount, 1);
    });

    test("answers 403 without the right to create members", async () => {
      const project = await aProject(tenant);
      await added(project, ada);
      const answer = await ada.post(pathOf(project), { emails: [grace.email] });
      assert.deepEqual([answer.status, answer.body.error], [403, "PermissionDenied"]);
    });

    test("answers 403 to whoever would give more than they hold", async () => {
      const project = await aProject(tenant);
      const role = await aRole(tenant, project.id, [
        { subject: "member", action: ["create", "assign-role"] },
      ]);
      await added(project, ada, [role]);
      const answer = await ada.post(pathOf(project), { emails: [grace.email], roleSlugs: ["admin"] });
      assert.deepEqual([answer.status, answer.body.error], [403, "PermissionBoundaryError"]);
      const nothing = { emails: [grace.email], roleSlugs: ["no-access"] };
      assert.equal((await ada.post(pathOf(project), nothing)).status, 200);
    });

    test("asks the condition for each address", async () => {
      const project = await aProject(tenant);
      const conditions = { userEmail: { $eq: grace.email } };
      const role = await aRole(tenant, project.id, [{ subject: "member", action: "create", conditions }]);
      await added(project, ada, [role]);
      const roleSlugs = ["no-access"];
      const both = { emails: [grace.email, t.ownerUser.email], roleSlugs };
      assert.equal((await ada.post(pathOf(project), both)).status, 403);
      assert.equal((await ada.post(pathOf(project), { emails: [grace.email], roleSlugs })).status, 200);
    });

    test("answers 401 without a token", async () => {
      const project = await aProject(tenant);
      assert.equal((await t.anonymous.post(pathOf(project), { emails: [ada.email] })).status, 401);
    });

    test("answers 422 if nobody is named, or no role, or what is no address", async () => {
      const project = await aProject(tenant);
      for (const body of [{}, { emails: [ada.email], roleSlugs: [] }, { usernames: ["ada"] }]) {
        assert.equal((await tenant.post(pathOf(project), body)).status, 422, JSON.stringify(body));
      }
    });

    test("waits for a removal from the organisation that is under way, and then finds nobody", async () => {
      const project = await aProject(tenant);
      const person = await aPerson(t, tenant);
      const removal = "DELETE FROM memberships WHERE id = $1";
      const answer = await against(t, [[removal, [person.membershipId]]], () =>
        tenant.post(pathOf(project), { emails: [person.email] }),
      );
      assert.equal(answer.status, 404);
    });

    test("under way makes a removal from the organisation wait, and take the new membership too", async () => {
      const project = await aProject(tenant);
      const person = await aPerson(t, tenant);
      const { membershipId, userId } = person;
      const addition = `INSERT INTO memberships (id, org_id, project_id, user_id, created_at, updated_at)
        VALUES ($1, $2, $3, $4, now(), now())`;
      const answer = await against(
        t,
        [
          ["SELECT id FROM memberships WHERE id = $1 FOR SHARE", [membershipId]],
          [addition, [newId(), tenant.orgId, project.id, userId]],
        ],
        () => tenant.delete(`/api/v1/organization/members/${membershipId}`),
      );
      assert.equal(answer.status, 200);
      const left = await look(t, "SELECT 1 FROM memberships WHERE user_id = $1", [userId]);
      assert.equal(left.length, 0);
    });
  });

  describe("listing", () => {
    test("shows people with their roles, searches and pages; machine identities are listed apart", async () => {
      const project = await aProject(tenant);
      const identity = await anIdentity(tenant, t.base, project.id);
      await added(project, ada, ["viewer", "member"]);
      await added(project, grace);
      const { memberships, totalCount } = expectStatus(await tenant.get(pathOf(project)), 200);
      assert.equal(totalCount, 2);
      assert.equal(memberships[0].user.email, ada.email);
      assert.equal(memberships[0].user.firstName, "Ada");
      assert.deepEqual(memberships[0].roles.map((role: { role: string }) => role.role).sort(), [
        "member",
        "viewer",
      ]);
      assert.equal(memberships[0].project.id, project.id);
      const found = expectStatus(await tenant.get(`${pathOf(project)}?search=GRACE`), 200);
      assert.deepEqual([found.totalCount, found.memberships[0].userId], [1, grace.userId]);
      const second = expectStatus(await tenant.get(`${pathOf(project)}?limit=1&offset=1`), 200);
      assert.deepEqual([second.totalCount, second.memberships[0].userId], [2, grace.userId]);
      const machines = expectStatus(await tenant.get(`${pathOf(project)}/identities`), 200);
      const ids = machines.identityMemberships.map((one: { identityId: string }) => one.identityId);
      assert.ok(ids.includes(identity.id));
    });

    test("shows a conditional reader only whom the condition names", async () => {
      const project = await aProject(tenant);
      const deny = { userEmail: { $eq: grace.email } };
      const role = await aRole(tenant, project.id, [
        { subject: "member", action: "read" },
        { subject: "member", action: "read", inverted: true, conditions: deny },
      ]);
      await added(project, ada, [role]);
      const hidden = await added(project, grace);
      const { memberships, totalCount } = expectStatus(await ada.get(pathOf(project)), 200);
      assert.deepEqual(
        [memberships.map((one: { userId: string }) => one.userId), totalCount],
        [[ada.userId], 1],
      );
      assert.equal((await ada.get(hidden)).status, 403);
    });

    test("answers 401, 403, 404 and 422 as it should", async () => {
      const project = await aProject(tenant);
      assert.equal((await t.anonymous.get(pathOf(project))).status, 401);
      assert.equal((await ada.get(pathOf(project))).status, 403);
      assert.equal((await tenant.get(pathOf(foreign.project))).status, 404);
      assert.equal((await tenant.get(`${pathOf(project)}?limit=1001`)).status, 422);
    });
  });

  describe("one membership", () => {
    test("is read by its id, by the project's id and slug", async () => {
      const project = await aProject(tenant);
      const path = await added(project, ada);
      const { membership } = expectStatus(await ada.get(path), 200);
      assert.equal(membership.userId, ada.userId);
      const bySlug = await tenant.get(
        path.replace(project.id, project.slug).replace("/projects/", "/workspace/"),
      );
      assert.deepEqual(expectStatus(bySlug, 200).membership, membership);
    });

    test("gets other roles, temporary ones too, with effect at once", async () => {
      const project = await aProject(tenant);
      const path = await added(project, ada, ["no-access"]);
      assert.equal((await ada.get(path)).status, 403);
      const roles = [{ role: "viewer", isTemporary: true, temporaryMode: "relative", temporaryRange: "1h" }];
      const body = expectStatus(await tenant.patch(path, { roles }), 200);
      assert.deepEqual(body.roles, body.membership.roles);
      assert.deepEqual([body.roles[0].role, body.roles[0].isTemporary], ["viewer", true]);
      assert.equal((await ada.get(path)).status, 200);
      t.clock.advance(3_600_000);
      assert.equal((await ada.get(path)).status, 403);
      assert.ok((await eventsOf(t, tenant.orgId)).includes("update-project-membership"));
    });

    test("cannot be given more than the giver holds", async () => {
      const project = await aProject(tenant);
      const role = await aRole(tenant, project.id, [{ subject: "member", action: ["edit", "assign-role"] }]);
      const path = await added(project, ada, [role]);
      const answer = await ada.patch(path, { roles: [{ role: "admin" }] });
      assert.deepEqual([answer.status, answer.body.error], [403, "PermissionBoundaryError"]);
    });

    test("ends, and the rights with it; the person stays in the organisation", async () => {
      const project = await aProject(tenant);
      const path = await added(project, ada);
      assert.equal((await ada.get(path)).status, 200);
      assert.equal(expectStatus(await tenant.delete(path), 200).membership.userId, ada.userId);
      assert.equal((await ada.get(pathOf(project))).status, 403);
      assert.equal((await tenant.delete(path)).status, 404);
      assert.equal((await ada.get("/api/v1/organization/members")).status, 200);
      assert.ok((await eventsOf(t, tenant.orgId)).includes("delete-project-membership"));
    });

    test("answers 403 to who may only read", async () => {
      const project = await aProject(tenant);
      const path = await added(project, ada, ["viewer"]);
      assert.equal((await ada.patch(path, { roles: [{ role: "viewer" }] })).status, 403);
      assert.equal((await ada.delete(path)).status, 403);
    });

    test("answers 404 across organisations, projects and kinds, in the words for an unknown id", async () => {
      const project = await aProject(tenant);
      const elsewhere = (await added(await aProject(tenant), ada)).split("/").at(-1);
      const machine = await anIdentity(tenant, t.base, project.id);
      const [row] = await look(t, "SELECT id FROM memberships WHERE identity_id = $1 AND project_id = $2", [
        machine.id,
        project.id,
      ]);
      const unknown = newId();
      const expected = refusalOf(await tenant.get(`${pathOf(project)}/${unknown}`));
      assert.equal(expected.status, 404);
      const { membershipId, project: theirs } = foreign;
      for (const id of [membershipId, elsewhere, (row as { id: string }).id] as string[]) {
        const path = `${pathOf(project)}/${id}`;
        const answers = [
          await tenant.get(path),
          await tenant.patch(path, { roles: [{ role: "viewer" }] }),
          await tenant.delete(path),
        ];
        for (const answer of answers) {
          const { message, ...rest } = refusalOf(answer);
          assert.deepEqual({ ...rest, message: message.replace(id, unknown) }, expected);
        }
      }
      assert.equal((await tenant.get(`${pathOf(theirs)}/${membershipId}`)).status, 404);
    });

    test("answers 401 without a token", async () => {
      const path = await added(await aProject(tenant), ada);
      const { get, patch, delete: remove } = t.anonymous;
      const answers = [
        await get(path),
        await patch(path, { roles: [{ role: "viewer" }] }),
        await remove(path),
      ];
      assert.deepEqual(
        answers.map((answer) => answer.status),
        [401, 401, 401],
      );
    });

    test("answers 422 to an id that is none and to an empty list of roles", async () => {
      const project = await aProject(tenant);
      assert.equal((await tenant.get(`${pathOf(project)}/me`)).status, 422);
      assert.equal((await tenant.delete(`${pathOf(project)}/identities`)).status, 422);
      const path = await added(project, ada);
      assert.equal((await tenant.patch(path, { roles: [] })).status, 422);
    });
  });
});
