import { z } from "zod";
import { endpoint } from "../platform/http/endpoint.ts";
import { projectRef } from "../projects/contract.ts";

export const EVENT_TYPES = [
  "secret:create",
  "secret:update",
  "secret:delete",
  "secret:import-mutation",
] as const;
export const eventType = z.enum(EVENT_TYPES);
export type SecretEventType = z.output<typeof eventType>;

/** A condition that is absent does not restrict. */
export const eventFilter = z.object({
  event: eventType,
  conditions: z
    .object({
      environmentSlug: z.string().min(1).max(64).nullish(),
      secretPath: z.string().max(512).nullish().describe("A glob over folder paths, such as /app/**"),
    })
    .nullish(),
});
export type EventFilter = z.output<typeof eventFilter>;

const place = { environment: z.string(), secretPath: z.string() };

/** What the `data` line of an SSE message holds. */
export const eventMessage = z.object({
  projectType: z.literal("secret-manager"),
  data: z.union([
    z.object({
      eventType: z.enum(["secret:create", "secret:update", "secret:delete"]),
      payload: z.array(z.object({ ...place, secretKey: z.string() })),
    }),
    z.object({ eventType: z.literal("secret:import-mutation"), payload: z.object(place) }),
  ]),
});
export type EventMessage = z.output<typeof eventMessage>;

const DESCRIPTION = `The answer is a stream of server-sent events that stays open; its head is sent at once. Each frame has \`event:\`
with the event's type, a rising \`id:\` and one \`data:\` line with the message shown below, which names folders and keys and never values.

\`event: ping\` (no data) comes every 15 seconds; nothing for 45 seconds means that the connection is dead. \`event: error\` with
\`{"message": …}\` is the last frame before a deliberate end: the token expired or was revoked, the rights, the licence or the project are
gone, the reader is too slow, or this server stops or lost sight of the events. Then subscribe again and read the current state once:
nothing is stored, and \`Last-Event-ID\` is ignored.

\`secretPath\` is a glob over folders. \`*\` and \`?\` stay inside one folder name; \`[abc]\` and \`{a,b}\` choose.
\`/**\` spans any number of folders, none included: \`/a/**\` also matches \`/a\`, \`/**\` matches everything.
It starts with \`/\` and has at most 512 characters; all globs of a subscription have at most 512 wildcards and alternatives.

Needs a licence with \`eventSubscriptions\` (400 without) and, for each event asked for, its action on the subject \`secret-events\`: create,
update, delete, or read for import mutations. See docs/events.md for reconnecting, limits and proxies.`;

export const subscribeToProjectEvents = endpoint({
  id: "subscribeToProjectEvents",
  method: "POST",
  path: "/api/v1/events/subscribe/project-events",
  room: "events",
  summary: "An open stream (text/event-stream) of changes to a project's secrets, as they happen",
  description: DESCRIPTION,
  body: z.object({
    projectId: projectRef,
    register: z.array(eventFilter).max(100).nullish().describe("Which events; absent or empty: all four"),
  }),
  reply: eventMessage,
  replyType: "text/event-stream",
  rate: "read",
  example: {
    body: {
      projectId: "0194d1a0-0000-7000-8000-000000000000",
      register: [{ event: "secret:update", conditions: { environmentSlug: "prod", secretPath: "/app/**" } }],
    },
  },
});
export type Subscribe = z.output<typeof subscribeToProjectEvents.body>;
