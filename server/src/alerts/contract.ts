import { z } from "zod";
import { endpoint, moment, queryInteger, uuid } from "../platform/http/endpoint.ts";
import { projectRef } from "../projects/contract.ts";
import { filter, filtersInput, type CertificateFilter } from "./filters/contract.ts";

const room = "alerts";
export const ALERTS_PATH = "/api/v1/cert-manager/alerts";

/** `renewal-failed` is Keyward's own: a certificate that should have been replaced by now and was not. */
export const EVENT_TYPES = ["expiration", "renewal", "issuance", "revocation", "renewal-failed"] as const;
export const eventType = z.enum(EVENT_TYPES);
export type AlertEventType = z.output<typeof eventType>;

const BEFORE_RULE = "must be a number from 1 to 9999 with h, d, w, m or y: 12h, 30d, 4w, 3m, 1y";
/** Clients send "" when they mean nothing. */
const alertBefore = z
  .string()
  .refine((text) => text === "" || /^0*[1-9]\d{0,3}[hdwmy]$/.test(text), BEFORE_RULE);

/**
 * The settings of a channel are defined by the channel, in notifications/: this only says that there are
 * some. They are checked together with the rest of the body, with the path of every error.
 */
export const channelInput = z.object({
  id: uuid.optional(),
  channelType: z.string().max(64).optional(),
  config: z.record(z.string(), z.unknown()),
  enabled: z.boolean().default(true),
});
export type ChannelInput = z.output<typeof channelInput>;

const notificationConfigInput = z.object({
  enableDailyNotification: z.boolean().default(false),
  /** Keyward's own: collect everything of an hour or a day (UTC) into one message. */
  digest: z.enum(["hourly", "daily"]).nullish(),
});

/** In an update, absent fields stay. */
const notificationConfigChange = notificationConfigInput.extend({
  enableDailyNotification: z.boolean().optional(),
});

interface Watched {
  readonly filters: readonly CertificateFilter[];
  readonly applicationId?: string | null | undefined;
}
const canMatch = ({ filters, applicationId }: Watched, context: z.RefinementCtx): void => {
  const index = filters.findIndex(({ field, value }) => field === "include_cas" && value === true);
  if (!applicationId || index < 0) return;
  const message = "include_cas cannot be true with an applicationId: authorities belong to no application";
  context.addIssue({ code: "custom", path: ["filters", index], message });
};

const name = z.string().min(1).max(255);
const description = z.string().max(1000);
export const MOST_CHANNELS = 10;
const channelsInput = z.array(channelInput).min(1).max(MOST_CHANNELS);

export const channel = z.object({
  id: uuid,
  channelType: z.string(),
  config: z.record(z.string(), z.unknown()),
  enabled: z.boolean(),
  createdAt: moment,
  updatedAt: moment,
});

const alertFields = {
  id: uuid,
  name: z.string(),
  description: z.string(),
  eventType,
  alertBefore: z.string(),
  filters: z.array(filter),
  enabled: z.boolean(),
  projectId: uuid,
  applicationId: uuid.optional(),
  notificationConfig: z.object({
    enableDailyNotification: z.boolean(),
    digest: z.enum(["hourly", "daily"]).optional(),
  }),
  channels: z.array(channel),
  createdAt: moment,
  updatedAt: moment,
};
export const alert = z.object(alertFields);
export type AlertView = z.input<typeof alert>;

export const lastRun = z.object({
  timestamp: moment,
  status: z.enum(["success", "failed"]),
  error: z.string().nullable(),
});
const listedAlert = z.object({ ...alertFields, lastRun: lastRun.nullable() });
export type ListedAlert = z.input<typeof listedAlert>;

const example = {
  name: "Web servers expire",
  eventType: "expiration",
  alertBefore: "30d",
  filters: [{ field: "san", operator: "ends_with", value: ".example.com" }],
  channels: [{ config: { recipients: ["ops@example.com"] } }],
};

export const createAlert = endpoint({
  id: "createAlert",
  method: "POST",
  path: ALERTS_PATH,
  room,
  summary: "Create an alert on certificates: what to watch for and through which one to ten channels to tell",
  body: z
    .object({
      name,
      eventType,
      filters: filtersInput,
      channels: channelsInput,
      description: description.nullish(),
      alertBefore: alertBefore.nullish(),
      enabled: z.boolean().default(true),
      notificationConfig: notificationConfigInput.nullish(),
      applicationId: uuid.nullish(),
      projectId: projectRef.optional(),
    })
    .superRefine(canMatch),
  reply: z.object({ alert }),
  example: { body: example },
});
export type NewAlert = z.output<typeof createAlert.body>;

const queryFlag = z
  .string()
  .regex(/^(true|false|1|0)$/i, "must be true or false")
  .transform((text) => /^(true|1)$/i.test(text))
  .optional();

