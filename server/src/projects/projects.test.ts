/** Projects and their environments through the door. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { aProject, anIdentity, aRole, unique } from "../../test/builders.ts";
import { openTestHouse, type Client, type Tenant, type TestHouse } from "../../test/harness.ts";
import { aPerson, giveRole } from "../../test/people.ts";
import { newId } from "../platform/ids.ts";

describe("projects", () => {
  let house: TestHouse;
  let tenant: Tenant;
  before(async () => {
    house = await openTestHouse();
    tenant = await house.newTenant();
  });
  after(() => house.close());

  const create = (body: Record<string, unknown>) =>
    tenant.post("/api/v1/projects", { projectName: "Payments", ...body });

  it("start with three environments, and their creator is their admin", async () => {
    const { status, body } = await create({ projectName: "  Über Payments! ", slug: "pay_ments" });
    assert.equal(status, 200);
    assert.deepEqual(
      [body.project.name, body.project.slug, body.project.type, body.project.orgId, body.project._id],
      ["Über Payments!", "pay_ments", "secret-manager", tenant.orgId, body.project.id],
    );
    assert.deepEqual(
      body.project.environments.map((one: { slug: string }) => one.slug),
      ["dev", "staging", "prod"],
    );
    assert.equal(
      (await tenant.post(`/api/v1/projects/pay_ments/identities`, { name: "x", roles: [{ role: "admin" }] }))
        .status,
      200,
    );
    assert.match(
      (await create({ projectName: "Über Payments!" })).body.project.slug,
      /^u-?ber-payments-[a-z0-9]{4}$/,
    );
    assert.deepEqual((await create({ type: "cert-manager" })).body.project.environments, []);
    assert.deepEqual((await create({ shouldCreateDefaultEnvs: false })).body.project.environments, []);
  });

  it("are found by id and by slug at all their addresses, alike", async () => {
    const project = await aProject(tenant);
    const want = (await tenant.get(`/api/v1/projects/${project.id}`)).body.project;
    for (const ref of [project.id, project.slug]) {
      assert.deepEqual((await tenant.get(`/api/v1/projects/${ref}`)).body, { project: want });
      assert.deepEqual((await tenant.get(`/api/v1/workspace/${ref}/`)).body, { workspace: want });
      assert.deepEqual((await tenant.get(`/api/v1/projects/slug/${ref}`)).body, want);
      assert.deepEqual((await tenant.get(`/api/v2/workspace/${ref}`)).body, want);
    }
    assert.ok(
      (await tenant.get("/api/v1/workspace")).body.workspaces.some(
        (one: { _id: string }) => one._id === project.id,
      ),
    );
    assert.ok(
      (await tenant.get("/api/v1/projects?type=secret-manager")).body.projects.some(
        (one: { id: string }) => one.id === project.id,
      ),
    );
    assert.ok(
      !(await tenant.get("/api/v1/projects?type=cert-manager")).body.projects.some(
        (one: { id: string }) => one.id === project.id,
      ),
    );
  });

  it("S-24 take odd names as names only: slugs that are none, or could be an id, are refused", async () => {
    for (const projectName of ["root", "default", "..", "*", "null", "\u200b", "__proto__", "🦄"]) {
      const { status, body } = await create({ projectName });
      assert.equal(status, 200, JSON.stringify(projectName));
      assert.equal(body.project.name, projectName);
      assert.match(body.project.slug, /^[a-z0-9]+(-[a-z0-9]+)*$/);
    }
    for (const slug of [
      "",
      "..",
      "*",
      "A",
      "a b",
      "a/b",
      "%2e",
      "\u200b",
      "a--b",
      "-a",
      "a".repeat(65),
      newId(),
    ]) {
      assert.equal((await create({ slug })).status, 422, JSON.stringify(slug));
    }
    const project = await aProject(tenant);
    assert.equal((await tenant.patch(`/api/v1/projects/${project.id}`, { slug: newId() })).status, 422);
    for (const ref of ["%2e%2e", "*", "%00", "default", "%E2%80%8B", "x%2fy"]) {
      assert.ok([404, 422].includes((await tenant.get(`/api/v1/projects/${ref}`)).status), ref);
    }
    for (const projectName of ["", "  ", "x".repeat(65)])
      assert.equal((await create({ projectName })).status, 422);
  });

  it("have slugs of their own within the organisation, not beyond", async () => {
    const slug = unique("slug");
    assert.equal((await create({ slug })).status, 200);
    assert.equal((await create({ slug })).body.error, "Conflict");
    const other = await aProject(tenant);
    assert.equal((await tenant.patch(`/api/v1/projects/${other.id}`, { slug })).body.error, "Conflict");
    assert.equal(
      (await (await house.newTenant()).post("/api/v1/projects", { projectName: "x", slug })).status,
      200,
    );
  });

  it("change where a field is present, and answer under the new slug at once", async () => {
    const project = await aProject(tenant, { projectDescription: "old" });
    assert.equal((await tenant.get(`/api/v1/projects/${project.slug}`)).status, 200);
    const slug = unique("slug");
    const changed = (await tenant.patch(`/api/v1/projects/${project.slug}`, { slug, pitVersionLimit: 5 }))
      .body.project;
    assert.deepEqual([changed.slug, changed.pitVersionLimit, changed.description], [slug, 5, "old"]);
    assert.equal((await tenant.get(`/api/v1/projects/${project.slug}`)).status, 404);
    assert.equal((await tenant.get(`/api/v1/projects/${slug}`)).body.project.id, project.id);
    assert.equal(
      (await tenant.patch(`/api/v1/projects/${slug}`, { description: null })).body.project.description,
      null,
    );
    assert.equal(
      (await tenant.put(`/api/v1/workspace/${slug}/audit-logs-retention`, { auditLogsRetentionDays: 90 }))
        .body.workspace.auditLogsRetentionDays,
      90,
    );
    assert.equal(
      (await tenant.put(`/api/v1/workspace/${slug}/audit-logs-retention`, { auditLogsRetentionDays: -1 }))
        .status,
      422,
    );
  });

  it("are deleted unless protected, and everything in them is gone", async () => {
    const project = await aProject(tenant, { hasDeleteProtection: true });
    const bot = await anIdentity(tenant, house.base, project.id);
    assert.equal((await tenant.delete(`/api/v1/projects/${project.id}`)).body.error, "BadRequest");
    await tenant.patch(`/api/v1/projects/${project.id}`, { hasDeleteProtection: false });
    assert.equal((await tenant.delete(`/api/v1/workspace/${project.slug}`)).status, 200);
    for (const path of [
      `/api/v1/projects/${project.id}`,
      `/api/v1/projects/${project.slug}/roles`,
      `/api/v1/auth/universal-auth/identities/${bot.id}`,
    ]) {
      assert.equal((await tenant.get(path)).status, 404, path);
    }
    assert.equal((await bot.client.get("/api/v1/identities/details")).status, 401);
  });

  it("need the right for each thing", async () => {
    const project = await aProject(tenant);
    const viewer = await anIdentity(tenant, house.base, project.id, { roles: [{ role: "viewer" }] });
    assert.equal((await viewer.client.get(`/api/v1/projects/${project.id}`)).status, 200);
    assert.equal(
      (await viewer.client.patch(`/api/v1/projects/${project.id}`, { name: "x" })).body.error,
      "PermissionDenied",
    );
    assert.equal(
      (await viewer.client.delete(`/api/v1/projects/${project.id}`)).body.error,
      "PermissionDenied",
    );
    assert.equal(
      (await viewer.client.post("/api/v1/projects", { projectName: "x" })).body.error,
      "PermissionDenied",
    );
    assert.deepEqual(
      (await viewer.client.get("/api/v1/projects")).body.projects.map((one: { id: string }) => one.id),
      [project.id],
    );
    const stranger = await anIdentity(tenant, house.base, (await aProject(tenant)).id, {
      roles: [{ role: "admin" }],
    });
    assert.equal(
      (await stranger.client.get(`/api/v1/projects/${project.id}`)).body.error,
      "PermissionDenied",
    );
  });

  it("have the past forgotten sooner only by who may edit the audit log, and that is written where it stays", async () => {
    const project = await aProject(tenant);
    const path = `/api/v1/workspace/${project.id}/audit-logs-retention`;
    const clerkRole = await aRole(tenant, project.id, [{ subject: "project", action: "edit" }]);
    const clerk = await anIdentity(tenant, house.base, project.id, { roles: [{ role: clerkRole }] });
    assert.equal((await clerk.client.patch(`/api/v1/projects/${project.id}`, { name: "x" })).status, 200);
    const refused = await clerk.client.put(path, { auditLogsRetentionDays: 1 });
    assert.deepEqual([refused.status, refused.body.error], [403, "PermissionDenied"]);
    assert.equal((await tenant.put(path, { auditLogsRetentionDays: 90 })).status, 200);
    assert.equal((await tenant.put(path, { auditLogsRetentionDays: 30 })).status, 200);
    const { auditLogs } = (
      await tenant.get("/api/v1/organization/audit-logs?eventType=set-audit-retention&limit=2")
    ).body;
    assert.deepEqual(
      auditLogs
        .map((log: { projectId: string | null; event: { metadata: Record<string, unknown> } }) => [
          log.projectId,
          log.event.metadata["daysBefore"],
          log.event.metadata["days"],
        ])
        .sort(([a]: [string | null], [b]: [string | null]) => Number(a === null) - Number(b === null)),
      [
        [project.id, 90, 30],
        [null, 90, 30],
      ],
    );
  });

  describe("whose last admin has left", () => {
    const ALL = "/api/v1/organization-admin/projects";
    const take = (client: Client, ref: string) => client.post(`${ALL}/${ref}/grant-admin-access`);

    it("are found and taken over by an admin of the organisation, in their own audit trail", async () => {
      const org = await house.newTenant();
      const maker = await aPerson(house, org, { role: "member" });
      const project = await aProject(maker);
      const [other, heir] = [await aProject(org), await anIdentity(maker, house.base, project.id)];
      assert.equal((await take(org, project.id)).status, 400, "its admin is still there");
      await maker.patch(`/api/v1/projects/${project.id}/memberships/identities/${heir.id}`, {
        roles: [{ role: "admin" }],
      });
      const left = await org.delete(`/api/v1/organization/members/${maker.membershipId}`);
      assert.equal(left.status, 200);
      assert.equal((await org.get(`/api/v1/projects/${project.id}`)).status, 403);
      const { projects, count } = (await org.get(`${ALL}?limit=10`)).body;
      assert.equal(count, 2);
      assert.deepEqual(
        projects.map((one: { id: string; hasAdmin: boolean }) => [one.id, one.hasAdmin]),
        [
          [project.id, false],
          [other.id, true],
        ],
      );
      assert.equal((await org.get(`${ALL}?search=${other.slug}`)).body.count, 1);
      const taken = await take(org, project.slug);
      assert.deepEqual([taken.status, taken.body.membership.projectId], [200, project.id]);
      assert.equal((await org.patch(`/api/v1/projects/${project.id}`, { name: "Found" })).status, 200);
      const { auditLogs } = (
        await org.get(`/api/v1/organization/audit-logs?projectId=${project.id}&eventType=grant-admin-access`)
      ).body;
      assert.equal(auditLogs[0].actor.metadata.id, org.identityId);
      assert.equal((await take(org, project.id)).status, 400, "now it has one");
    });

    it("give a member who has become the organisation's admin the role beside those they hold", async () => {
      const org = await house.newTenant();
      const [maker, heir] = [await aPerson(house, org), await aPerson(house, org)];
      const project = await aProject(maker);
      const added = await maker.post(`/api/v1/projects/${project.id}/memberships`, {
        emails: [heir.email],
        roleSlugs: ["viewer"],
      });
      assert.equal(added.status, 200);
      await giveRole(org, heir, "admin");
      await org.delete(`/api/v1/organization/members/${maker.membershipId}`);
      const answers = await Promise.all([take(heir, project.id), take(heir, project.id)]);
      assert.ok(answers.some(({ status }) => status === 200));
      const { memberships } = (await heir.get(`/api/v1/projects/${project.id}/memberships`)).body;
      assert.deepEqual(memberships[0].roles.map((held: { role: string }) => held.role).sort(), [
        "admin",
        "viewer",
      ]);
    });

    it("stay closed to everyone else, and unknown to other organisations", async () => {
      const org = await house.newTenant();
      const [maker, member] = [await aPerson(house, org), await aPerson(house, org)];
      const project = await aProject(maker);
      await org.delete(`/api/v1/organization/members/${maker.membershipId}`);
      assert.equal((await take(member, project.id)).body.error, "PermissionBoundaryError");
      assert.equal((await member.get(ALL)).status, 403);
      assert.equal((await take(tenant, project.id)).status, 404);
      assert.equal((await take(house.anonymous, project.id)).status, 401);
    });
  });

  describe("environments", () => {
    it("are added, found by id and slug, renamed, moved and deleted", async () => {
      const project = await aProject(tenant);
      const at = `/api/v1/projects/${project.slug}/environments`;
      const made = await tenant.post(at, { name: "Quality", slug: "qa", position: 2 });
      assert.equal(made.status, 200);
      const { environment } = made.body;
      assert.deepEqual(
        [environment.position, environment.projectId, made.body.workspace],
        [2, project.id, project.id],
      );
      const order = async () =>
        (await tenant.get(`/api/v1/projects/${project.id}`)).body.project.environments.map(
          (one: { slug: string }) => one.slug,
        );
      assert.deepEqual(await order(), ["dev", "qa", "staging", "prod"]);
      assert.equal((await tenant.post(at, { name: "Quality", slug: "qa" })).body.error, "Conflict");
      assert.deepEqual((await tenant.get(`${at}/${environment.id}`)).body.environment, environment);
      assert.deepEqual((await tenant.get(`${at}/slug/qa`)).body.environment, environment);
      assert.deepEqual(
        (await tenant.get(`/api/v1/workspace/environments/${environment.id}`)).body.environment,
        environment,
      );
      assert.equal(
        (await tenant.patch(`${at}/${environment.id}`, { slug: "test", position: 1 })).body.environment.slug,
        "test",
      );
      assert.deepEqual(await order(), ["test", "dev", "staging", "prod"]);
      assert.equal((await tenant.patch(`${at}/${environment.id}`, { slug: "dev" })).body.error, "Conflict");
      assert.equal((await tenant.delete(`${at}/${environment.id}`)).status, 200);
      assert.equal((await tenant.get(`${at}/${environment.id}`)).status, 404);
      for (const slug of ["", "A", "a b", "..", "*", "a".repeat(65)])
        assert.equal((await tenant.post(at, { name: "x", slug })).status, 422);
    });

    it("belong to their own project", async () => {
      const [one, other] = [await aProject(tenant), await aProject(tenant)];
      const id = one.environments[0]?.id;
      for (const answer of [
        await tenant.get(`/api/v1/projects/${other.id}/environments/${id}`),
        await tenant.patch(`/api/v1/projects/${other.id}/environments/${id}`, { name: "x" }),
        await tenant.delete(`/api/v1/projects/${other.id}/environments/${id}`),
      ]) {
        assert.equal(answer.status, 404);
      }
    });

    it("need the right for each thing", async () => {
      const project = await aProject(tenant);
      const slug = await aRole(tenant, project.id, [{ subject: "environments", action: "create" }]);
      const { client } = await anIdentity(tenant, house.base, project.id, { roles: [{ role: slug }] });
      const at = `/api/v1/projects/${project.id}/environments`;
      const made = await client.post(at, { name: "x", slug: "x" });
      assert.equal(made.status, 200);
      assert.equal(
        (await client.patch(`${at}/${made.body.environment.id}`, { name: "y" })).body.error,
        "PermissionDenied",
      );
      assert.equal((await client.delete(`${at}/${made.body.environment.id}`)).body.error, "PermissionDenied");
    });

    it("are judged by their slug, the new one too when it changes", async () => {
      const project = await aProject(tenant);
      const role = await aRole(tenant, project.id, [
        {
          subject: "environments",
          action: ["create", "edit", "delete"],
          conditions: { environment: { $in: ["dev", "qa"] } },
        },
      ]);
      const { client } = await anIdentity(tenant, house.base, project.id, { roles: [{ role }] });
      const at = `/api/v1/projects/${project.id}/environments`;
      const idOf = (slug: string) => project.environments.find((one) => one.slug === slug)?.id ?? "";
      assert.equal((await client.patch(`${at}/${idOf("dev")}`, { name: "Mine" })).status, 200);
      assert.equal((await client.patch(`${at}/${idOf("prod")}`, { name: "Mine" })).status, 403);
      assert.equal((await client.patch(`${at}/${idOf("dev")}`, { slug: "prod-2" })).status, 403);
      assert.equal((await client.post(at, { name: "x", slug: "prod-2" })).status, 403);
      assert.equal((await client.delete(`${at}/${idOf("prod")}`)).status, 403);
    });

    it("get another slug only from who may do everything under both, or rights could be walked around", async () => {
      const project = await aProject(tenant);
      const at = `/api/v1/projects/${project.id}/environments`;
      const idOf = (slug: string) => project.environments.find((one) => one.slug === slug)?.id ?? "";
      const holding = async (rules: readonly Record<string, unknown>[]) => {
        const role = await aRole(tenant, project.id, rules);
        return (await anIdentity(tenant, house.base, project.id, { roles: [{ role }] })).client;
      };
      const mayEdit = { subject: "environments", action: "edit" };
      const reader = await holding([
        mayEdit,
        { subject: "secrets", action: "read", conditions: { environment: "dev" } },
      ]);
      assert.equal((await reader.patch(`${at}/${idOf("dev")}`, { slug: "old-dev" })).status, 403);
      assert.equal((await reader.patch(`${at}/${idOf("prod")}`, { slug: "prod-2" })).status, 403);
      assert.equal((await reader.patch(`${at}/${idOf("prod")}`, { name: "Production" })).status, 200);
      const denied = await anIdentity(tenant, house.base, project.id, {
        roles: [
          { role: "admin" },
          {
            role: await aRole(tenant, project.id, [
              { subject: "secrets", action: "read", inverted: true, conditions: { environment: "prod" } },
            ]),
          },
        ],
      });
      assert.equal((await denied.client.patch(`${at}/${idOf("prod")}`, { slug: "zzz" })).status, 403);
      assert.equal((await denied.client.patch(`${at}/${idOf("dev")}`, { slug: "prod-3" })).status, 200);
      assert.equal((await tenant.patch(`${at}/${idOf("prod")}`, { slug: "live" })).status, 200);
    });

    it("are changed under the slug that the caller was judged by, or not at all", async () => {
      const project = await aProject(tenant);
      const dev = project.environments.find((one) => one.slug === "dev")?.id ?? "";
      const role = await aRole(tenant, project.id, [
        { subject: "environments", action: ["edit", "delete"], conditions: { environment: "dev" } },
      ]);
      const { client } = await anIdentity(tenant, house.base, project.id, { roles: [{ role }] });
      // Two connections: what a transaction sees of other sessions does not change while it lasts.
      const [other, watch] = [await house.house.database.connect(), await house.house.database.connect()];
      try {
        await other.query("BEGIN");
        await other.query("UPDATE environments SET slug = 'closed' WHERE id = $1", [dev]);
        const at = `/api/v1/projects/${project.id}/environments/${dev}`;
        const answers = Promise.all([client.patch(at, { slug: "dev", name: "Mine" }), client.delete(at)]);
        const waiting = `SELECT count(*)::int AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
        while ((await watch.query<{ n: number }>(waiting)).rows[0]?.n !== 2)
          await new Promise((resolve) => setTimeout(resolve, 5));
        await other.query("COMMIT");
        assert.deepEqual(
          (await answers).map(({ status }) => status),
          [409, 409],
        );
        const { rows } = await other.query("SELECT slug, name FROM environments WHERE id = $1", [dev]);
        assert.deepEqual(rows, [{ slug: "closed", name: "Development" }]);
      } finally {
        await Promise.all([other.end(), watch.end()]);
      }
    });
  });
});
