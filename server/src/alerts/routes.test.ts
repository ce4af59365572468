import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { aProject, anIdentity } from "../../test/builders.ts";
import { aRoot } from "../../test/certificates.ts";
import { openTestHouse, type Tenant, type TestHouse } from "../../test/harness.ts";
import { inventory, openReceiver, type Receiver } from "../../test/alert-receiver.ts";

const PATH = "/api/v1/cert-manager/alerts";
const KEY = "0123456789abcdef0123456789abcdef";
const email = { config: { recipients: ["ops@example.com"] } };
const DAY = 86_400_000;

let house: TestHouse;
let owner: Tenant;
let receiver: Receiver;
let projectId: string;

before(async () => {
  house = await openTestHouse({ env: { KEYWARD_ALLOW_PRIVATE_TARGETS: "127.0.0.0/8" } });
  owner = house.owner;
  receiver = await openReceiver();
  projectId = (await aProject(owner, { type: "cert-manager" })).id;
});
after(async () => {
  await receiver.close();
  await house.close();
});

const minimal = () => ({ name: "an alert", eventType: "expiration", filters: [], channels: [email] });
const create = async (more: Record<string, unknown> = {}) => {
  const made = await owner.post(PATH, { ...minimal(), projectId, ...more });
  assert.equal(made.status, 200, JSON.stringify(made.body));
  return made.body.alert;
};

