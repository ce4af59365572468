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
export type EventType = z.output<typeof eventType>;

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

/** What the `data` line of a frame holds. */
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

export const subscribeToProjectEvents = endpoint({
  id: "subscribeToProjectEvents",
  method: "POST",
  path: "/api/v1/events/subscribe/project-events",
  room: "events",
  summary: "An open stream (text/event-stream) of changes to a project's secrets, as they happen",
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