export const listAlerts = endpoint({
  id: "listAlerts",
  method: "GET",
  path: ALERTS_PATH,
  room,
  summary: "Alerts, newest first, each with its last run",
  query: z.object({
    projectId: projectRef.optional(),
    applicationId: uuid.optional(),
    search: z.string().max(256).optional(),
    eventType: eventType.optional(),
    enabled: queryFlag,
    limit: queryInteger(1, 100, 20),
    offset: queryInteger(0, 1_000_000_000, 0),
  }),
  reply: z.object({ alerts: z.array(listedAlert), total: z.number() }),
});
export type AlertQuery = z.output<typeof listAlerts.query>;

const params = z.object({ alertId: uuid });
const ONE = `${ALERTS_PATH}/{alertId}`;

export const getAlert = endpoint({
  id: "getAlert",
  method: "GET",
  path: ONE,
  room,
  summary: "One alert",
  params,
  reply: z.object({ alert: listedAlert }),
});

export const updateAlert = endpoint({
  id: "updateAlert",
  method: "PATCH",
  path: ONE,
  room,
  summary:
    "Change an alert; a channel that is named by its id keeps the secrets that are not sent, null clears them",
  params,
  body: z.object({
    name: name.optional(),
    eventType: eventType.optional(),
    filters: filtersInput.optional(),
    channels: channelsInput.optional(),
    description: description.nullish(),
    alertBefore: alertBefore.nullish(),
    enabled: z.boolean().optional(),
    notificationConfig: notificationConfigChange.nullish(),
  }),
  reply: z.object({ alert }),
  example: { body: { enabled: false } },
});
export type AlertChange = z.output<typeof updateAlert.body>;

export const deleteAlert = endpoint({
  id: "deleteAlert",
  method: "DELETE",
  path: ONE,
  room,
  summary: "Delete an alert with its deliveries",
  params,
  reply: z.object({ alert }),
});

const matchingCertificate = z.object({
  id: uuid,
  serialNumber: z.string(),
  commonName: z.string(),
  san: z.array(z.string()),
  profileName: z.string().nullable(),
  enrollmentType: z.string().nullable(),
  notBefore: moment,
  notAfter: moment,
  status: z.string(),
});
export type MatchingCertificate = z.input<typeof matchingCertificate>;
const matching = z.object({ certificates: z.array(matchingCertificate), total: z.number() });

export const listAlertCertificates = endpoint({
  id: "listAlertCertificates",
  method: "GET",
  path: `${ONE}/certificates`,
  room,
  summary: "The certificates this alert is about: for expiration those due now, else all in force",
  params,
  query: z.object({ limit: queryInteger(1, 100, 20), offset: queryInteger(0, 1_000_000_000, 0) }),
  reply: matching,
});

export const previewAlertCertificates = endpoint({
  id: "previewAlertCertificates",
  method: "POST",
  path: `${ALERTS_PATH}/preview/certificates`,
  room,
  rate: "read",
  summary: "The certificates an alert with these filters would be about",
  body: z
    .object({
      filters: filtersInput,
      alertBefore: alertBefore.nullish(),
      applicationId: uuid.nullish(),
      projectId: projectRef.optional(),
      limit: z.number().int().min(1).max(100).default(20),
      offset: z.number().int().min(0).max(1_000_000_000).default(0),
    })
    .superRefine(canMatch),
  reply: matching,
  example: { body: { filters: [{ value: "example.com" }], alertBefore: "30d" } },
});
export type Preview = z.output<typeof previewAlertCertificates.body>;

const channelResult = z.object({
  channelId: uuid,
  channelType: z.string(),
  success: z.boolean(),
  error: z.string().optional(),
});
export type ChannelResult = z.input<typeof channelResult>;

export const testAlert = endpoint({
  id: "testAlert",
  method: "POST",
  path: `${ONE}/test`,
  room,
  summary: "Send a test through every channel now, also a disabled one, and say how each went",
  params,
  reply: z.object({ success: z.boolean(), results: z.array(channelResult) }),
});

export const testWebhook = endpoint({
  id: "testAlertWebhook",
  method: "POST",
  path: `${ALERTS_PATH}/test-webhook`,
  aliases: ["/api/v2/pki/alerts/test-webhook"],
  room,
  summary: "Send a test to a webhook before an alert is made of it",
  body: z.object({
    url: z.string().min(1).max(2048),
    signingSecret: z.string().max(256).nullish(),
    applicationId: uuid.nullish(),
    projectId: projectRef.optional(),
  }),
  reply: z.object({ success: z.boolean(), error: z.string().optional() }),
  example: { body: { url: "https://hooks.example.com/keyward" } },
});
