import { alertDeliveries, alerts as contract } from "@keyward/server";
import type { Reply } from "../client.ts";
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

type Alert = Reply<typeof contract.getAlert>["alert"];
const filterText = ({ field, operator, value }: Alert["filters"][number]): string =>
  `${field} ${operator} ${Array.isArray(value) ? value.join(" or ") : String(value)}`;
/** What is shown of a channel's settings has no secret in it. */
const channelText = ({ channelType, config, enabled }: Alert["channels"][number]): string => {
  const [address] = Object.values(config);
  const where = Array.isArray(address) ? address.join(" ") : String(address);
  return `${channelType} ${where}${enabled ? "" : " (disabled)"}`;
};

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

const alertOf = { id: { type: "string", value: "<id>", about: "The alert" } } as const;
const PAGE = 100;

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
    };
    const query = Object.fromEntries(
      Object.entries(wanted).filter((entry): entry is [string, string] => entry[1] !== undefined),
    );
    const alerts: Reply<typeof contract.listAlerts>["alerts"] = [];
    let total = 1;
    for (let got = 1; got > 0 && alerts.length < total;) {
      const page = { ...query, limit: String(PAGE), offset: String(alerts.length) };
      const found = await client.call(contract.listAlerts, { query: page });
      alerts.push(...found.alerts);
      [got, total] = [found.alerts.length, found.total];
    }
    answer({ alerts, total }, () =>
      table(
        ["id", "name", "event", "before", "enabled", "channels", "last run"],
        alerts.map((alert) => [
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
  options: alertOf,
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
    ...alertOf,
    status: { type: "string", value: "<status>", about: "Only pending, delivered or failed ones" },
    limit: { type: "string", value: "<number>", about: "1 to 100; 100 if absent" },
    offset: { type: "string", value: "<number>", about: "How many to skip" },
  },
  async run({ client, arguments: given, answer }) {
    const alertId = given.operandOr(0, "id");
    const asked = ["status", "limit", "offset"].flatMap((name) => {
      const value = given.text(name);
      return value === undefined ? [] : [[name, value]];
    });
    const found = await client.call(alertDeliveries.listDeliveries, {
      params: { alertId },
      query: { limit: String(PAGE), ...Object.fromEntries(asked) },
    });
    const isPart = found.deliveries.length < found.total;
    answer(found, () =>
      [
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
        ...(isPart ? [`${found.deliveries.length} of ${found.total}: see --limit and --offset`] : []),
      ].join("\n"),
    );
  },
};

const show: Command = {
  words: ["alerts", "show"],
  about: "One alert: what it watches for and whom it tells",
  operands: ["<id>"],
  options: alertOf,
  async run({ client, arguments: given, answer }) {
    const alertId = given.operandOr(0, "id");
    const { alert } = await client.call(contract.getAlert, { params: { alertId } });
    answer(alert, () =>
      facts({
        id: alert.id,
        name: alert.name,
        event: alert.eventType,
        before: alert.alertBefore === "" ? undefined : alert.alertBefore,
        enabled: alert.enabled ? "yes" : "no",
        project: alert.projectId,
        application: alert.applicationId,
        filters: alert.filters.map(filterText).join(" and "),
        channels: alert.channels.map(channelText).join(", "),
        "last run":
          alert.lastRun && `${alert.lastRun.timestamp} ${alert.lastRun.error ?? alert.lastRun.status}`,
      }),
    );
  },
};

const switching = (word: "enable" | "disable", about: string): Command => ({
  words: ["alerts", word],
  about,
  operands: ["<id>"],
  options: alertOf,
  async run({ client, arguments: given, answer }) {
    const params = { alertId: given.operandOr(0, "id") };
    const { alert } = await client.call(contract.updateAlert, {
      params,
      body: { enabled: word === "enable" },
    });
    answer(alert, () => `${alert.name} (${alert.id}) is ${alert.enabled ? "enabled" : "disabled"}.`);
  },
});

const enable = switching(
  "enable",
  "Let an alert speak again; what waited and is still worth telling is sent",
);
const disable = switching("disable", "Silence an alert");

const remove: Command = {
  words: ["alerts", "delete"],
  about: "Delete an alert and the history of what it sent",
  operands: ["<id>"],
  options: alertOf,
  async run({ client, arguments: given, answer }) {
    const params = { alertId: given.operandOr(0, "id") };
    const { alert } = await client.call(contract.deleteAlert, { params });
    answer(alert, () => `Deleted ${alert.name} (${alert.id}).`);
  },
};

const retry: Command = {
  words: ["alerts", "retry"],
  about: "Send a delivery of an alert again, now and under the same id",
  operands: ["<id>", "<delivery>"],
  options: { ...alertOf, delivery: { type: "string", value: "<delivery>", about: "The delivery" } },
  async run({ client, arguments: given, answer }) {
    const params = { alertId: given.operandOr(0, "id"), deliveryId: given.operandOr(1, "delivery") };
    const { delivery } = await client.call(alertDeliveries.retryDelivery, { params });
    answer(delivery, () => `Delivery ${delivery.id} is sent again.`);
  },
};

export const alertCommands: readonly Command[] = [
  create,
  list,
  show,
  enable,
  disable,
  remove,
  test,
  deliveries,
  retry,
];
