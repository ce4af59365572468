import { z } from "zod";
import { endpoint, uuid } from "../../platform/http/endpoint.ts";
import { projectRef } from "../../projects/contract.ts";

const rule = z.object({
  subject: z.union([z.string(), z.array(z.string())]),
  action: z.union([z.string(), z.array(z.string())]),
  conditions: z.unknown().optional(),
  inverted: z.boolean(),
});
const text = z.string().max(1024).optional();

export const explainPermission = endpoint({
  id: "explainPermission",
  method: "GET",
  path: "/api/v1/projects/{projectId}/permissions/explain",
  room: "secrets",
  summary: "Which rule allows or denies an action, for yourself or for an identity",
  params: z.object({ projectId: projectRef }),
  query: z.object({
    subject: z.string().min(1).max(64),
    action: z.string().min(1).max(64),
    identityId: uuid.optional(),
    environment: text,
    secretPath: text,
    secretName: text,
    /** Slugs, separated by commas. */
    secretTags: text,
  }),
  reply: z.object({ allowed: z.boolean(), decidedBy: rule.nullable(), considered: z.array(rule) }),
  example: {
    query: {
      subject: "secrets",
      action: "readValue",
      environment: "dev",
      secretPath: "/",
      secretName: "API_KEY",
    },
  },
});
export type ExplainQuestion = z.output<typeof explainPermission.query>;
