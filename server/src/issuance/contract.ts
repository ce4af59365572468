import { z } from "zod";
import { endpoint, moment, uuid } from "../platform/http/endpoint.ts";
import {
  algorithmText,
  altName,
  basicConstraintsWish,
  byId,
  durationText,
  extendedKeyUsageWord,
  finding,
  keyUsageWord,
  metadataPairs,
  momentText,
  subjectWish,
} from "../certificates/contract.ts";

const room = "certificates";
const path = "/api/v1/cert-manager/certificates";

/** Clients send it as a boolean and as a word. */
const flag = z
  .union([z.boolean(), z.enum(["true", "false", ""]).transform((word) => word === "true")])
  .default(false);

export const attributes = z.object({
  ...subjectWish,
  keyUsages: z.array(keyUsageWord).max(20).nullish(),
  extendedKeyUsages: z.array(extendedKeyUsageWord).max(20).nullish(),
  altNames: z.array(altName).max(100).nullish(),
  signatureAlgorithm: z.union([algorithmText, z.literal("")]).nullish(),
  keyAlgorithm: z.union([algorithmText, z.literal("")]).nullish(),
  ttl: z.union([durationText, z.literal("")]).nullish(),
  notBefore: z.union([momentText, z.literal("")]).nullish(),
  notAfter: z.union([momentText, z.literal("")]).nullish(),
  basicConstraints: basicConstraintsWish.nullish(),
  removeRootsFromChain: flag.optional(),
});
export type Attributes = z.output<typeof attributes>;

const csrText = z.union([z.string().min(1).max(65_536), z.literal("")]).nullish();
const requestStatus = z.enum([
  "pending_approval",
  "pending",
  "pending_validation",
  "issued",
  "failed",
  "rejected",
]);

export const issued = z.object({
  certificate: z.string(),
  issuingCaCertificate: z.string(),
  certificateChain: z.string(),
  privateKey: z.string().optional(),
  serialNumber: z.string(),
  certificateId: uuid,
});
export type IssuedView = z.input<typeof issued>;

export const issueCertificate = endpoint({
  id: "issueCertificate",
  method: "POST",
  path,
  room,
  summary:
    "Issue a certificate under a profile, for a request (csr) or with a key made here. Idempotency-Key makes a repeat harmless; dryRun answers every finding and issues nothing",
  body: z.object({
    profileId: uuid,
    applicationId: uuid.nullish(),
    csr: csrText,
    attributes: attributes.nullish(),
    removeRootsFromChain: flag,
    friendlyName: z.string().max(255).optional(),
    metadata: metadataPairs.optional(),
    dryRun: z.boolean().default(false),
  }),
  reply: z.object({
    certificate: issued.nullable(),
    certificateRequestId: uuid.optional(),
    status: requestStatus.optional(),
    message: z.string().optional(),
    dryRun: z
      .object({ wouldIssue: z.boolean(), findings: z.array(finding), toBeSigned: z.string().nullable() })
      .optional(),
  }),
  example: {
    body: {
      profileId: "00000000-0000-7000-8000-000000000001",
      attributes: {
        commonName: "web.example.com",
        ttl: "30d",
        altNames: [{ type: "dns_name", value: "web.example.com" }],
      },
    },
  },
});
export type IssueInput = z.output<typeof issueCertificate.body>;

export const getCertificateRequest = endpoint({
  id: "getCertificateRequest",
  method: "GET",
  path: `${path}/certificate-requests/{requestId}`,
  room,
  summary: "How a request stands, with the certificate once it is issued",
  params: z.object({ requestId: uuid }),
  reply: z.object({
    status: requestStatus,
    certificate: z.string().nullable(),
    certificateChain: z.string().nullable(),
    issuingCaCertificate: z.string().nullable(),
    certificateId: uuid.nullable(),
    privateKey: z.string().nullable(),
    serialNumber: z.string().nullable(),
    errorMessage: z.string().nullable(),
    pendingMessage: z.string().nullable(),
    commonName: z.string().nullable(),
    profileId: uuid.nullable(),
    createdAt: moment,
    updatedAt: moment,
  }),
});

export const renewCertificate = endpoint({
  id: "renewCertificate",
  method: "POST",
  path: `${path}/{id}/renew`,
  room,
  summary:
    "Issue a certificate that replaces this one: with a new key, the same key (reuse) or for a request (csr)",
  params: byId,
  body: z
    .object({
      removeRootsFromChain: flag,
      renewalKeySource: z.enum(["new", "reuse", "csr"]).optional(),
      csr: csrText,
      attributes: attributes.nullish(),
    })
    .nullish()
    .transform((body) => body ?? { removeRootsFromChain: false }),
  reply: z.object({ ...issued.shape, certificateRequestId: uuid }),
  example: { body: {} },
});
export type RenewInput = {
  removeRootsFromChain: boolean;
  renewalKeySource?: "new" | "reuse" | "csr" | undefined;
  csr?: string | null | undefined;
  attributes?: Attributes | null | undefined;
};

export const signCertificate = endpoint({
  id: "signCertificate",
  method: "POST",
  path: "/api/v1/pki/certificates/sign-certificate",
  room,
  summary: "Sign a request directly with an authority (caId) or a profile (certificateTemplateId)",
  body: z.object({
    csr: z.string().min(1).max(65_536),
    caId: uuid.nullish(),
    certificateTemplateId: uuid.nullish(),
    friendlyName: z.string().max(255).optional(),
    commonName: z.string().max(255).nullish(),
    ttl: z.union([durationText, z.literal("")]).nullish(),
    notBefore: z.union([momentText, z.literal("")]).nullish(),
    notAfter: z.union([momentText, z.literal("")]).nullish(),
  }),
  reply: z.object({
    certificate: z.string(),
    certificateChain: z.string(),
    issuingCaCertificate: z.string(),
    serialNumber: z.string(),
  }),
  example: {
    body: {
      csr: "-----BEGIN CERTIFICATE REQUEST-----\n…",
      caId: "00000000-0000-7000-8000-000000000001",
      ttl: "90d",
    },
  },
});
export type SignInput = z.output<typeof signCertificate.body>;
