import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { describe, test } from "node:test";
import { aProject, anIdentity } from "../../test/builders.ts";
import { create, email, house, minimal, owner, PATH, projectId } from "../../test/alert-door.ts";

describe("creating an alert: filters, channels and refusals", () => {
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