describe("creating an alert", () => {
  test("what the seed shows is enough, and every field of the answer has the type it gives", async () => {
    const made = await owner.post(PATH, {
      name: "Alert",
      eventType: "expiration",
      filters: [{ value: "example.com" }],
      channels: [{ config: { recipients: ["a@example.com"] }, id: randomUUID(), enabled: true }],
    });
    assert.equal(made.status, 200, JSON.stringify(made.body));
    const { alert } = made.body;
    assert.deepEqual(Object.keys(made.body), ["alert"]);
    assert.deepEqual(Object.keys(alert).sort(), [
      "alertBefore",
      "channels",
      "createdAt",
      "description",
      "enabled",
      "eventType",
      "filters",
      "id",
      "name",
      "notificationConfig",
      "projectId",
      "updatedAt",
    ]);
    assert.deepEqual(
      {
        name: alert.name,
        description: alert.description,
        eventType: alert.eventType,
        alertBefore: alert.alertBefore,
        enabled: alert.enabled,
        notificationConfig: alert.notificationConfig,
        filters: alert.filters,
      },
      {
        name: "Alert",
        description: "",
        eventType: "expiration",
        alertBefore: "30d",
        enabled: true,
        notificationConfig: { enableDailyNotification: false },
        filters: [{ field: "any", operator: "contains", value: "example.com" }],
      },
    );
    const [channel] = alert.channels;
    assert.deepEqual(Object.keys(channel).sort(), [
      "channelType",
      "config",
      "createdAt",
      "enabled",
      "id",
      "updatedAt",
    ]);
    assert.equal(channel.channelType, "email");
    assert.deepEqual(channel.config, { recipients: ["a@example.com"] });
    assert.match(alert.createdAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  });

  test("without any certificate project one is made, once, and used from then on", async () => {
    const tenant = await house.newTenant();
    const made = await Promise.all([1, 2, 3].map(() => tenant.post(PATH, minimal())));
    assert.deepEqual(
      made.map((one) => one.status),
      [200, 200, 200],
    );
    assert.equal(new Set(made.map((one) => one.body.alert.projectId)).size, 1);
    const { body } = await tenant.get("/api/v1/projects?type=cert-manager");
    assert.equal(body.projects.length, 1);
  });

  test("an alert that names no project lands where the certificates are, whatever that project's type", async () => {
    const tenant = await house.newTenant();
    await aProject(tenant, { type: "cert-manager" });
    const [older, busy] = [await aProject(tenant), await aProject(tenant)];
    await aRoot(tenant, older.id);
    house.clock.advance(1000);
    const notBefore = house.clock.now();
    await inventory(house.house.database, tenant.orgId).issue({
      projectId: busy.id,
      notBefore,
      notAfter: new Date(notBefore.getTime() + 90 * DAY),
    });
    const made = await tenant.post(PATH, minimal());
    assert.equal(made.status, 200, JSON.stringify(made.body));
    assert.equal(made.body.alert.projectId, busy.id);
  });

  test("a project that only bears the name of the certificate project does not stand in the way", async () => {
    const tenant = await house.newTenant();
    const taken = await aProject(tenant, { slug: "certificates" });
    const made = await Promise.all([1, 2, 3].map(() => tenant.post(PATH, minimal())));
    assert.deepEqual(
      made.map((one) => one.status),
      [200, 200, 200],
    );
    const places = new Set(made.map((one) => one.body.alert.projectId));
    assert.deepEqual([places.size, places.has(taken.id)], [1, false]);
  });

  test("a channel's kind is inferred from its settings, and secrets are never answered", async () => {
    const alert = await create({
      channels: [
        { config: { url: "https://hooks.example.com/in", signingSecret: "sesame" } },
        { config: { url: "https://hooks.example.com/in" }, enabled: false },
        { config: { webhookUrl: "https://hooks.slack.com/services/T000/B000/abcdefgh" } },
        { config: { integrationKey: KEY } },
        { channelType: "email", config: { recipients: ["x@example.com", "y@example.org"] } },
      ],
    });
    assert.deepEqual(
      alert.channels.map((channel: { channelType: string }) => channel.channelType),
      ["webhook", "webhook", "slack", "pagerduty", "email"],
    );
    assert.deepEqual(
      alert.channels.map((channel: { config: unknown }) => channel.config),
      [
        { url: "https://hooks.example.com/in", hasSigningSecret: true },
        { url: "https://hooks.example.com/in", hasSigningSecret: false },
        { webhookUrl: "https://hooks.slack.com/***********************efgh" },
        { integrationKey: `${"*".repeat(28)}cdef` },
        { recipients: ["x@example.com", "y@example.org"] },
      ],
    );
    assert.equal(alert.channels[1].enabled, false);
    const again = await owner.get(`${PATH}/${alert.id}`);
    assert.deepEqual(again.body.alert.channels, alert.channels);
    const everything = JSON.stringify([alert, again.body]);
    for (const secret of ["sesame", "abcdefgh", KEY]) assert.ok(!everything.includes(secret));
    const dump = await house.house.database.read((q) =>
      q.rows<{ text: string }>({
        name: undefined,
        isSlow: true,
        text: "SELECT encode(settings, 'escape') AS text FROM alert_channels",
      }),
    );
    for (const secret of ["sesame", "abcdefgh", KEY, "example"])
      assert.ok(!dump.some((row) => row.text.includes(secret)), secret);
  });

  test("names may hold anything but NUL, and need not be unique", async () => {
    for (const name of ["x".repeat(255), 'a\r\nb\u2028"<script>', "Ünïcödé 🎉", " "])
      assert.equal((await create({ name })).name, name);
  });

  test("alertBefore belongs to expiration alone", async () => {
    for (const before of ["1h", "9999d", "2w", "3m", "1y", "007d"])
      assert.equal((await create({ alertBefore: before })).alertBefore, before);
    assert.equal((await create({ alertBefore: "" })).alertBefore, "30d");
    for (const eventType of ["renewal", "issuance", "revocation", "renewal-failed"])
      assert.equal((await create({ eventType, alertBefore: "7d" })).alertBefore, "");
  });

  test("notificationConfig may be null and is answered as an object", async () => {
    assert.deepEqual((await create({ notificationConfig: null })).notificationConfig, {
      enableDailyNotification: false,
    });
    assert.deepEqual((await create({ notificationConfig: {} })).notificationConfig, {
      enableDailyNotification: false,
    });
    assert.deepEqual(
      (await create({ notificationConfig: { enableDailyNotification: true, digest: "daily" } }))
        .notificationConfig,
      { enableDailyNotification: true, digest: "daily" },
    );
  });

  test("unknown keys are ignored", async () => {
    assert.equal(
      (
        await create({
          colour: "red",
          channels: [{ ...email, colour: "red", config: { ...email.config, cc: ["z@example.com"] } }],
        })
      ).name,
      "an alert",
    );
  });

  const filterCases: readonly [string, unknown, unknown][] = [
    ["a bare value", { value: "x" }, { field: "any", operator: "contains", value: "x" }],
    ["an empty value", { value: "" }, { field: "any", operator: "contains", value: "" }],
    [
      "a list of values",
      { field: "san", operator: "matches", value: ["*.a", "b"] },
      { field: "san", operator: "matches", value: ["*.a", "b"] },
    ],
    [
      "authorities too",
      { field: "include_cas", value: true },
      { field: "include_cas", operator: "equals", value: true },
    ],
    [
      "a value of 1024 characters",
      { value: "x".repeat(1024) },
      { field: "any", operator: "contains", value: "x".repeat(1024) },
    ],
  ];
  test("filters that leave something to match are accepted", async () => {
    const equal = (field: string, value: unknown) => ({ field, operator: "equals", value });
    for (const filters of [
      [equal("common_name", ["a", "b"]), equal("common_name", "b")],
      [equal("san", "a"), equal("san", "b")],
      [equal("common_name", ["a", "ab"]), { field: "common_name", value: "B" }],
      [equal("san", "a"), { field: "san", value: "b" }],
    ])
      assert.equal((await create({ filters })).filters.length, 2);
  });
  for (const [what, sent, kept] of filterCases)
    test(`a filter with ${what} is accepted`, async () =>
      assert.deepEqual((await create({ filters: [sent] })).filters, [kept]));

  const bad: readonly [string, Record<string, unknown>, string][] = [
    ["no name", { name: undefined }, "name"],
    ["an empty name", { name: "" }, "name"],
    ["a name of 256 characters", { name: "x".repeat(256) }, "name"],
    ["a name that is a number", { name: 5 }, "name"],
    ["a NUL in the name", { name: "a\u0000b" }, "name"],
    ["no eventType", { eventType: undefined }, "eventType"],
    ["an unknown eventType", { eventType: "expired" }, "eventType"],
    ["no filters", { filters: undefined }, "filters"],
    ["filters that are null", { filters: null }, "filters"],
    ["51 filters", { filters: Array.from({ length: 51 }, () => ({ value: "x" })) }, "filters"],
    ["a filter without value", { filters: [{ field: "san" }] }, "filters.0.value"],
    ["a filter on an unknown field", { filters: [{ field: "colour", value: "x" }] }, "filters.0.field"],
    [
      "a filter with an unknown operator",
      { filters: [{ operator: "regex", value: "x" }] },
      "filters.0.operator",
    ],
    ["a text filter with a boolean", { filters: [{ field: "san", value: true }] }, "filters.0.value"],
    ["include_cas with text", { filters: [{ field: "include_cas", value: "true" }] }, "filters.0.value"],
    [
      "include_cas with contains",
      { filters: [{ field: "include_cas", operator: "contains", value: true }] },
      "filters.0.operator",
    ],
    [
      "include_cas true and false",
      {
        filters: [
          { field: "include_cas", value: true },
          { field: "include_cas", value: false },
        ],
      },
      "filters",
    ],
    [
      "two names that one certificate cannot have both",
      {
        filters: [
          { field: "common_name", operator: "equals", value: ["a", "b"] },
          { field: "san", operator: "equals", value: "x" },
          { field: "common_name", operator: "equals", value: "c" },
        ],
      },
      "filters.2.value",
    ],
    [
      "two profiles at once",
      {
        filters: [
          { field: "profile_name", operator: "equals", value: "a" },
          { field: "profile_name", operator: "equals", value: ["b", "c"] },
        ],
      },
      "filters.1.value",
    ],
    [
      "a name that another filter does not let through",
      {
        filters: [
          { field: "common_name", operator: "equals", value: ["a.example.com", "b.example.com"] },
          { field: "common_name", operator: "starts_with", value: "A" },
          { field: "common_name", operator: "ends_with", value: [".org", ".net"] },
        ],
      },
      "filters.2.value",
    ],
    [
      "authorities of an application",
      {
        applicationId: "0190c0de-0000-7000-8000-000000000001",
        filters: [{ value: "x" }, { field: "include_cas", value: true }],
      },
      "filters.1",
    ],
    ["an empty list of values", { filters: [{ value: [] }] }, "filters.0.value"],
    ["a value of 1025 characters", { filters: [{ value: "x".repeat(1025) }] }, "filters.0.value"],
    ["a numeric value", { filters: [{ value: 5 }] }, "filters.0.value"],
    ["no channels", { channels: undefined }, "channels"],
    ["an empty list of channels", { channels: [] }, "channels"],
    ["11 channels", { channels: Array.from({ length: 11 }, () => email) }, "channels"],
    ["a channel without config", { channels: [{}] }, "channels.0.config"],
    ["a channel whose kind cannot be inferred", { channels: [{ config: {} }] }, "channels.0.config"],
    [
      "a channel that claims two kinds",
      { channels: [{ config: { recipients: ["a@b.c"], url: "https://example.com" } }] },
      "channels.0.config",
    ],
    ["an unknown channelType", { channels: [{ channelType: "fax", config: {} }] }, "channels.0.channelType"],
    [
      "settings of another kind",
      { channels: [{ channelType: "email", config: { url: "https://example.com" } }] },
      "channels.0.config.recipients",
    ],
    ["an id that is no uuid", { channels: [{ ...email, id: "1" }] }, "channels.0.id"],
    ["no recipient", { channels: [{ config: { recipients: [] } }] }, "channels.0.config.recipients"],
    [
      "11 recipients",
      { channels: [{ config: { recipients: Array.from({ length: 11 }, () => "a@example.com") } }] },
      "channels.0.config.recipients",
    ],
    [
      "a recipient that is no address",
      { channels: [{ config: { recipients: ["ops"] } }] },
      "channels.0.config.recipients.0",
    ],
    [
      "a recipient that adds a header",
      { channels: [{ config: { recipients: ["a@example.com\r\nBcc: b@example.com"] } }] },
      "channels.0.config.recipients.0",
    ],
    [
      "a recipient that is two",
      { channels: [{ config: { recipients: ["a@example.com,b@example.com"] } }] },
      "channels.0.config.recipients.0",
    ],
    [
      "a recipient with a name",
      { channels: [{ config: { recipients: ["A <a@example.com>"] } }] },
      "channels.0.config.recipients.0",
    ],
    ["a webhook that is no URL", { channels: [{ config: { url: "nowhere" } }] }, "channels.0.config.url"],
    [
      "a webhook to the metadata service",
      { channels: [{ config: { url: "https://169.254.169.254/" } }] },
      "channels.0.config.url",
    ],
    [
      "a webhook to a private address in disguise",
      { channels: [{ config: { url: "https://0xa000001/" } }] },
      "channels.0.config.url",
    ],
    [
      "a webhook with a user in it",
      { channels: [{ config: { url: "https://a:b@example.com/" } }] },
      "channels.0.config.url",
    ],
    [
      "a webhook to a file",
      { channels: [{ config: { url: "file:///etc/passwd" } }] },
      "channels.0.config.url",
    ],
    [
      "a signing secret of 257 characters",
      { channels: [{ config: { url: "https://example.com/", signingSecret: "x".repeat(257) } }] },
      "channels.0.config.signingSecret",
    ],
    [
      "a whsec_ secret that is not base64",
      { channels: [{ config: { url: "https://example.com/", signingSecret: "whsec_$$" } }] },
      "channels.0.config.signingSecret",
    ],
    [
      "a Slack address that is private",
      { channels: [{ config: { webhookUrl: "https://10.0.0.1/" } }] },
      "channels.0.config.webhookUrl",
    ],
    [
      "an integration key that is too short",
      { channels: [{ config: { integrationKey: "abc" } }] },
      "channels.0.config.integrationKey",
    ],
    [
      "a masked integration key",
      { channels: [{ config: { integrationKey: `${"*".repeat(28)}cdef` } }] },
      "channels.0.config.integrationKey",
    ],
    [
      "a masked Slack address",
      { channels: [{ config: { webhookUrl: "https://hooks.slack.com/***************cret" } }] },
      "channels.0.config.webhookUrl",
    ],
    ["alertBefore in words", { alertBefore: "30 days" }, "alertBefore"],
    ["alertBefore of nothing", { alertBefore: "0d" }, "alertBefore"],
    ["alertBefore beyond 9999", { alertBefore: "10000d" }, "alertBefore"],
    ["alertBefore in seconds", { alertBefore: "30s" }, "alertBefore"],
    ["a description of 1001 characters", { description: "x".repeat(1001) }, "description"],
    ["enabled as text", { enabled: "yes" }, "enabled"],
    [
      "a daily flag as text",
      { notificationConfig: { enableDailyNotification: "yes" } },
      "notificationConfig.enableDailyNotification",
    ],
    ["an applicationId that is no uuid", { applicationId: "1" }, "applicationId"],
  ];
  for (const [what, more, place] of bad) {
    test(`422 for ${what}`, async () => {
      const answer = await owner.post(PATH, { ...minimal(), projectId, ...more });
      assert.equal(answer.status, 422, JSON.stringify(answer.body));
      assert.equal(answer.body.error, "ValidationFailure");
      assert.ok(
        answer.body.message.some((issue: { path: unknown[] }) => issue.path.join(".") === place),
        JSON.stringify(answer.body.message),
      );
    });
  }

  test("one 422 lists every fault of every channel", async () => {
    const { body } = await owner.post(PATH, {
      ...minimal(),
      channels: [{ config: { recipients: ["x"] } }, { config: {} }, { config: { integrationKey: "x" } }],
    });
    assert.equal(body.message.length >= 3, true, JSON.stringify(body));
  });

  test("one 422 lists the faults of the channels together with all others, also for a change", async () => {
    const places = (body: { message: { path: unknown[] }[] }) =>
      body.message.map(({ path }) => path.join("."));
    const channels = [
      { config: { recipients: ["x"] } },
      { config: 5 },
      { config: { url: "https://169.254.169.254/" } },
      { config: { integrationKey: `${"*".repeat(28)}cdef` } },
    ];
    const wrong = [
      "name",
      "channels.1.config",
      "channels.0.config.recipients.0",
      "channels.2.config.url",
      "channels.3.config.integrationKey",
    ];
    const made = await owner.post(PATH, { ...minimal(), name: "", channels });
    assert.deepEqual([made.status, places(made.body)], [422, wrong]);
    // There may be a key behind the mask.
    const changed = await owner.patch(`${PATH}/${randomUUID()}`, { name: "", channels });
    assert.deepEqual([changed.status, places(changed.body)], [422, wrong.slice(0, -1)]);
    for (const odd of [null, 5, "x", [null], [[]], Array.from({ length: 5000 }, () => channels[0])])
      assert.equal((await owner.post(PATH, { ...minimal(), channels: odd })).status, 422);
  });

  test("401 without a token, 400 for a body that is not JSON, 415 for one that is no JSON at all", async () => {
    assert.equal((await house.anonymous.post(PATH, minimal())).status, 401);
    assert.equal((await owner.call("POST", PATH, { rawBody: "{" })).status, 400);
    assert.equal(
      (await owner.call("POST", PATH, { rawBody: "a=b", headers: { "content-type": "text/plain" } })).status,
      415,
    );
  });

  test("403 without the right, with the rules that were looked at", async () => {
    const viewer = await anIdentity(owner, house.base, projectId, { roles: [{ role: "viewer" }] });
    const refused = await viewer.client.post(PATH, { ...minimal(), projectId });
    assert.equal(refused.status, 403);
    assert.equal(refused.body.error, "PermissionDenied");
    assert.ok(Array.isArray(refused.body.details));
    const member = await anIdentity(owner, house.base, projectId, { roles: [{ role: "member" }] });
    assert.equal((await member.client.post(PATH, { ...minimal(), projectId })).status, 200);
  });

  test("404 for an unknown project or application, and for those of another organisation", async () => {
    const other = await house.newTenant();
    const foreign = (await aProject(other, { type: "cert-manager" })).id;
    for (const ref of [foreign, randomUUID(), "nope"])
      assert.equal((await owner.post(PATH, { ...minimal(), projectId: ref })).status, 404, ref);
    const [mine, theirs] = [randomUUID(), randomUUID()];
    for (const [id, project] of [
      [mine, projectId],
      [theirs, foreign],
    ] as const) {
      await house.house.database.write(
        (tx) =>
          tx.rows(
            {
              name: undefined,
              isSlow: false,
              text: "INSERT INTO pki_applications (id, project_id, name, created_at, updated_at) VALUES ($1, $2, $3, now(), now())",
            },
            [id, project, id],
          ),
        { audited: false },
      );
    }
    assert.equal((await owner.post(PATH, { ...minimal(), applicationId: theirs })).status, 404);
    assert.equal((await owner.post(PATH, { ...minimal(), applicationId: randomUUID() })).status, 404);
    const made = await owner.post(PATH, { ...minimal(), applicationId: mine });
    assert.equal(made.status, 200);
    assert.equal(made.body.alert.applicationId, mine);
    assert.equal(made.body.alert.projectId, projectId);
  });
});

describe("the siblings", () => {
  test("an alert of another organisation is as unknown as one that does not exist", async () => {
    const { id } = await create();
    const other = await house.newTenant();
    const unknown = randomUUID();
    for (const [method, path, body] of [
      ["GET", "", undefined],
      ["PATCH", "", { name: "x" }],
      ["DELETE", "", undefined],
      ["GET", "/certificates", undefined],
      ["POST", "/test", undefined],
      ["GET", "/deliveries", undefined],
      ["POST", `/deliveries/${unknown}/retry`, undefined],
    ] as const) {
      const [foreign, missing] = await Promise.all([
        other.call(method, `${PATH}/${id}${path}`, { body }),
        other.call(method, `${PATH}/${unknown}${path}`, { body }),
      ]);
      assert.equal(foreign.status, 404, path);
      assert.equal(foreign.body.message.replace(id, ""), missing.body.message.replace(unknown, ""));
    }
    assert.equal((await owner.get(`${PATH}/not-a-uuid`)).status, 422);
  });

  test("list: total, search, eventType, enabled, projectId, paging and newest first", async () => {
    const tenant = await house.newTenant();
    assert.deepEqual((await tenant.get(PATH)).body, { alerts: [], total: 0 });
    for (const [name, eventType, enabled] of [
      ["one 100%", "issuance", true],
      ["two", "expiration", false],
      ["three", "expiration", true],
    ] as const) {
      house.clock.advance(1000);
      assert.equal((await tenant.post(PATH, { ...minimal(), name, eventType, enabled })).status, 200);
    }
    const names = async (query: string) => {
      const { status, body } = await tenant.get(`${PATH}?${query}`);
      assert.equal(status, 200, JSON.stringify(body));
      return [body.total, ...body.alerts.map((alert: { name: string }) => alert.name)];
    };
    assert.deepEqual(await names(""), [3, "three", "two", "one 100%"]);
    assert.deepEqual(await names("search=100%25"), [1, "one 100%"]);
    assert.deepEqual(await names("search=%25"), [1, "one 100%"]);
    assert.deepEqual(await names("search=TWO"), [1, "two"]);
    assert.deepEqual(await names("eventType=expiration"), [2, "three", "two"]);
    assert.deepEqual(await names("enabled=False"), [1, "two"]);
    assert.deepEqual(await names("enabled=1"), [2, "three", "one 100%"]);
    assert.deepEqual(await names("limit=1&offset=1"), [3, "two"]);
    const { body } = await tenant.get(PATH);
    assert.equal(body.alerts[0].lastRun, null);
    for (const query of [
      "limit=0",
      "limit=101",
      "offset=-1",
      "eventType=x",
      "enabled=maybe",
      "applicationId=1",
    ])
      assert.equal((await tenant.get(`${PATH}?${query}`)).status, 422, query);
    assert.equal((await tenant.get(`${PATH}?applicationId=${randomUUID()}`)).status, 404);
    const nobody = await anIdentity(tenant, house.base, body.alerts[0].projectId);
    assert.equal((await nobody.client.get(PATH)).status, 403);
    assert.equal((await nobody.client.get(`${PATH}/${body.alerts[0].id}`)).status, 403);
  });

  test("patch: what is not mentioned stays; a webhook's secret stays when absent and goes when null", async () => {
    const alert = await create({
      description: "d",
      channels: [
        { config: { url: `${receiver.url}/in`, signingSecret: "s" } },
        email,
        { config: { integrationKey: KEY } },
        { config: { webhookUrl: "https://hooks.slack.com/services/T000/B000/abcdefgh" } },
      ],
    });
    const [hook, mail, pager, slack] = alert.channels;
    const patch = async (body: unknown) => {
      const answer = await owner.patch(`${PATH}/${alert.id}`, body);
      assert.equal(answer.status, 200, JSON.stringify(answer.body));
      return answer.body.alert;
    };
    assert.deepEqual({ ...(await patch({})), updatedAt: 0 }, { ...alert, updatedAt: 0 });
    assert.equal((await patch({ name: "new", enabled: false })).description, "d");
    const kept = await patch({
      channels: [
        { id: hook.id, config: { url: `${receiver.url}/other` } },
        { id: pager.id, channelType: "pagerduty", config: pager.config, enabled: false },
        { config: slack.config },
      ],
    });
    assert.deepEqual(
      kept.channels.map((channel: { id: string }) => channel.id),
      [hook.id, pager.id, slack.id],
    );
    assert.deepEqual(kept.channels[0].config, { url: `${receiver.url}/other`, hasSigningSecret: true });
    assert.deepEqual([kept.channels[1].enabled, kept.channels[1].config], [false, pager.config]);
    const cleared = await patch({
      channels: [{ id: hook.id, config: { url: `${receiver.url}/other`, signingSecret: null } }],
    });
    assert.equal(cleared.channels[0].config.hasSigningSecret, false);
    assert.ok(!cleared.channels.some((channel: { id: string }) => channel.id === mail.id));
    assert.equal((await patch({ eventType: "issuance" })).alertBefore, "");
    assert.equal((await patch({ eventType: "expiration" })).alertBefore, "30d");
    for (const body of [
      { name: "" },
      { channels: [] },
      { channels: [{ config: {} }] },
      { filters: [{ value: [] }] },
      { alertBefore: "x" },
    ]) {
      assert.equal((await owner.patch(`${PATH}/${alert.id}`, body)).status, 422, JSON.stringify(body));
    }
    assert.equal((await owner.patch(`${PATH}/${randomUUID()}`, { channels: [{ config: {} }] })).status, 422);
  });

  test("patch: changes that come at the same moment do not undo each other", async () => {
    for (let round = 0; round < 8; round += 1) {
      const alert = await create({
        channels: [{ config: { url: `${receiver.url}/in`, signingSecret: "s" } }, email],
      });
      const [hook, mail] = alert.channels;
      const answers = await Promise.all(
        [
          { name: "renamed" },
          { description: "told" },
          { enabled: false },
          { notificationConfig: { enableDailyNotification: true } },
          {
            channels: [
              { id: hook.id, config: { url: `${receiver.url}/a` } },
              { ...email, id: mail.id },
            ],
          },
          { channels: [{ id: hook.id, config: { url: `${receiver.url}/b`, signingSecret: null } }] },
        ].map((change) => owner.patch(`${PATH}/${alert.id}`, change)),
      );
      assert.ok(
        answers.every(({ status }) => status === 200),
        JSON.stringify(answers.map(({ body }) => body)),
      );
      const { name, description, enabled, notificationConfig, channels } = (
        await owner.get(`${PATH}/${alert.id}`)
      ).body.alert;
      assert.deepEqual(
        { name, description, enabled, ...notificationConfig },
        { name: "renamed", description: "told", enabled: false, enableDailyNotification: true },
      );
      // One of the two came last, and it saw what the other had made.
      const [first] = channels;
      assert.equal(first.config.hasSigningSecret, false);
    }
  });

  test("patch: of notificationConfig, too, what is not mentioned stays, and null is none of it", async () => {
    const alert = await create({ notificationConfig: { enableDailyNotification: true, digest: "daily" } });
    const patch = async (notificationConfig: unknown) =>
      (await owner.patch(`${PATH}/${alert.id}`, { notificationConfig })).body.alert.notificationConfig;
    assert.deepEqual(await patch({ enableDailyNotification: false }), {
      enableDailyNotification: false,
      digest: "daily",
    });
    assert.deepEqual(await patch({ digest: null }), { enableDailyNotification: false });
    assert.deepEqual(await patch({ digest: "hourly", enableDailyNotification: true }), {
      enableDailyNotification: true,
      digest: "hourly",
    });
    assert.deepEqual(await patch(null), { enableDailyNotification: false });
  });

  test("someone else's channel id in a patch brings nobody's secret over", async () => {
    const rich = await create({
      channels: [{ config: { url: `${receiver.url}/rich`, signingSecret: "s" } }],
    });
    const poor = await create({ channels: [{ config: { url: `${receiver.url}/poor` } }] });
    const { body } = await owner.patch(`${PATH}/${poor.id}`, {
      channels: [{ id: rich.channels[0].id, config: { url: `${receiver.url}/poor` } }],
    });
    assert.equal(body.alert.channels[0].config.hasSigningSecret, false);
    assert.notEqual(body.alert.channels[0].id, rich.channels[0].id);
    assert.equal((await owner.get(`${PATH}/${rich.id}`)).body.alert.channels.length, 1);
  });

  test("delete answers what it was, and it is gone", async () => {
    const alert = await create();
    const gone = await owner.delete(`${PATH}/${alert.id}`);
    assert.deepEqual(gone.body.alert, alert);
    assert.equal((await owner.get(`${PATH}/${alert.id}`)).status, 404);
    assert.equal((await owner.delete(`${PATH}/${alert.id}`)).status, 404);
  });

  test("every change leaves an audit row", async () => {
    const alert = await create();
    await owner.patch(`${PATH}/${alert.id}`, { name: "x" });
    await owner.delete(`${PATH}/${alert.id}`);
    const rows = await house.house.database.read((q) =>
      q.rows<{ event: string }>(
        {
          name: undefined,
          isSlow: true,
          text: "SELECT event FROM audit_log WHERE metadata ->> 'alertId' = $1 ORDER BY at, id",
        },
        [alert.id],
      ),
    );
    assert.deepEqual(
      rows.map((row) => row.event),
      ["create-alert", "update-alert", "delete-alert"],
    );
  });

  test("preview and matching certificates: due ones for an expiration, soonest first, with a total", async () => {
    const project = (await aProject(owner, { type: "cert-manager" })).id;
    const store = inventory(house.house.database, owner.orgId);
    const now = house.clock.millis();
    const wish = (commonName: string, days: number) => ({
      projectId: project,
      commonName,
      notBefore: new Date(now - DAY),
      notAfter: new Date(now + days * DAY),
    });
    const soon = await store.issue(wish("b.example.com", 5));
    await store.issue(wish("a.example.com", 3));
    await store.issue(wish("a.other.com", 3.5));
    await store.issue(wish("late.example.com", 60));
    await store.issue({ ...wish("ca.example.com", 3), isCa: true });
    const revoked = await store.issue(wish("r.example.com", 3));
    await store.revoke(revoked, project, house.clock.now());
    const replaced = await store.issue(wish("o.example.com", 3));
    await store.renew(replaced, wish("o.example.com", 90));
    const preview = async (body: Record<string, unknown>) =>
      (
        await owner.post(`${PATH}/preview/certificates`, {
          projectId: project,
          filters: [{ value: ".EXAMPLE.com" }],
          ...body,
        })
      ).body;
    const names = (body: { certificates: { commonName: string }[]; total: number }) => [
      body.total,
      ...body.certificates.map((one) => one.commonName),
    ];
    assert.deepEqual(names(await preview({ alertBefore: "7d" })), [2, "a.example.com", "b.example.com"]);
    assert.deepEqual(names(await preview({ alertBefore: "7d", limit: 1, offset: 1 })), [2, "b.example.com"]);
    assert.deepEqual(names(await preview({})), [
      4,
      "a.example.com",
      "b.example.com",
      "late.example.com",
      "o.example.com",
    ]);
    assert.deepEqual(
      names(
        await preview({
          alertBefore: "7d",
          filters: [{ value: "example.com" }, { field: "include_cas", value: true }],
        }),
      )[0],
      3,
    );
    const alert = await create({ projectId: project, alertBefore: "4d" });
    const matching = (await owner.get(`${PATH}/${alert.id}/certificates`)).body;
    assert.deepEqual(names(matching), [2, "a.example.com", "a.other.com"]);
    assert.deepEqual(Object.keys(matching.certificates[0]).sort(), [
      "commonName",
      "enrollmentType",
      "id",
      "notAfter",
      "notBefore",
      "profileName",
      "san",
      "serialNumber",
      "status",
    ]);
    assert.equal(
      (await owner.post(`${PATH}/preview/certificates`, { filters: [{ value: [] }] })).status,
      422,
    );
    assert.ok(soon);
  });
});
