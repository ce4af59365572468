import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { describe, test } from "node:test";
import { aProject } from "../../test/builders.ts";
import { aRoot } from "../../test/certificates.ts";
import { inventory } from "../../test/alert-receiver.ts";
import { create, DAY, email, house, KEY, minimal, owner, PATH } from "../../test/alert-door.ts";

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

  test("a project of another type with the name of the certificate project does no harm", async () => {
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

  test("nor do eight of them, the ninth name is taken; nine are told that there is no such project", async () => {
    const [tenant, other] = [await house.newTenant(), await house.newTenant()];
    const names = ["certificates", ...[2, 3, 4, 5, 6, 7, 8, 9].map((number) => `certificates-${number}`)];
    for (const slug of names.slice(0, -1)) await aProject(tenant, { slug });
    assert.equal((await tenant.post(PATH, minimal())).status, 200);
    const { body } = await tenant.get("/api/v1/projects?type=cert-manager");
    assert.deepEqual(
      body.projects.map((one: { slug: string }) => one.slug),
      ["certificates-9"],
    );
    for (const slug of names) await aProject(other, { slug });
    assert.equal((await other.post(PATH, minimal())).status, 404);
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
        isSlow: false,
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
});
