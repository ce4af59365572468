import { z } from "zod";
import { endpoint, moment, queryInteger, uuid } from "../platform/http/endpoint.ts";
import { projectRef } from "../projects/contract.ts";

export const AUDIT_DEFAULT_DAYS = 30;
export const AUDIT_ACTOR_TYPES = ["user", "identity", "system"] as const;

/** Named as clients of this API family send and read them. */
export const auditLog = z.object({
  id: uuid,
  createdAt: moment,
  eventType: z.string(),
  event: z.object({ type: z.string(), metadata: z.record(z.string(), z.unknown()) }),
  actor: z.object({
    type: z.string(),
    metadata: z.object({
      id: uuid.nullable(),
      name: z.string(),
      identityId: uuid.optional(),
      userId: uuid.optional(),
    }),
  }),
  ipAddress: z.string().nullable(),
  userAgent: z.string().nullable(),
  userAgentType: z.string(),
  projectId: uuid.nullable(),
  orgId: uuid.nullable(),
  reqId: z.string().nullable(),
});
export type AuditLogView = z.input<typeof auditLog>;

const EVENT = /^[a-z0-9]+(?:[-._][a-z0-9]+)*$/;
const MAX_EVENTS = 50;

/** `eventType=a,b` and `eventType=a&eventType=b` mean the same. */
const eventTypes = z
  .union([z.string().max(4096), z.array(z.string().max(4096)).max(MAX_EVENTS)])
  .transform((given, context) => {
    const events = (Array.isArray(given) ? given : [given])
      .flatMap((part) => part.split(","))
      .map((part) => part.trim());
    if (events.length <= MAX_EVENTS && events.every((event) => event.length <= 64 && EVENT.test(event)))
      return [...new Set(events)];
    context.addIssue({
      code: "custom",
      message: `must be up to ${MAX_EVENTS} event types, separated by commas`,
    });
    return z.NEVER;
  });

const date = z.union([z.iso.datetime({ offset: true }), z.iso.date()]).transform((text) => new Date(text));

const asked = {
  eventType: eventTypes.optional(),
  actorType: z.enum(AUDIT_ACTOR_TYPES).optional(),
  actorId: uuid.optional(),
  /** A part of it, in any case. */
  userAgent: z.string().max(256).optional(),
  startDate: date.optional(),
  endDate: date.optional(),
  limit: queryInteger(1, 1000, 20),
  /** `nextCursor` of the page before. */
  cursor: z.string().max(128).optional(),
  /** For older clients; pages by offset shift when rows are added, pages by cursor do not. */
  offset: queryInteger(0, 1_000_000, 0),
};
const isPeriod = (query: { startDate?: Date | undefined; endDate?: Date | undefined }): boolean =>
  !query.startDate || !query.endDate || query.startDate <= query.endDate;
const PERIOD_RULE = { path: ["startDate"], message: "must not be later than endDate" };
const reply = z.object({ auditLogs: z.array(auditLog), nextCursor: z.string().nullable() });

export const listAuditLogs = endpoint({
  id: "listAuditLogs",
  method: "GET",
  path: "/api/v1/organization/audit-logs",
  room: "audit",
  summary: `Who did what, newest first; the last ${AUDIT_DEFAULT_DAYS} days unless startDate says otherwise`,
  query: z.object({ projectId: projectRef.optional(), ...asked }).refine(isPeriod, PERIOD_RULE),
  reply,
});
export type AuditQuery = z.output<typeof listAuditLogs.query>;

export const listInstanceAuditLogs = endpoint({
  id: "listInstanceAuditLogs",
  method: "GET",
  path: "/api/v1/admin/audit-logs",
  room: "audit",
  summary: "What concerns no organisation, such as logins without an account, newest first (instance admin)",
  query: z.object(asked).refine(isPeriod, PERIOD_RULE),
  reply,
});
