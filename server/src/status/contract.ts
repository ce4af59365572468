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

export const getLive = endpoint({
  id: "getLive",
  method: "GET",
  path: "/api/live",
  room,
  summary:
    "Does this process answer? Never asks the database: for liveness probes, which restart what fails them",
  access: "public",
  rate: "read",
  // Whoever asks too often must not be told that the node is not there.
  rateCost: 0,
  reply: z.object({ status: z.literal("live") }),
});

export const getReady = endpoint({
  id: "getReady",
  method: "GET",
  path: "/api/ready",
  room,
  summary:
    "Should requests be sent to this node now? 503, with what is amiss, for load balancers to pass it over",
  access: "public",
  rate: "read",
  // Whoever asks too often must not be told that the node is not there.
  rateCost: 0,
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
