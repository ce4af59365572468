import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { aProject, unique } from "../../../test/builders.ts";
import { openTestHouse, type Answer, type Tenant, type TestHouse } from "../../../test/harness.ts";
import { newId } from "../../platform/ids.ts";
import {
  accept,
  anAddress,
  anOrgRole,
  aPerson,
  eventsOf,
  expectStatus,
  giveRole,
  invite,
  look,
  membershipIdOf,
  PASSWORD,
  refusalOf,
  sessionIn,
  type Person,
} from "../../../test/people.ts";

const PATH = "/api/v1/organization/invitations";
const DAY_MS = 86_400_000;
const statusOf = (answer: Answer) => answer.status;
const uniform = { status: 401, error: "UnauthorizedError", message: "Invalid credentials." };

describe("invitations", () => {
  let t: TestHouse;
  let tenant: Tenant;
  let ada: Person;
  before(async () => {
    t = await openTestHouse();
    tenant = await t.newTenant();
    ada = await aPerson(t, tenant);
  });
  after(() => t.close());

  const login = (email: string, password = PASSWORD) =>
    t.anonymous.post("/api/v3/auth/login", { email, password });
  const pending = async (org: Tenant): Promise<{ id: string; email: string }[]> =>
    expectStatus(await org.get(PATH), 200).invitations;

  describe("inviting", () => {
    test("answers the invitation and, this once, a token; only its digest is kept", async () => {
      const email = anAddress();
      const before = t.clock.millis();
      const body = expectStatus(await tenant.post(PATH, { email }), 200);
      assert.deepEqual(Object.keys(body).sort(), ["invitation", "inviteToken"]);
      const { id, expiresAt, createdAt, ...rest } = body.invitation;
      assert.deepEqual(rest, { email, role: "member" });
      assert.ok(Date.parse(createdAt) >= before - 1);
      assert.equal(Date.parse(expiresAt) - Date.parse(createdAt), 7 * DAY_MS);
      assert.match(body.inviteToken, /^kwi_[\w-]{43}$/);
      const stored = await look(t, "SELECT i::text AS row FROM invitations i WHERE id = $1", [id]);
      const audited = await look(t, "SELECT metadata::text AS row FROM audit_log WHERE org_id = $1", [
        tenant.orgId,
      ]);
      assert.equal(stored.length, 1);
      const raw = Buffer.from(body.inviteToken.slice(4), "base64url").toString("hex");
      const everything = JSON.stringify([stored, audited]);
      assert.ok(!everything.includes(body.inviteToken) && !everything.includes(raw));
      assert.ok((await eventsOf(t, tenant.orgId)).includes("create-invitation"));
    });

    test("S-14 looks the same for an address that has an account and for one that has none", async () => {
      const answers = [
        await tenant.post(PATH, { email: t.ownerUser.email }),
        await tenant.post(PATH, { email: anAddress() }),
        await (await t.newTenant()).post(PATH, { email: ada.email }),
      ];
      const shapes = answers.map(({ status, body }) => [
        status,
        Object.keys(body),
        Object.keys(body.invitation),
        body.inviteToken.length,
      ]);
      assert.deepEqual(shapes[1], shapes[0]);
      assert.deepEqual(shapes[2], shapes[0]);
    });

    test("again replaces: the older token is worth nothing", async () => {
      const [org, email] = [await t.newTenant(), ada.email];
      const older = await invite(org, { email, role: "admin" });
      const newer = await invite(org, { email: ` ${email.toUpperCase()} `, role: "no-access" });
      assert.equal((await pending(org)).length, 1);
      assert.deepEqual(refusalOf(await accept(t, older)), uniform);
      assert.equal((await accept(t, newer)).status, 200);
    });

    test("answers 401 without a token", async () => {
      assert.equal((await t.anonymous.post(PATH, { email: anAddress() })).status, 401);
    });

    test("answers 403 without the right to create members", async () => {
      await giveRole(tenant, ada, "member");
      const answer = await ada.post(PATH, { email: anAddress() });
      assert.deepEqual([answer.status, answer.body.error], [403, "PermissionDenied"]);
    });

    test("cannot promise more than the inviter holds, in the organisation or in a project", async () => {
      const action = ["create", "assign-role"];
      await giveRole(tenant, ada, await anOrgRole(tenant, [{ subject: "member", action }]));
      const project = await aProject(tenant);
      const asViewer = { emails: [ada.email], roleSlugs: ["viewer"] };
      expectStatus(await tenant.post(`/api/v1/projects/${project.id}/memberships`, asViewer), 200);
      const asAdmin = await ada.post(PATH, { email: anAddress(), role: "admin" });
      assert.deepEqual([asAdmin.status, asAdmin.body.error], [403, "PermissionBoundaryError"]);
      const nothing = { email: anAddress(), role: "no-access" };
      const projects = [{ projectId: project.id, roles: [{ role: "viewer" }] }];
      assert.equal((await ada.post(PATH, { ...nothing, projects })).status, 403);
      assert.equal((await ada.post(PATH, nothing)).status, 200);
    });

    test("answers 404 for an unknown role", async () => {
      assert.equal((await tenant.post(PATH, { email: anAddress(), role: "unheard-of" })).status, 404);
    });

    test("answers 404 for a project of another organisation, in the words for an unknown one", async () => {
      const theirs = (await aProject(await t.newTenant())).id;
      const unknown = newId();
      const ask = (projectId: string) =>
        tenant.post(PATH, { email: anAddress(), projects: [{ projectId, roles: [{ role: "viewer" }] }] });
      const [other, none] = [await ask(theirs), await ask(unknown)];
      assert.equal(other.status, 404);
      assert.equal(other.body.message.replace(theirs, unknown), none.body.message);
    });

    test("answers 400 if a project is named twice, by id and by slug", async () => {
      const project = await aProject(tenant);
      const roles = [{ role: "viewer" }];
      const projects = [
        { projectId: project.id, roles },
        { projectId: project.slug, roles },
      ];
      assert.equal((await tenant.post(PATH, { email: anAddress(), projects })).status, 400);
    });

    test("answers 422 to what is no address and to a project without roles", async () => {
      assert.equal((await tenant.post(PATH, { email: "grace" })).status, 422);
      const projects = [{ projectId: "p", roles: [] }];
      assert.equal((await tenant.post(PATH, { email: anAddress(), projects })).status, 422);
    });
  });

  describe("listing", () => {
    test("shows what can still be accepted, without tokens, and pages", async () => {
      const org = await t.newTenant();
      const emails = [anAddress(), anAddress()];
      for (const email of emails) await invite(org, { email });
      const body = expectStatus(await org.get(PATH), 200);
      assert.equal(body.totalCount, 2);
      assert.deepEqual(
        body.invitations.map((one: { email: string }) => one.email),
        emails,
      );
      assert.deepEqual(Object.keys(body.invitations[0]).sort(), [
        "createdAt",
        "email",
        "expiresAt",
        "id",
        "role",
      ]);
      const second = expectStatus(await org.get(`${PATH}?limit=1&offset=1`), 200);
      assert.deepEqual([second.invitations[0].email, second.totalCount], [emails[1], 2]);
    });

    test("answers 401 without a token and 403 without the right to read members", async () => {
      assert.equal((await t.anonymous.get(PATH)).status, 401);
      await giveRole(tenant, ada, "no-access");
      assert.equal((await ada.get(PATH)).status, 403);
    });

    test("answers 422 to a page that is none", async () => {
      assert.equal((await tenant.get(`${PATH}?offset=-1`)).status, 422);
    });
  });

  describe("withdrawing", () => {
    test("makes the token worthless", async () => {
      const { invitation, inviteToken } = expectStatus(await tenant.post(PATH, { email: anAddress() }), 200);
      const gone = expectStatus(await tenant.delete(`${PATH}/${invitation.id}`), 200);
      assert.equal(gone.invitation.id, invitation.id);
      assert.deepEqual(refusalOf(await accept(t, inviteToken)), uniform);
      assert.equal((await tenant.delete(`${PATH}/${invitation.id}`)).status, 404);
      assert.ok((await eventsOf(t, tenant.orgId)).includes("delete-invitation"));
    });

    test("answers 403 without the right to delete members", async () => {
      await giveRole(tenant, ada, "member");
      const { invitation } = expectStatus(await tenant.post(PATH, { email: anAddress() }), 200);
      assert.equal((await ada.delete(`${PATH}/${invitation.id}`)).status, 403);
    });

    test("answers 404 for an invitation of another organisation, in the words for an unknown one", async () => {
      const other = await t.newTenant();
      const theirs = expectStatus(await other.post(PATH, { email: anAddress() }), 200).invitation.id;
      const unknown = newId();
      const [refused, none] = [
        await tenant.delete(`${PATH}/${theirs}`),
        await tenant.delete(`${PATH}/${unknown}`),
      ];
      assert.equal(refused.status, 404);
      assert.equal(refused.body.message.replace(theirs, unknown), none.body.message);
      assert.equal((await pending(other)).length, 1);
    });

    test("answers 401 without a token and 422 to an id that is none", async () => {
      assert.equal((await t.anonymous.delete(`${PATH}/${newId()}`)).status, 401);
      assert.equal((await tenant.delete(`${PATH}/latest`)).status, 422);
    });
  });

  describe("accepting with a new address", () => {
    test("makes an account, a member and a project member, and logs in", async () => {
      const org = await t.newTenant();
      const project = await aProject(org);
      const email = anAddress();
      const temporary = { role: "viewer", isTemporary: true, temporaryRange: "1h" };
      const projects = [{ projectId: project.slug, roles: [{ role: "no-access" }, temporary] }];
      const token = await invite(org, { email, firstName: "Grace", lastName: "H.", projects });
      const body = expectStatus(await accept(t, token, { lastName: "Hopper" }), 200);
      assert.equal(body.organizationId, org.orgId);
      const { id, ...user } = body.user;
      assert.deepEqual(user, { email, username: email, firstName: "Grace", lastName: "Hopper" });
      const person = t.as(await sessionIn(t, body.accessToken, org.orgId));
      assert.equal((await person.get("/api/v1/organization/members")).status, 200);
      const path = `/api/v1/projects/${project.id}/memberships`;
      const { memberships } = expectStatus(await person.get(path), 200);
      assert.equal(memberships[0].userId, id);
      const held = memberships[0].roles.map(
        (role: { role: string; isTemporary: boolean }) => `${role.role} ${role.isTemporary}`,
      );
      assert.deepEqual(held.sort(), ["no-access false", "viewer true"]);
      assert.deepEqual((await eventsOf(t, org.orgId)).slice(-4), [
        "create-user",
        "accept-invitation",
        "login",
        "select-organization",
      ]);
    });

    test("starts a temporary role at acceptance unless a start was asked for", async () => {
      const org = await t.newTenant();
      const project = await aProject(org);
      const start = "2031-05-06T07:08:09.000Z";
      const roles = [
        { role: "viewer", isTemporary: true, temporaryRange: "1h" },
        { role: "member", isTemporary: true, temporaryRange: "2h", temporaryAccessStartTime: start },
      ];
      const token = await invite(org, { email: ada.email, projects: [{ projectId: project.id, roles }] });
      t.clock.advance(3 * 3_600_000);
      const accepted = t.clock.millis();
      expectStatus(await accept(t, token), 200);
      const path = `/api/v1/projects/${project.id}/memberships`;
      const { memberships } = expectStatus(await org.get(path), 200);
      const held = (slug: string) =>
        memberships[0].roles.find((role: { role: string }) => role.role === slug);
      const [viewer, member] = [held("viewer"), held("member")];
      assert.ok(Date.parse(viewer.temporaryAccessStartTime) >= accepted - 1);
      assert.equal(member.temporaryAccessStartTime, start);
      assert.equal(member.temporaryAccessEndTime, "2031-05-06T09:08:09.000Z");
    });

    test("works once: of twenty at the same time one succeeds", async () => {
      const email = anAddress();
      const token = await invite(tenant, { email });
      const answers = await Promise.all(Array.from({ length: 20 }, () => accept(t, token)));
      assert.deepEqual(answers.map(statusOf).sort(), [200, ...Array<number>(19).fill(401)]);
      assert.equal((await look(t, "SELECT 1 FROM users WHERE email = $1", [email])).length, 1);
      assert.deepEqual(refusalOf(await accept(t, token)), uniform);
    });

    test("of two organisations at the same time makes one account, in both", async () => {
      const [email, other] = [anAddress(), await t.newTenant()];
      const tokens = [await invite(tenant, { email }), await invite(other, { email })];
      const answers = await Promise.all(tokens.map((token) => accept(t, token)));
      assert.deepEqual(answers.map(statusOf), [200, 200]);
      assert.equal(answers[0]?.body.user.id, answers[1]?.body.user.id);
    });

    test("skips a project that was deleted meanwhile", async () => {
      const org = await t.newTenant();
      const project = await aProject(org);
      const projects = [{ projectId: project.id, roles: [{ role: "viewer" }] }];
      const token = await invite(org, { email: ada.email, projects });
      expectStatus(await org.delete(`/api/v1/projects/${project.id}`), 200);
      assert.equal((await accept(t, token)).status, 200);
      assert.ok(await membershipIdOf(org, ada.email));
    });

    test("answers 422 to a password that is too short, and keeps the invitation", async () => {
      const org = await t.newTenant();
      assert.equal((await accept(t, await invite(org), { password: "short" })).status, 422);
      assert.equal((await pending(org)).length, 1);
    });
  });

  describe("accepting with a known address", () => {
    test("needs the account's own password, and changes neither it nor the name", async () => {
      const [org, { email }] = [await t.newTenant(), ada];
      const token = await invite(org, { email, firstName: "Mallory" });
      const password = "a guess of some length";
      const wrong = refusalOf(await accept(t, token, { password }));
      assert.deepEqual(wrong, uniform);
      assert.deepEqual(wrong, refusalOf(await login(email, password)));
      const body = expectStatus(await accept(t, token, { firstName: "Mallory" }), 200);
      assert.deepEqual([body.user.id, body.user.firstName], [ada.userId, ""]);
      const hashes = await look(t, "SELECT first_name FROM users WHERE email = $1", [email]);
      assert.deepEqual(hashes, [{ first_name: "" }]);
      assert.equal((await login(email)).status, 200);
    });

    test("counts guesses together with those of the login", async () => {
      const [org, { email }] = [await t.newTenant(), ada];
      const token = await invite(org, { email });
      for (let guess = 0; guess < 3; guess += 1) await accept(t, token, { password: `wrong guess ${guess}` });
      for (let guess = 0; guess < 2; guess += 1) await login(email, `wrong guess ${guess}`);
      assert.match((await accept(t, token)).body.message, /^Locked/);
      assert.match((await login(email)).body.message, /^Locked/);
      t.clock.advance(301_000);
      assert.equal((await accept(t, token)).status, 200);
    });

    test("answers 409 to who is a member already, and changes nothing", async () => {
      await giveRole(tenant, ada, "member");
      const token = await invite(tenant, { email: ada.email, role: "admin" });
      assert.equal((await accept(t, token)).status, 409);
      const found = await tenant.get(`/api/v1/organization/members?search=${ada.email}`);
      assert.equal(expectStatus(found, 200).members[0].role, "member");
    });
  });

  describe("a token that is not good", () => {
    test("is refused in the same words whether unknown, malformed, used or expired, and audited", async () => {
      const used = await invite(await t.newTenant(), { email: ada.email });
      expectStatus(await accept(t, used), 200);
      const expired = await invite(tenant);
      t.clock.advance(7 * DAY_MS);
      for (const token of ["kwi_unknown", "", unique("x"), used, expired]) {
        assert.deepEqual(refusalOf(await accept(t, token)), uniform, token.slice(0, 12));
      }
      const [row] = await look(
        t,
        "SELECT count(*)::int AS count FROM audit_log WHERE event = 'login-refused' AND metadata->>'reason' = 'unknown-invitation'",
      );
      assert.ok((row as { count: number }).count >= 5);
    });

    test("is good until its seventh day ends", async () => {
      const token = await invite(await t.newTenant(), { email: ada.email });
      t.clock.advance(7 * DAY_MS - 60_000);
      assert.equal((await accept(t, token)).status, 200);
    });

    test("is deleted once it has expired, and not before", async () => {
      const org = await t.newTenant();
      await invite(org);
      const count = async () =>
        (await look(t, "SELECT 1 FROM invitations WHERE org_id = $1", [org.orgId])).length;
      t.clock.advance(3_600_000);
      await t.house.jobs.runDue();
      assert.equal(await count(), 1);
      t.clock.advance(7 * DAY_MS);
      assert.deepEqual(await pending(org), []);
      await t.house.jobs.runDue();
      assert.equal(await count(), 0);
    });

    test("answers 422 without a token", async () => {
      assert.equal(
        (await t.anonymous.post("/api/v1/auth/accept-invitation", { password: PASSWORD })).status,
        422,
      );
    });
  });

  describe("an inviter who has lost the right", () => {
    test("by removal cannot let anyone in any more", async () => {
      const org = await t.newTenant();
      const inviter = await aPerson(t, org, { email: ada.email, role: "admin" });
      const token = await invite(inviter, { role: "admin" });
      expectStatus(await org.delete(`/api/v1/organization/members/${inviter.membershipId}`), 200);
      assert.deepEqual(refusalOf(await accept(t, token)), uniform);
    });

    test("by demotion cannot either, until they hold it again", async () => {
      const org = await t.newTenant();
      const inviter = await aPerson(t, org, { email: ada.email, role: "admin" });
      const token = await invite(inviter);
      await giveRole(org, inviter, "member");
      assert.deepEqual(refusalOf(await accept(t, token)), uniform);
      await giveRole(org, inviter, "admin");
      assert.equal((await accept(t, token)).status, 200);
    });
  });
});
