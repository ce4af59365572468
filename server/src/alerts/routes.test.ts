import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { describe, test } from "node:test";
import { aProject, anIdentity } from "../../test/builders.ts";
import { inventory } from "../../test/alert-receiver.ts";
import { create, DAY, email, house, KEY, minimal, owner, PATH, receiver } from "../../test/alert-door.ts";

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
    const { projectId } = body.alerts[0];
    assert.equal((await nobody.client.get(`${PATH}?projectId=${projectId}`)).status, 403);
    assert.equal((await tenant.get(`${PATH}?projectId=${projectId}`)).body.total, 3);
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
          isSlow: false,
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
