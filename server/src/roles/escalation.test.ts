/** S-21: a caller who may create, edit and assign roles can still never get more rights than before. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import fc from "fast-check";
import { aProject, anIdentity, aRole, unique } from "../../test/builders.ts";
import { openTestHouse, type Answer, type Client, type Tenant, type TestHouse } from "../../test/harness.ts";
import { ALL_PAIRS, compileRules, type Ability, type Rule } from "../permissions/index.ts";
import { newId } from "../platform/ids.ts";
import { sized } from "../../test/full-size.ts";

const DEV = { environment: { $eq: "dev" } };
/** May do everything to roles and identities, and little else. */
const CLERK: readonly Rule[] = [
  { subject: "role", action: ["read", "create", "edit", "delete"] },
  {
    subject: "identity",
    action: [
      "read",
      "create",
      "edit",
      "delete",
      "assign-role",
      "edit-auth",
      "revoke-auth",
      "create-token",
      "get-token",
      "delete-token",
    ],
  },
  { subject: "secrets", action: ["readValue", "describeSecret"], conditions: DEV },
];

describe("S-21 a clerk with all rights over roles and identities", () => {
  let house: TestHouse;
  let tenant: Tenant;
  let project: { id: string };
  let clerk: { id: string; client: Client };
  let clerkRole: string;
  before(async () => {
    house = await openTestHouse();
    tenant = await house.newTenant();
    project = await aProject(tenant);
    clerkRole = await aRole(tenant, project.id, CLERK);
    clerk = await anIdentity(tenant, house.base, project.id, { roles: [{ role: clerkRole }] });
  });
  after(() => house.close());

  const inProject = (more: string) => `/api/v1/projects/${project.id}${more}`;
  const roleId = async (slug: string): Promise<string> =>
    (await tenant.get(inProject(`/roles/slug/${slug}`))).body.role.id;
  const overreach = ({ status, body }: Answer) => {
    assert.deepEqual([status, body.error], [403, "PermissionBoundaryError"], JSON.stringify(body));
    assert.ok(body.details.missingPermissions.length > 0);
  };
  const newIdentity = async (roles: unknown[]): Promise<string> =>
    (await tenant.post(inProject("/identities"), { name: unique("bot"), roles })).body.identity.id;

  it("cannot write a role that holds more", async () => {
    for (const rule of [
      { subject: "secrets", action: "readValue" },
      { subject: "secrets", action: "readValue", conditions: { environment: { $in: ["dev", "prod"] } } },
      { subject: "secrets", action: "readValue", conditions: { environment: { $glob: "d*" } } },
      { subject: "secrets", action: "readValue", conditions: { environment: { $ne: "prod" } } },
      { subject: "secrets", action: "readValue", conditions: { secretPath: { $eq: "/" } } },
      { subject: "secrets", action: "delete", conditions: DEV },
      { subject: "workspace", action: "delete" },
      { subject: ["role", "member"], action: "read" },
    ]) {
      overreach(
        await clerk.client.post(inProject("/roles"), {
          slug: unique("role"),
          name: "x",
          permissions: [rule],
        }),
      );
    }
    const within = [
      { subject: "secrets", action: "readValue", conditions: { ...DEV, secretPath: { $glob: "/a/**" } } },
    ];
    assert.equal(
      (await clerk.client.post(inProject("/roles"), { slug: unique("role"), name: "x", permissions: within }))
        .status,
      200,
    );
  });

  it("cannot raise its own role, nor one it has just written", async () => {
    overreach(
      await clerk.client.patch(inProject(`/roles/${await roleId(clerkRole)}`), {
        permissions: [...CLERK, { subject: "workspace", action: "delete" }],
      }),
    );
    const own = (
      await clerk.client.post(inProject("/roles"), { slug: unique("role"), name: "x", permissions: [] })
    ).body.role;
    overreach(
      await clerk.client.patch(inProject(`/roles/${own.id}`), {
        permissions: [{ subject: "secrets", action: "edit" }],
      }),
    );
  });

  it("cannot assign a stronger role, to itself or to anyone, in any way", async () => {
    const strong = await aRole(tenant, project.id, [{ subject: "secrets", action: "readValue" }]);
    const other = await newIdentity([]);
    for (const role of ["admin", "member", "viewer", strong]) {
      overreach(await clerk.client.post(inProject("/identities"), { name: "x", roles: [{ role }] }));
      overreach(
        await clerk.client.post(inProject("/identities"), {
          name: "x",
          roles: [{ role, isTemporary: true, temporaryRange: "1s" }],
        }),
      );
      overreach(
        await clerk.client.patch(inProject(`/memberships/identities/${clerk.id}`), {
          roles: [{ role: clerkRole }, { role }],
        }),
      );
      overreach(
        await clerk.client.patch(inProject(`/memberships/identities/${other}`), { roles: [{ role }] }),
      );
    }
  });

  it("cannot get hold of a stronger identity's credentials", async () => {
    const boss = await newIdentity([{ role: "admin" }]);
    const universal = `/api/v1/auth/universal-auth/identities/${boss}`;
    const byToken = `/api/v1/auth/token-auth/identities/${boss}`;
    overreach(await clerk.client.post(universal, {}));
    overreach(await clerk.client.post(byToken, {}));
    await tenant.post(universal, {});
    await tenant.post(byToken, {});
    overreach(await clerk.client.post(`${universal}/client-secrets`, {}));
    overreach(await clerk.client.post(`${byToken}/tokens`, {}));
    overreach(await clerk.client.patch(universal, { accessTokenTrustedIps: [{ ipAddress: "0.0.0.0/0" }] }));
    overreach(await clerk.client.patch(byToken, { accessTokenTTL: 1 }));
    overreach(await clerk.client.post(`${universal}/clear-lockouts`));
    const peer = await newIdentity([{ role: clerkRole }]);
    assert.equal(
      (await clerk.client.post(`/api/v1/auth/token-auth/identities/${peer}`, {})).status,
      200,
      "an equal's it may",
    );
  });

  it("cannot weaken a stronger identity or role, to take hold of it and wait for its rights to be given back", async () => {
    const boss = await newIdentity([{ role: "admin" }]);
    const membership = inProject(`/memberships/identities/${boss}`);
    overreach(await clerk.client.patch(membership, { roles: [{ role: "no-access" }] }));
    const strong = await aRole(tenant, project.id, [{ subject: "secrets", action: "readValue" }]);
    const path = inProject(`/roles/${await roleId(strong)}`);
    overreach(await clerk.client.patch(path, { permissions: [] }));
    overreach(await clerk.client.patch(path, { slug: unique("other") }));
    overreach(await clerk.client.delete(path));
    assert.equal((await clerk.client.patch(path, { name: "Any name" })).status, 200);
    const { permissions } = (await tenant.get(inProject(`/roles/slug/${strong}`))).body.role;
    assert.equal(permissions.length, 1);
    const peer = await newIdentity([{ role: clerkRole }]);
    const ofPeer = inProject(`/memberships/identities/${peer}`);
    assert.equal((await clerk.client.patch(ofPeer, { roles: [{ role: "no-access" }] })).status, 200);
  });

  it("may send back the rules it was shown, denials and all", async () => {
    const slug = await aRole(tenant, project.id, [
      { subject: "secrets", action: ["readValue"], conditions: DEV },
      { subject: "certificates", action: ["delete"], inverted: true },
    ]);
    const { id, permissions } = (await tenant.get(inProject(`/roles/slug/${slug}`))).body.role;
    const answer = await clerk.client.patch(inProject(`/roles/${id}`), { permissions });
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
  });

  it("cannot get around a denial, or keep what was ended, by spelling an id in capitals", async () => {
    const kept = await newIdentity([{ role: "no-access" }]);
    const guarded = await aRole(tenant, project.id, [
      ...CLERK,
      {
        subject: "identity",
        action: ["edit", "edit-auth"],
        inverted: true,
        conditions: { identityId: kept.toUpperCase() },
      },
    ]);
    const { client } = await anIdentity(tenant, house.base, project.id, { roles: [{ role: guarded }] });
    for (const id of [kept, kept.toUpperCase()]) {
      assert.equal((await client.post(`/api/v1/auth/token-auth/identities/${id}`, {})).status, 403, id);
      assert.equal((await client.patch(inProject(`/identities/${id}`), { name: "x" })).status, 403, id);
    }
    const ended = await anIdentity(tenant, house.base, project.id, { roles: [{ role: "member" }] });
    assert.equal((await ended.client.get(inProject("/identities"))).status, 200);
    const gone = inProject(`/identities/${ended.id.toUpperCase()}`);
    assert.equal((await tenant.delete(gone)).status, 200);
    assert.equal((await ended.client.get(inProject("/identities"))).status, 401);
  });

  it("cannot get hold of one whose stronger role has yet to begin", async () => {
    const later = new Date(house.clock.millis() + 86_400_000).toISOString();
    const boss = await newIdentity([{ role: "admin", isTemporary: true, temporaryAccessStartTime: later }]);
    overreach(await clerk.client.post(`/api/v1/auth/token-auth/identities/${boss}`, {}));
    const spent = await newIdentity([{ role: "admin", isTemporary: true, temporaryRange: "1s" }]);
    house.clock.advance(2000);
    assert.equal(
      (await clerk.client.post(`/api/v1/auth/token-auth/identities/${spent}`, {})).status,
      200,
      "what has ended is no concern",
    );
  });

  it("cannot lift a denial that binds it, by editing or deleting the role that denies", async () => {
    const allow = [...CLERK, { subject: "secrets", action: "readValue" }];
    const denial = {
      subject: "secrets",
      action: "readValue",
      inverted: true,
      conditions: { environment: { $eq: "prod" } },
    };
    const [allows, denies] = [
      await aRole(tenant, project.id, allow),
      await aRole(tenant, project.id, [denial]),
    ];
    const bound = await anIdentity(tenant, house.base, project.id, {
      roles: [{ role: allows }, { role: denies }],
    });
    const path = inProject(`/roles/${await roleId(denies)}`);
    overreach(await bound.client.patch(path, { permissions: [] }));
    overreach(
      await bound.client.patch(path, {
        permissions: [{ ...denial, conditions: { environment: { $eq: "staging" } } }],
      }),
    );
    overreach(await bound.client.patch(path, { permissions: [{ ...denial, inverted: false }] }));
    overreach(await bound.client.delete(path));
    overreach(
      await bound.client.patch(inProject(`/memberships/identities/${bound.id}`), {
        roles: [{ role: allows }],
      }),
    );
    assert.equal(
      (await bound.client.patch(path, { name: "renamed", permissions: [denial] })).status,
      200,
      "keeping it is fine",
    );
    assert.equal((await tenant.delete(path)).status, 200, "who holds all may");
  });

  it("cannot reach into the organisation, or into another project", async () => {
    const elsewhere = await aProject(tenant);
    const { client } = clerk;
    for (const answer of [
      await client.post("/api/v1/identities", { name: "x" }),
      await client.post("/api/v1/organization/roles", { slug: "x", name: "x", permissions: [] }),
      await client.post("/api/v1/projects", { projectName: "x" }),
      await client.post(`/api/v1/projects/${elsewhere.id}/identities`, { name: "x" }),
      await client.get(`/api/v1/projects/${elsewhere.id}`),
      await client.post("/api/v1/admin/organizations", { name: "x" }),
      await client.patch("/api/v1/organization", { name: "x" }),
      await client.post(`/api/v1/auth/token-auth/identities/${tenant.identityId}/tokens`, {}),
    ]) {
      assert.equal(answer.status, 403, JSON.stringify(answer.body));
    }
  });

  it("an organisation's admin is no instance admin, and cannot take an instance admin's credentials", async () => {
    const { identity } = (
      await house.owner.post("/api/v1/identities", { name: unique("admin"), role: "admin" })
    ).body;
    await house.owner.post(`/api/v1/auth/token-auth/identities/${identity.id}`, {});
    const client = house.as(
      (await house.owner.post(`/api/v1/auth/token-auth/identities/${identity.id}/tokens`, {})).body
        .accessToken,
    );
    assert.equal((await client.post("/api/v1/admin/organizations", { name: "x" })).status, 403);
    assert.equal(
      (await client.post(`/api/v1/auth/token-auth/identities/${house.owner.identityId}/tokens`, {})).status,
      403,
    );
    assert.equal(
      (await client.post(`/api/v1/auth/universal-auth/identities/${house.owner.identityId}`, {})).status,
      403,
    );
  });

  it("no sequence of calls lets a weak caller's rights, or those of anyone it can speak for, grow", async () => {
    const rulesHeld = async (client: Tenant, identityId: string): Promise<Rule[]> => {
      const { roles } = (await client.get(inProject(`/memberships/identities/${identityId}`))).body
        .identityMembership;
      const found: Rule[][] = [];
      for (const { role, customRoleSlug } of roles)
        found.push(
          (await client.get(inProject(`/roles/slug/${customRoleSlug ?? role}`))).body.role.permissions,
        );
      return found.flat();
    };
    const samples = [
      undefined,
      { environment: "dev", secretPath: "/" },
      { environment: "prod", secretPath: "/" },
    ];
    const powers = (ability: Ability): Set<string> =>
      new Set(
        ALL_PAIRS.flatMap(({ subject, action }) =>
          samples
            .filter((attributes) => ability.can(action, subject, attributes))
            .map((attributes) => `${action} ${subject} ${attributes?.environment ?? "at all"}`),
        ),
      );

    const rule = fc.record({
      subject: fc.constantFrom("secrets", "role", "identity", "member", "workspace", "environments"),
      action: fc.constantFrom("read", "create", "edit", "delete", "assign-role"),
      inverted: fc.boolean(),
      conditions: fc.constantFrom(
        undefined,
        undefined,
        DEV,
        { environment: { $ne: "dev" } },
        { environment: { $glob: "*" } },
      ),
    });
    const pick = fc.nat({ max: 50 });
    const move = fc.oneof(
      fc.record({
        kind: fc.constant("create-role" as const),
        rules: fc.array(rule, { maxLength: 3 }),
        at: pick,
      }),
      fc.record({
        kind: fc.constant("edit-role" as const),
        rules: fc.array(rule, { maxLength: 3 }),
        at: pick,
      }),
      fc.record({ kind: fc.constant("delete-role" as const), rules: fc.constant([]), at: pick }),
      fc.record({ kind: fc.constant("assign" as const), rules: fc.constant([]), at: pick, role: pick }),
      fc.record({ kind: fc.constant("drop-own" as const), rules: fc.constant([]), at: pick }),
      fc.record({ kind: fc.constant("create-identity" as const), rules: fc.constant([]), at: pick }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(move, { minLength: 20, maxLength: 20 }), async (moves) => {
        const base: Rule[] = [
          ...CLERK,
          { subject: "secrets", action: "readValue" },
          { subject: "secrets", action: "edit" },
        ];
        const denial: Rule = {
          subject: "secrets",
          action: ["readValue", "edit"],
          inverted: true,
          conditions: { environment: { $eq: "prod" } },
        };
        const [allows, denies] = [
          await aRole(tenant, project.id, base),
          await aRole(tenant, project.id, [denial]),
        ];
        const weak = await anIdentity(tenant, house.base, project.id, {
          roles: [{ role: allows }, { role: denies }],
        });
        const before = powers(compileRules(await rulesHeld(tenant, weak.id)));
        const speaksFor = [weak.id];
        const slugs = [allows, denies, "admin", "viewer"];
        const choose = <T>(options: readonly T[], index: number): T => options[index % options.length] as T;
        const idOf = async (slug: string): Promise<string> =>
          (await tenant.get(inProject(`/roles/slug/${slug}`))).body.role?.id ?? newId();
        for (const step of moves) {
          const slug = choose(slugs, step.at);
          if (step.kind === "create-role") {
            const fresh = unique("role");
            if (
              (
                await weak.client.post(inProject("/roles"), {
                  slug: fresh,
                  name: "x",
                  permissions: step.rules,
                })
              ).status === 200
            )
              slugs.push(fresh);
          } else if (step.kind === "edit-role")
            await weak.client.patch(inProject(`/roles/${await idOf(slug)}`), { permissions: step.rules });
          else if (step.kind === "delete-role")
            await weak.client.delete(inProject(`/roles/${await idOf(slug)}`));
          else if (step.kind === "assign") {
            await weak.client.patch(inProject(`/memberships/identities/${choose(speaksFor, step.at)}`), {
              roles: [{ role: choose(slugs, step.role) }, { role: slug }],
            });
          } else if (step.kind === "drop-own")
            await weak.client.patch(inProject(`/memberships/identities/${weak.id}`), {
              roles: [{ role: slug }],
            });
          else {
            const made = await weak.client.post(inProject("/identities"), {
              name: "child",
              roles: [{ role: slug }],
            });
            if (made.status === 200) speaksFor.push(made.body.identity.id);
          }
        }
        for (const identityId of speaksFor) {
          const gained = [...powers(compileRules(await rulesHeld(tenant, identityId)))].filter(
            (power) => !before.has(power),
          );
          assert.deepEqual(gained, [], `gained by ${identityId === weak.id ? "the caller" : "its child"}`);
        }
      }),
      { numRuns: sized(3, 10) },
    );
  });
});
