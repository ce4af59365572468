import { z } from "zod";
import { endpoint, moment } from "../platform/http/endpoint.ts";

const room = "status";

export const getStatus = endpoint({
  id: "getStatus",
  method: "GET",
  path: "/api/status",
  room,
  summary: "Is the server able to work? 503 when the database is away",
  access: "public",
  rate: "read",
  reply: z.object({ date: moment, message: z.string(), emailConfigured: z.boolean() }),
});

/** For probes. No rate limit: a 429 would look like a dead node. */
const PROBE = { method: "GET", room, access: "public", rate: "read", rateCost: 0 } as const;

export const getLive = endpoint({
  ...PROBE,
  id: "getLive",
  path: "/api/live",
  summary:
    "Does this process answer? Never asks the database: for liveness probes, which restart what fails them",
  reply: z.object({ status: z.literal("live") }),
});

export const getReady = endpoint({
  ...PROBE,
  id: "getReady",
  path: "/api/ready",
  summary:
    "Should requests be sent to this node now? 503, with what is amiss, for load balancers to pass it over",
  reply: z.object({ status: z.literal("ready") }),
});

export const getOpenApi = endpoint({
  id: "getOpenApi",
  method: "GET",
  path: "/api/docs/json",
  room,
  summary: "This interface as OpenAPI 3.1",
  access: "public",
  rate: "read",
  reply: z.unknown(),
});

export const getDocs = endpoint({
  id: "getDocs",
  method: "GET",
  path: "/api/docs",
  room,
  summary: "This interface as a page to read",
  access: "public",
  rate: "read",
  reply: z.unknown(),
  replyType: "text/html",
});
