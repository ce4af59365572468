import { alertDeliveries, alerts as contract } from "@keyward/server";
import type { Arguments, Command } from "../command.ts";
import { Failure, UsageError } from "../failure.ts";
import { facts, table } from "../printing.ts";

type ChannelInput = { config: Record<string, unknown> };

/** One channel per address that was given: all mail recipients share one message. */
function channelsFrom(given: Arguments): ChannelInput[] {
  const [recipients, secret] = [given.texts("email"), given.text("signing-secret")];
  const hooks = given.texts("webhook").map((url) => ({
    config: { url, ...(secret === undefined ? {} : { signingSecret: secret }) },
  }));
  return [
    ...(recipients.length === 0 ? [] : [{ config: { recipients } }]),
    ...hooks,
    ...given.texts("slack").map((webhookUrl) => ({ config: { webhookUrl } })),
    ...given.texts("pagerduty").map((integrationKey) => ({ config: { integrationKey } })),
  ];
}

const create: Command = {
  words: ["alerts", "create"],
  about: "Watch certificates and tell someone",
  operands: ["<name>"],
  options: {
    name: { type: "string", value: "<name>", about: "Its name" },
    event: {
      type: "string",
      value: "<event>",
      about: `What to watch for: ${contract.EVENT_TYPES.join(", ")}; expiration if absent`,
    },
    before: {
      type: "string",
      value: "<time>",
      about: "How long before a certificate ends: 12h, 30d, 4w, 3m, 1y; 30d if absent",
    },
    filter: {
      type: "string",
      value: "<text>",
      multiple: true,
      about: "Only certificates whose profile, common name or another name contains it",
    },
    email: { type: "string", value: "<address>", multiple: true, about: "Send a mail there" },
    webhook: { type: "string", value: "<url>", multiple: true, about: "Post an event there" },
    "signing-secret": { type: "string", value: "<secret>", about: "Sign what the webhooks get" },
    slack: { type: "string", value: "<url>", multiple: true, about: "An incoming webhook of Slack" },
    pagerduty: { type: "string", value: "<key>", multiple: true, about: "An integration key of PagerDuty" },
    daily: { type: "boolean", about: "Repeat each day until the certificate is replaced" },
    project: { type: "string", value: "<project>", about: "Its project, by id or slug" },
    application: { type: "string", value: "<id>", about: "Only certificates of this application" },
  },
  async run({ client, arguments: given, answer }) {
    const event = contract.eventType.safeParse(given.text("event") ?? "expiration");
    if (!event.success) throw new UsageError(`--event must be one of ${contract.EVENT_TYPES.join(", ")}.`);
    const channels = channelsFrom(given);
    if (channels.length === 0)
      throw new UsageError("Whom to tell? Give --email, --webhook, --slack or --pagerduty.");
    const [alertBefore, projectId, applicationId] = [
      given.text("before"),
      given.text("project"),
      given.text("application"),
    ];
    const body = {
      name: given.operandOr(0, "name"),
      eventType: event.data,
      filters: given.texts("filter").map((value) => ({ value })),
      channels,
      notificationConfig: { enableDailyNotification: given.has("daily") },
      ...(alertBefore === undefined ? {} : { alertBefore }),
      ...(projectId === undefined ? {} : { projectId }),
      ...(applicationId === undefined ? {} : { applicationId }),
    };
    const { alert } = await client.call(contract.createAlert, { body });
    answer(alert, () =>
      facts({
        id: alert.id,
        name: alert.name,
        event: alert.eventType,
        before: alert.alertBefore === "" ? undefined : alert.alertBefore,
        channels: alert.channels.map((channel) => channel.channelType).join(", "),
      }),
    );
  },
};

const list: Command = {
  words: ["alerts", "list"],
  about: "Alerts, newest first, and how their last message went",
  options: {
    project: { type: "string", value: "<project>", about: "Only of this project, by id or slug" },
    search: { type: "string", about: "Only with this in the name or description" },
    event: { type: "string", value: "<event>", about: "Only of this kind" },
  },
  async run({ client, arguments: given, answer }) {
    const wanted = {
      projectId: given.text("project"),
      search: given.text("search"),
      eventType: given.text("event"),
      limit: "100",
    };
    const query = Object.fromEntries(
      Object.entries(wanted).filter((entry): entry is [string, string] => entry[1] !== undefined),
    );
    const found = await client.call(contract.listAlerts, { query });
    answer(found, () =>
      table(
        ["id", "name", "event", "before", "enabled", "channels", "last run"],
        found.alerts.map((alert) => [
          alert.id,
          alert.name,
          alert.eventType,
          alert.alertBefore === "" ? "-" : alert.alertBefore,
          alert.enabled ? "yes" : "no",
          alert.channels.map((channel) => channel.channelType).join(", "),
          alert.lastRun === null
            ? "-"
            : `${alert.lastRun.timestamp} ${alert.lastRun.error ?? alert.lastRun.status}`,
        ]),
      ),
    );
  },
};

const test: Command = {
  words: ["alerts", "test"],
  about: "Send a test through every channel of an alert, now",
  operands: ["<id>"],
  options: { id: { type: "string", value: "<id>", about: "The alert" } },
  async run({ client, arguments: given, answer }) {
    const alertId = given.operandOr(0, "id");
    const { success, results } = await client.call(contract.testAlert, { params: { alertId } });
    answer({ success, results }, () =>
      table(
        ["channel", "type", "result"],
        results.map((one) => [one.channelId, one.channelType, one.error ?? "delivered"]),
      ),
    );
    if (!success) throw new Failure("Not every channel took the test.");
  },
};

const deliveries: Command = {
  words: ["alerts", "deliveries"],
  about: "What an alert sent, newest first, and what became of it",
  operands: ["<id>"],
  options: {
    id: { type: "string", value: "<id>", about: "The alert" },
    status: { type: "string", value: "<status>", about: "Only pending, delivered or failed ones" },
  },
  async run({ client, arguments: given, answer }) {
    const [alertId, status] = [given.operandOr(0, "id"), given.text("status")];
    const found = await client.call(alertDeliveries.listDeliveries, {
      params: { alertId },
      query: { limit: "100", ...(status === undefined ? {} : { status }) },
    });
    answer(found, () =>
      table(
        ["id", "created", "event", "channel", "certificates", "status", "attempts", "reason"],
        found.deliveries.map((one) => [
          one.id,
          one.createdAt,
          one.eventType,
          one.channelType,
          one.totalCertificates,
          one.status,
          one.attempts,
          one.error,
        ]),
      ),
    );
  },
};

export const alertCommands: readonly Command[] = [create, list, test, deliveries];
