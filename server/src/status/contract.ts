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
