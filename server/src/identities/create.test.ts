/** Operation 2, through the door: what is accepted, what is refused and in which words. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { aProject, anIdentity, aRole, unique } from "../../test/builders.ts";
import {
  clientOf,
  openTestHouse,
  type Answer,
  type Client,
  type Tenant,
  type TestHouse,
} from "../../test/harness.ts";
import { withClient } from "../../test/postgres.ts";
import { newId } from "../platform/ids.ts";

const TEN_FIELDS = [
  "activeLockoutAuthMethods",
  "authMethods",
  "createdAt",
  "hasDeleteProtection",
  "id",
  "metadata",
  "name",
  "orgId",
  "projectId",
  "updatedAt",
];
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

describe("creating an identity in a project", () => {
  let house: TestHouse;
  let tenant: Tenant;
  let project: { id: string; slug: string };
  before(async () => {
    house = await openTestHouse();
    tenant = await house.newTenant();
    project = await aProject(tenant);
  });
  after(() => house.close());

  const create = (body: unknown, client: Client = tenant, ref = project.id): Promise<Answer> =>
    client.post(`/api/v1/projects/${ref}/identities`, body);
  const pathsOf = (answer: Answer): string[] =>
    answer.body.message.map((issue: { path: unknown[] }) => issue.path.join("."));
  const rolesOf = async (identityId: string): Promise<Answer["body"]> =>
    (await tenant.get(`/api/v1/projects/${project.id}/memberships/identities/${identityId}`)).body
      .identityMembership.roles;

  it("answers 200 with all ten fields when only a name is given", async () => {
    const { status, body, headers } = await create({ name: "bot" });
    assert.equal(status, 200);
    assert.match(headers.get("content-type") ?? "", /^application\/json/);
    assert.deepEqual(Object.keys(body), ["identity"]);
    assert.deepEqual(Object.keys(body.identity).sort(), TEN_FIELDS);
    const { id, createdAt, updatedAt, ...rest } = body.identity;
    assert.match(id, UUID);
    assert.match(createdAt, ISO);
    assert.equal(updatedAt, createdAt);
    assert.deepEqual(rest, {
      name: "bot",
      orgId: tenant.orgId,
      projectId: project.id,
      hasDeleteProtection: false,
      activeLockoutAuthMethods: [],
      authMethods: [],
      metadata: [],
    });
  });

  it("answers the same from get and list as from create", async () => {
    const other = await aProject(tenant);
    const made = (
      await create(
        { name: "same", hasDeleteProtection: true, metadata: [{ key: "a", value: "1" }] },
        tenant,
        other.id,
      )
    ).body.identity;
    const got = (await tenant.get(`/api/v1/projects/${other.id}/identities/${made.id}`)).body;
    assert.deepEqual(got, { identity: made });
    assert.deepEqual((await tenant.get(`/api/v1/projects/${other.slug}/identities`)).body, {
      identities: [made],
      totalCount: 1,
    });
  });

  it("takes the project's slug as well as its id", async () => {
    const { status, body } = await create({ name: "by slug" }, tenant, project.slug);
    assert.equal(status, 200);
    assert.equal(body.identity.projectId, project.id);
  });

  it("keeps metadata in its order, repeated keys included, with an id each", async () => {
    const given = [
      { key: "z", value: "1" },
      { key: "a", value: "" },
      { key: "z", value: "2" },
      { key: 'é\n"', value: "ü".repeat(1020) },
    ];
    const { body } = await create({ name: "tagged", metadata: given });
    assert.deepEqual(
      body.identity.metadata.map(({ key, value }: { key: string; value: string }) => ({ key, value })),
      given,
    );
    const ids = body.identity.metadata.map((item: { id: string }) => item.id);
    assert.equal(new Set(ids).size, given.length);
    const read = (await tenant.get(`/api/v1/projects/${project.id}/identities/${body.identity.id}`)).body;
    assert.deepEqual(read.identity.metadata, body.identity.metadata);
  });

  it("trims the name and does not ask for it to be unique", async () => {
    const first = await create({ name: "  twin \t" });
    const second = await create({ name: "twin" });
    assert.equal(first.body.identity.name, "twin");
    assert.equal(second.status, 200);
    assert.notEqual(first.body.identity.id, second.body.identity.id);
  });

  it("takes every size up to its bound", async () => {
    const metadata = Array.from({ length: 100 }, (_, at) => ({
      key: `${at}`.padEnd(255, "k"),
      value: "v".repeat(1020),
    }));
    const { status, body } = await create({ name: "n".repeat(255), metadata });
    assert.equal(status, 200);
    assert.equal(body.identity.metadata.length, 100);
  });

  const REFUSED: readonly (readonly [string, unknown, string])[] = [
    ["no name", {}, "name"],
    ["an empty name", { name: "" }, "name"],
    ["a name of spaces", { name: "   " }, "name"],
    ["a name of 256", { name: "n".repeat(256) }, "name"],
    ["a number as name", { name: 7 }, "name"],
    ["null as name", { name: null }, "name"],
    ["a word as protection", { name: "x", hasDeleteProtection: "yes" }, "hasDeleteProtection"],
    [
      "101 metadata items",
      { name: "x", metadata: Array.from({ length: 101 }, () => ({ key: "k", value: "v" })) },
      "metadata",
    ],
    ["an empty key", { name: "x", metadata: [{ key: "", value: "v" }] }, "metadata.0.key"],
    ["a key of 256", { name: "x", metadata: [{ key: "k".repeat(256), value: "v" }] }, "metadata.0.key"],
    ["a value of 1021", { name: "x", metadata: [{ key: "k", value: "v".repeat(1021) }] }, "metadata.0.value"],
    ["a missing value", { name: "x", metadata: [{ key: "k" }] }, "metadata.0.value"],
    ["metadata that is no list", { name: "x", metadata: { key: "k", value: "v" } }, "metadata"],
    ["roles that are no list", { name: "x", roles: "admin" }, "roles"],
    ["a role without a name", { name: "x", roles: [{ isTemporary: false }] }, "roles.0.role"],
    [
      "a range without a unit",
      { name: "x", roles: [{ role: "viewer", isTemporary: true, temporaryRange: "10" }] },
      "roles.0.temporaryRange",
    ],
    [
      "a range of nothing",
      { name: "x", roles: [{ role: "viewer", isTemporary: true, temporaryRange: "0s" }] },
      "roles.0.temporaryRange",
    ],
    [
      "a range of ages",
      { name: "x", roles: [{ role: "viewer", isTemporary: true, temporaryRange: "999999w" }] },
      "roles.0.temporaryRange",
    ],
    [
      "an unknown mode",
      { name: "x", roles: [{ role: "viewer", isTemporary: true, temporaryMode: "absolute" }] },
      "roles.0.temporaryMode",
    ],
    [
      "a start that is no time",
      { name: "x", roles: [{ role: "viewer", isTemporary: true, temporaryAccessStartTime: "soon" }] },
      "roles.0.temporaryAccessStartTime",
    ],
    [
      "a start before time",
      {
        name: "x",
        roles: [{ role: "viewer", isTemporary: true, temporaryAccessStartTime: "0000-01-01T00:00:00Z" }],
      },
      "roles.0.temporaryAccessStartTime",
    ],
    [
      "a start after time",
      {
        name: "x",
        roles: [{ role: "viewer", isTemporary: true, temporaryAccessStartTime: "9999-12-31T23:59:59Z" }],
      },
      "roles.0.temporaryAccessStartTime",
    ],
    ["a NUL in the name", { name: "a\0b" }, "name"],
  ];
  for (const [what, body, path] of REFUSED) {
    it(`refuses ${what} with 422 and its place`, async () => {
      const answer = await create(body);
      assert.equal(answer.status, 422, JSON.stringify(answer.body));
      assert.equal(answer.body.error, "ValidationFailure");
      assert.deepEqual(Object.keys(answer.body).sort(), ["error", "message", "reqId", "statusCode"]);
      assert.ok(pathsOf(answer).includes(path), `${path} in ${JSON.stringify(answer.body.message)}`);
    });
  }

  it("lists everything that is wrong, not only the first thing", async () => {
    const answer = await create({
      name: "",
      hasDeleteProtection: 1,
      metadata: [{ key: "", value: 1 }],
      roles: [{}],
    });
    assert.deepEqual(pathsOf(answer).sort(), [
      "hasDeleteProtection",
      "metadata.0.key",
      "metadata.0.value",
      "name",
      "roles.0.role",
    ]);
  });

  it("answers 400 for malformed JSON, 415 for another type and 413 for more than a megabyte", async () => {
    const path = `/api/v1/projects/${project.id}/identities`;
    const malformed = await tenant.call("POST", path, { rawBody: '{"name":' });
    assert.deepEqual([malformed.status, malformed.body.error], [400, "BadRequest"]);
    const text = await tenant.call("POST", path, {
      rawBody: "name=x",
      headers: { "content-type": "text/plain" },
    });
    assert.deepEqual([text.status, text.body.error], [415, "UnsupportedMediaType"]);
    const form = await tenant.call("POST", path, {
      rawBody: "name=x",
      headers: { "content-type": "application/x-www-form-urlencoded" },
    });
    assert.equal(form.status, 415);
    const large = await tenant.call("POST", path, {
      rawBody: JSON.stringify({ name: "x", more: "y".repeat(1024 * 1024) }),
    });
    assert.deepEqual([large.status, large.body.error], [413, "PayloadTooLarge"]);
  });

  it("answers 401 without a token and 404 for an unknown project, before looking at rights", async () => {
    assert.equal((await create({ name: "x" }, house.anonymous)).status, 401);
    assert.equal((await create({ name: "x" }, tenant, newId())).status, 404);
    assert.equal((await create({ name: "x" }, tenant, "no-such-slug")).status, 404);
    assert.equal(
      (await create({ name: "" }, house.anonymous)).status,
      401,
      "authentication comes before validation",
    );
    assert.equal(
      (await create({ name: "" }, tenant, newId())).status,
      422,
      "validation comes before look-up",
    );
  });

  it("S-43 keeps a name with line breaks and escape codes inside its field", async () => {
    const name = 'x\r\n{"level":50}\u001b[31m\u2028';
    const { status, body } = await create({ name });
    assert.equal(status, 200);
    assert.equal(body.identity.name, name.trim());
  });

  it("S-31 ignores fields that are not the caller's to set, prototype keys included", async () => {
    const foreign = newId();
    const raw = `{"name":"mass","id":"${foreign}","orgId":"${foreign}","projectId":"${foreign}","isInstanceAdmin":true,"authMethods":["x"],
      "createdAt":"2000-01-01T00:00:00.000Z","role":"admin","__proto__":{"hasDeleteProtection":true,"roles":[{"role":"admin"}]},"constructor":{"prototype":{"a":1}}}`;
    const { status, body } = await tenant.call(
      "POST",
      `/api/v1/projects/${project.id}/identities?__proto__=a&__proto__=b&role=admin`,
      { rawBody: raw },
    );
    assert.equal(status, 200);
    assert.notEqual(body.identity.id, foreign);
    assert.deepEqual(
      [body.identity.orgId, body.identity.projectId, body.identity.hasDeleteProtection],
      [tenant.orgId, project.id, false],
    );
    assert.deepEqual(
      (await rolesOf(body.identity.id)).map((held: { role: string }) => held.role),
      ["no-access"],
    );
    assert.equal(({} as Record<string, unknown>)["a"], undefined);
  });

  describe("its roles", () => {
    it("are no-access when none are given", async () => {
      for (const body of [{ name: "x" }, { name: "x", roles: [] }]) {
        const { identity } = (await create(body)).body;
        const [role, ...others] = await rolesOf(identity.id);
        assert.deepEqual([role.role, role.isTemporary, others.length], ["no-access", false, 0]);
      }
    });

    it("take every built-in slug and custom roles of the project", async () => {
      const custom = await aRole(tenant, project.id, [{ subject: "secrets", action: "read" }]);
      const wanted = ["admin", "member", "viewer", "no-access", custom];
      const { status, body } = await create({ name: "many", roles: wanted.map((role) => ({ role })) });
      assert.equal(status, 200);
      const held = await rolesOf(body.identity.id);
      assert.deepEqual(held.map((r: { role: string }) => r.role).sort(), [
        "admin",
        "custom",
        "member",
        "no-access",
        "viewer",
      ]);
      assert.equal(held.find((r: { role: string }) => r.role === "custom").customRoleSlug, custom);
    });

    it("answer 404 for a custom role that is unknown or of another project", async () => {
      const elsewhere = await aProject(tenant);
      const custom = await aRole(tenant, elsewhere.id, [{ subject: "secrets", action: "read" }]);
      for (const role of ["no-such-role", custom, "custom", "__proto__", "constructor", "toString"]) {
        const answer = await create({ name: "x", roles: [{ role }] });
        assert.deepEqual([answer.status, answer.body.error], [404, "NotFound"], role);
      }
    });

    it("S-20 are compared exactly: nothing that looks like admin is admin", async () => {
      const lookalikes = [
        "Admin",
        "ADMIN",
        " admin",
        "admin ",
        "admin\u200b",
        "\u0430dmin",
        "ａｄｍｉｎ",
        "admin\u0000",
        "adm\u0131n",
        "root",
        "Root",
        "owner",
        "admin,viewer",
      ];
      for (const role of lookalikes) {
        const answer = await create({ name: "x", roles: [{ role }] });
        assert.ok([404, 422].includes(answer.status), `${JSON.stringify(role)} answered ${answer.status}`);
      }
    });

    it("ignore the zero values that clients send with a permanent role", async () => {
      const zero = {
        isTemporary: false,
        temporaryMode: "",
        temporaryRange: "",
        temporaryAccessStartTime: "0001-01-01T00:00:00Z",
      };
      const nulls = {
        isTemporary: false,
        temporaryMode: null,
        temporaryRange: null,
        temporaryAccessStartTime: null,
      };
      for (const fields of [zero, nulls]) {
        const { status, body } = await create({ name: "terraform", roles: [{ role: "viewer", ...fields }] });
        assert.equal(status, 200);
        const [held] = await rolesOf(body.identity.id);
        assert.deepEqual(
          [
            held.role,
            held.isTemporary,
            held.temporaryMode,
            held.temporaryRange,
            held.temporaryAccessStartTime,
            held.temporaryAccessEndTime,
          ],
          ["viewer", false, null, null, null, null],
        );
      }
    });

    it("last one hour from now when temporary without further words", async () => {
      const { body } = await create({ name: "temp", roles: [{ role: "viewer", isTemporary: true }] });
      const [held] = await rolesOf(body.identity.id);
      assert.deepEqual([held.isTemporary, held.temporaryMode, held.temporaryRange], [true, "relative", "1h"]);
      assert.equal(
        Date.parse(held.temporaryAccessEndTime) - Date.parse(held.temporaryAccessStartTime),
        3_600_000,
      );
      assert.ok(Math.abs(Date.parse(held.temporaryAccessStartTime) - house.clock.millis()) < 60_000);
    });

    for (const [range, seconds] of [
      ["30s", 30],
      ["15m", 900],
      ["1h", 3600],
      ["7d", 604_800],
      ["2w", 1_209_600],
    ] as const) {
      it(`last ${range} when that is asked for`, async () => {
        const start = "2031-02-03T04:05:06.789+02:00";
        const { body } = await create({
          name: "temp",
          roles: [
            {
              role: "viewer",
              isTemporary: true,
              temporaryMode: "relative",
              temporaryRange: range,
              temporaryAccessStartTime: start,
            },
          ],
        });
        const [held] = await rolesOf(body.identity.id);
        assert.equal(held.temporaryAccessStartTime, "2031-02-03T02:05:06.789Z");
        assert.equal(Date.parse(held.temporaryAccessEndTime), Date.parse(start) + seconds * 1000);
      });
    }

    it("are in force from their start until their end, on every node", async () => {
      const second = await house.openNode();
      const start = new Date(house.clock.millis() + 3_600_000);
      const bot = await anIdentity(tenant, house.base, project.id, {
        roles: [
          {
            role: "viewer",
            isTemporary: true,
            temporaryRange: "30m",
            temporaryAccessStartTime: start.toISOString(),
          },
        ],
      });
      const nodes = [bot.client, clientOf(second.base, bot.token)];
      const statuses = async () =>
        Promise.all(
          nodes.map(async (node) => (await node.get(`/api/v1/projects/${project.id}/roles`)).status),
        );
      assert.deepEqual(await statuses(), [403, 403], "before its start");
      house.clock.set(new Date(start.getTime() - 2000));
      assert.deepEqual(await statuses(), [403, 403], "two seconds before its start");
      house.clock.set(new Date(start.getTime() + 1));
      assert.deepEqual(await statuses(), [200, 200], "right after its start");
      house.clock.set(new Date(start.getTime() + 30 * 60_000 - 2000));
      assert.deepEqual(await statuses(), [200, 200], "two seconds before its end");
      house.clock.set(new Date(start.getTime() + 30 * 60_000 + 1));
      assert.deepEqual(await statuses(), [403, 403], "right after its end");
    });

    it("that have ended cannot be handed on", async () => {
      const bot = await anIdentity(tenant, house.base, project.id, {
        roles: [{ role: "admin", isTemporary: true, temporaryRange: "1h" }],
      });
      const forAWhile = { role: "viewer", isTemporary: true, temporaryRange: "30m" };
      const make = () => create({ name: "child", roles: [forAWhile] }, bot.client);
      assert.equal((await make()).status, 200);
      house.clock.advance(3_600_001);
      assert.equal((await make()).status, 403);
    });
  });

  describe("its permission", () => {
    const withRole = async (permissions: readonly unknown[]): Promise<Client> => {
      const slug = await aRole(tenant, project.id, permissions);
      return (await anIdentity(tenant, house.base, project.id, { roles: [{ role: slug }] })).client;
    };

    it("is create on identity: without it 403 and the rules that were looked at", async () => {
      const rule = {
        subject: "identity",
        action: ["create"],
        inverted: true,
        conditions: { identityId: { $ne: "nobody" } },
      };
      const weak = await withRole([{ subject: "identity", action: ["read"] }, rule]);
      const answer = await create({ name: "x" }, weak);
      assert.deepEqual([answer.status, answer.body.error], [403, "PermissionDenied"]);
      assert.deepEqual(answer.body.details, [rule]);
      const none = await create({ name: "x" }, await withRole([{ subject: "secrets", action: "read" }]));
      assert.deepEqual([none.status, none.body.details], [403, []]);
    });

    it("is enough for an identity without rights", async () => {
      const weak = await withRole([{ subject: "identity", action: ["create"] }]);
      assert.equal((await create({ name: "x" }, weak)).status, 200);
      assert.equal((await create({ name: "x", roles: [{ role: "no-access" }] }, weak)).status, 200);
    });

    it("is not given by a rule about one particular identity", async () => {
      const weak = await withRole([
        { subject: "identity", action: ["create"], conditions: { identityId: { $eq: newId() } } },
      ]);
      assert.equal((await create({ name: "x" }, weak)).status, 403);
    });

    it("needs assign-role for every other role", async () => {
      const weak = await withRole([
        { subject: "identity", action: ["create"] },
        { subject: "secrets", action: "read" },
      ]);
      const slug = await aRole(tenant, project.id, [{ subject: "secrets", action: "read" }]);
      const answer = await create({ name: "x", roles: [{ role: slug }] }, weak);
      assert.deepEqual([answer.status, answer.body.error], [403, "PermissionDenied"]);
      assert.ok(Array.isArray(answer.body.details));
    });

    it("looks at the assignable role by its exact slug", async () => {
      const [one, two] = [
        await aRole(tenant, project.id, [{ subject: "tags", action: "read" }]),
        await aRole(tenant, project.id, [{ subject: "tags", action: "read" }]),
      ];
      const weak = await withRole([
        { subject: "identity", action: ["create"] },
        { subject: "tags", action: "read" },
        { subject: "identity", action: ["assign-role"], conditions: { assignableRole: { $in: [one] } } },
      ]);
      assert.equal((await create({ name: "x", roles: [{ role: one }] }, weak)).status, 200);
      assert.equal(
        (await create({ name: "x", roles: [{ role: two }] }, weak)).body.error,
        "PermissionDenied",
      );
      assert.equal(
        (await create({ name: "x", roles: [{ role: one }, { role: "viewer" }] }, weak)).body.error,
        "PermissionDenied",
      );
    });

    it("never reaches beyond the caller's own rights: 403 with what is missing", async () => {
      const weak = await withRole([
        { subject: "identity", action: ["create", "assign-role"] },
        { subject: "tags", action: "read" },
      ]);
      const answer = await create({ name: "x", roles: [{ role: "admin" }] }, weak);
      assert.deepEqual([answer.status, answer.body.error], [403, "PermissionBoundaryError"]);
      assert.deepEqual(answer.body.details, { missingPermissions: [{ action: "manage", subject: "all" }] });
      const dev = { environment: { $eq: "dev" } };
      const slug = await aRole(tenant, project.id, [
        { subject: "secrets", action: ["readValue"], conditions: dev },
        { subject: "tags", action: "read" },
      ]);
      const partly = await create({ name: "x", roles: [{ role: slug }] }, weak);
      assert.deepEqual(partly.body.details, {
        missingPermissions: [{ action: "readValue", subject: "secrets", conditions: dev }],
      });
    });
  });

  it("is one transaction: when its last step fails, nothing is left behind", async () => {
    const onDatabase = <T>(work: Parameters<typeof withClient<T>>[2]) =>
      withClient(house.database.server, house.database.connection.database, work);
    const name = unique("doomed");
    await onDatabase(async (client) => {
      await client.query(`CREATE FUNCTION refuse_audit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.event = 'create-identity' THEN RAISE EXCEPTION 'the audit trail is broken'; END IF; RETURN NEW; END $$`);
      await client.query(
        `CREATE TRIGGER refuse_audit BEFORE INSERT ON audit_log FOR EACH ROW EXECUTE FUNCTION refuse_audit()`,
      );
    });
    const count = () =>
      onDatabase(
        async (client) =>
          (
            await client.query<{ counts: string }>(
              `SELECT concat_ws(',', (SELECT count(*) FROM identities), (SELECT count(*) FROM memberships), (SELECT count(*) FROM membership_roles), (SELECT count(*) FROM audit_log)) AS counts`,
            )
          ).rows[0]?.counts,
      );
    const before = await count();
    const answer = await create({ name, metadata: [{ key: "k", value: "v" }], roles: [{ role: "viewer" }] });
    const behind = await count();
    await onDatabase((client) => client.query("DROP TRIGGER refuse_audit ON audit_log"));
    assert.deepEqual([answer.status, answer.body.error], [500, "InternalServerError"]);
    assert.doesNotMatch(JSON.stringify(answer.body), /audit trail|broken|stack|SELECT|INSERT/);
    assert.equal(behind, before);
    assert.equal((await create({ name })).status, 200, "and the next one works");
  });

  it("is written down: who, what, where, under the request's id", async () => {
    const { body, headers } = await create({ name: "noted", roles: [{ role: "viewer" }] });
    const rows = await withClient(
      house.database.server,
      house.database.connection.database,
      async (client) =>
        (await client.query("SELECT * FROM audit_log WHERE request_id = $1", [headers.get("x-request-id")]))
          .rows,
    );
    assert.equal(rows.length, 1);
    const [row] = rows;
    assert.deepEqual(
      [row.event, row.org_id, row.project_id, row.actor_type, row.actor_id, row.ip, row.metadata],
      [
        "create-identity",
        tenant.orgId,
        project.id,
        "identity",
        tenant.identityId,
        "127.0.0.1",
        { identityId: body.identity.id, name: "noted", roles: ["viewer"] },
      ],
    );
  });

  it("answers 404, not a bug, when the project is deleted at the same moment", async () => {
    for (let round = 0; round < 5; round += 1) {
      const doomed = await aProject(tenant);
      const answers = await Promise.all([
        ...Array.from({ length: 6 }, () => create({ name: "x" }, tenant, doomed.id)),
        tenant.delete(`/api/v1/projects/${doomed.id}`),
        ...Array.from({ length: 6 }, () => create({ name: "x" }, tenant, doomed.id)),
      ]);
      for (const { status } of answers) assert.ok([200, 403, 404].includes(status), `answered ${status}`);
    }
  });
});
