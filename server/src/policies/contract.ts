import { z } from "zod";
import { endpoint, moment, name, uuid } from "../platform/http/endpoint.ts";
import { projectRef } from "../projects/contract.ts";
import {
  byId,
  extendedKeyUsageWord,
  inProject,
  keyUsageWord,
  paging,
  sanWord,
} from "../certificates/contract.ts";

const room = "certificates";
const path = "/api/v1/cert-manager/certificate-policies";

const patterns = z.array(z.string().min(1).max(255)).max(200).optional();
const rule = { allowed: patterns, required: patterns, denied: patterns };
const words = <T extends z.ZodType>(word: T) => {
  const list = z.array(word).max(50).optional();
  return z.object({ allowed: list, required: list, denied: list });
};
const SUBJECT_WORDS = [
  "common_name",
  "organization",
  "organizational_unit",
  "country",
  "state",
  "locality",
  "domain_component",
] as const;

export const policyRules = z.object({
  subject: z
    .array(z.object({ type: z.enum(SUBJECT_WORDS), ...rule }))
    .max(50)
    .nullish(),
  sans: z
    .array(z.object({ type: sanWord, ...rule }))
    .max(50)
    .nullish(),
  keyUsages: words(keyUsageWord).nullish(),
  extendedKeyUsages: words(extendedKeyUsageWord).nullish(),
  algorithms: z
    .object({
      signature: z.array(z.string().min(1).max(64)).min(1).max(50).optional(),
      keyAlgorithm: z.array(z.string().min(1).max(64)).min(1).max(50).optional(),
    })
    .nullish(),
  validity: z.object({ max: z.string().max(32).optional() }).nullish(),
  basicConstraints: z
    .object({
      isCA: z.enum(["allowed", "required", "denied"]).optional(),
      maxPathLength: z.number().int().min(-1).max(255).optional(),
    })
    .nullish(),
});
export type PolicyRules = z.output<typeof policyRules>;

export const policy = z.object({
  id: uuid,
  projectId: uuid,
  name: z.string(),
  description: z.string().nullable(),
  ...policyRules.shape,
  createdAt: moment,
  updatedAt: moment,
});

const fields = { name: name(255), description: z.string().max(255).nullish(), ...policyRules.shape };
const reply = z.object({ certificatePolicy: policy });

export const createPolicy = endpoint({
  id: "createCertificatePolicy",
  method: "POST",
  path,
  room,
  summary: "Create a policy: what certificates may say. A part that is left out does not restrict",
  body: z.object({ ...fields, ...inProject.shape }),
  reply,
  example: {
    body: {
      name: "servers",
      sans: [{ type: "dns_name", allowed: ["*.example.com"] }],
      validity: { max: "90d" },
    },
  },
});
export type NewPolicy = z.output<typeof createPolicy.body>;

export const listPolicies = endpoint({
  id: "listCertificatePolicies",
  method: "GET",
  path,
  room,
  summary: "Policies of a project, by name",
  query: z.object({ ...paging, search: z.string().max(256).optional(), projectId: projectRef.optional() }),
  reply: z.object({ certificatePolicies: z.array(policy), totalCount: z.number() }),
});
export const getPolicy = endpoint({
  id: "getCertificatePolicy",
  method: "GET",
  path: `${path}/{id}`,
  room,
  summary: "One policy",
  params: byId,
  reply,
});
export const updatePolicy = endpoint({
  id: "updateCertificatePolicy",
  method: "PATCH",
  path: `${path}/{id}`,
  room,
  summary: "Change a policy; a part that is sent replaces the old one, null clears it",
  params: byId,
  body: z.object({ ...fields, name: name(255).optional() }),
  reply,
  example: { body: { description: "For the web tier" } },
});
export type PolicyChange = z.output<typeof updatePolicy.body>;
export const deletePolicy = endpoint({
  id: "deleteCertificatePolicy",
  method: "DELETE",
  path: `${path}/{id}`,
  room,
  summary: "Delete a policy that no profile uses",
  params: byId,
  reply,
});
