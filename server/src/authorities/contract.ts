import { z } from "zod";
import { endpoint, moment, name, uuid, LARGE_BODY } from "../platform/http/endpoint.ts";
import { projectRef } from "../projects/contract.ts";
import { algorithmText, byId, inProject, momentText } from "../certificates/contract.ts";

const room = "certificates";
const base = "/api/v1/cert-manager/ca";
const path = `${base}/internal`;
const ofCa = z.object({ caId: uuid });

const status = z.enum(["active", "disabled", "pending-certificate"]);
const part = z.string().max(255).default("");
const subtree = z.object({
  type: z.enum(["dns_name", "email", "uri", "ip_address"]),
  value: z.string().max(255),
});
const nameConstraints = z.object({
  permitted: z.array(subtree).max(100).default([]),
  excluded: z.array(subtree).max(100).default([]),
});
const pathLength = z.number().int().min(-1).max(255);
const urls = z.array(z.url({ protocol: /^(https?|ldap)$/ }).max(2048)).max(4);

const configuration = z.object({
  type: z.enum(["root", "intermediate"]),
  friendlyName: part,
  commonName: part,
  organization: part,
  ou: part,
  country: part,
  province: part,
  locality: part,
  notBefore: momentText.optional(),
  notAfter: momentText.optional(),
  maxPathLength: pathLength.nullish(),
  keyAlgorithm: algorithmText.default("EC_prime256v1"),
  parentCaId: uuid.nullish(),
  crlDistributionPointUrls: urls.default([]),
  disableManagedCrlDistributionPointUrl: z.boolean().default(false),
  nameConstraints: nameConstraints.nullish(),
  /** The number of CRL shards of a key. */
  crlShards: z.number().int().min(1).max(128).default(1),
});
export type AuthorityConfiguration = z.output<typeof configuration>;

export const authority = z.object({
  id: uuid,
  projectId: uuid,
  name: z.string(),
  status,
  type: z.literal("internal"),
  enableDirectIssuance: z.boolean(),
  configuration: z.object({
    type: z.enum(["root", "intermediate"]),
    friendlyName: z.string(),
    commonName: z.string(),
    organization: z.string(),
    ou: z.string(),
    country: z.string(),
    province: z.string(),
    locality: z.string(),
    notBefore: moment.optional(),
    notAfter: moment.optional(),
    maxPathLength: z.number().nullable(),
    keyAlgorithm: z.string(),
    keySource: z.string(),
    dn: z.string().nullable(),
    parentCaId: uuid.nullable(),
    serialNumber: z.string().nullable(),
    activeCaCertId: uuid.nullable(),
    crlDistributionPointUrls: z.array(z.string()),
    disableManagedCrlDistributionPointUrl: z.boolean(),
    nameConstraints: nameConstraints.nullable(),
    crlShards: z.number(),
  }),
  createdAt: moment,
  updatedAt: moment,
});
export type AuthorityView = z.input<typeof authority>;

export const createAuthority = endpoint({
  id: "createInternalCa",
  method: "POST",
  path,
  room,
  summary: "Create an authority. A root, and an intermediate whose parent is here, can issue at once",
  body: z.object({ name: name(64), status: status.default("active"), configuration, ...inProject.shape }),
  reply: authority,
  example: {
    body: {
      name: "root",
      status: "active",
      configuration: { type: "root", commonName: "Example Root", keyAlgorithm: "EC_prime256v1" },
    },
  },
});
export type NewAuthority = z.output<typeof createAuthority.body>;

const ofProject = z.object({ projectId: projectRef.optional() });
export const listAuthorities = endpoint({
  id: "listInternalCas",
  method: "GET",
  path,
  room,
  summary: "Authorities of a project, by name",
  query: ofProject,
  reply: z.array(authority),
});
export const listAllAuthorities = endpoint({
  id: "listCas",
  method: "GET",
  path: base,
  room,
  summary: "Authorities of every kind",
  query: ofProject,
  reply: z.object({ certificateAuthorities: z.array(authority) }),
});
export const getAuthority = endpoint({
  id: "getInternalCa",
  method: "GET",
  path: `${path}/{id}`,
  room,
  summary: "One authority",
  params: byId,
  reply: authority,
});
export const updateAuthority = endpoint({
  id: "updateInternalCa",
  method: "PATCH",
  path: `${path}/{id}`,
  room,
  summary: "Rename, disable or enable an authority, choose its active certificate, set its list addresses",
  params: byId,
  body: z.object({
    name: name(64).optional(),
    status: status.optional(),
    configuration: z
      .object({
        crlDistributionPointUrls: urls.optional(),
        disableManagedCrlDistributionPointUrl: z.boolean().optional(),
        activeCaCertId: uuid.optional(),
      })
      .optional(),
  }),
  reply: authority,
  example: { body: { status: "disabled" } },
});
export type AuthorityChange = z.output<typeof updateAuthority.body>;
export const deleteAuthority = endpoint({
  id: "deleteInternalCa",
  method: "DELETE",
  path: `${path}/{id}`,
  room,
  summary: "Delete an authority; revocation of what it issued goes on being served",
  params: byId,
  reply: authority,
});

export const caCertificate = z.object({
  certificate: z.string(),
  certificateChain: z.string(),
  serialNumber: z.string(),
  certId: uuid,
});

export const getCaCsr = endpoint({
  id: "getInternalCaCsr",
  method: "GET",
  path: `${path}/{caId}/csr`,
  room,
  summary: "A certification request for a parent elsewhere",
  params: ofCa,
  reply: z.object({ csr: z.string() }),
});
export const issueCaCertificate = endpoint({
  id: "issueInternalCaCertificate",
  method: "POST",
  path: `${path}/{caId}/certificate`,
  room,
  summary: "Issue a further certificate for the authority's present key and make it the active one",
  params: ofCa,
  body: z.object({
    notBefore: momentText.optional(),
    notAfter: momentText,
    maxPathLength: pathLength.nullish(),
    parentCaId: uuid.nullish(),
  }),
  reply: caCertificate,
  example: { body: { notAfter: "2035-01-01T00:00:00Z" } },
});
export const getCaCertificate = endpoint({
  id: "getInternalCaCertificate",
  method: "GET",
  path: `${path}/{caId}/certificate`,
  room,
  summary: "The active certificate and its chain",
  params: ofCa,
  reply: caCertificate,
});
export const listCaCertificates = endpoint({
  id: "listInternalCaCertificates",
  method: "GET",
  path: `${path}/{caId}/ca-certificates`,
  room,
  summary: "Every certificate of the authority, newest first",
  params: ofCa,
  reply: z.array(z.object({ ...caCertificate.shape, version: z.number() })),
});
export const downloadCaCertificate = endpoint({
  id: "downloadInternalCaCertificate",
  method: "GET",
  path: `${path}/{caId}/certificates/{caCertId}/der`,
  room,
  summary: "One of the authority's certificates, in DER",
  access: "public",
  params: z.object({ caId: uuid, caCertId: uuid }),
  reply: z.unknown(),
  replyType: "application/pkix-cert",
});
export const signIntermediate = endpoint({
  id: "signIntermediate",
  method: "POST",
  path: `${path}/{caId}/sign-intermediate`,
  room,
  summary: "Certify an authority that is run elsewhere, by its request",
  params: ofCa,
  body: z.object({
    csr: z.string().min(1).max(65_536),
    notBefore: momentText.optional(),
    notAfter: momentText,
    maxPathLength: pathLength.nullish(),
    nameConstraints: nameConstraints.nullish(),
  }),
  reply: z.object({
    certificate: z.string(),
    certificateChain: z.string(),
    issuingCaCertificate: z.string(),
    serialNumber: z.string(),
    certificateId: uuid,
  }),
  example: { body: { csr: "-----BEGIN CERTIFICATE REQUEST-----\n…", notAfter: "2030-01-01T00:00:00Z" } },
});
export type IntermediateWish = z.output<typeof signIntermediate.body>;
export const importCaCertificate = endpoint({
  id: "importInternalCaCertificate",
  method: "POST",
  path: `${path}/{caId}/import-certificate`,
  room,
  maxBodyBytes: LARGE_BODY,
  summary: "Take in the certificate that a parent elsewhere has issued",
  params: ofCa,
  body: z.object({
    certificate: z.string().min(1).max(65_536),
    certificateChain: z.string().max(1_000_000).default(""),
  }),
  reply: z.object({ message: z.string(), caId: uuid }),
  example: {
    body: {
      certificate: "-----BEGIN CERTIFICATE-----\n…",
      certificateChain: "-----BEGIN CERTIFICATE-----\n…",
    },
  },
});
export const renewAuthority = endpoint({
  id: "renewInternalCa",
  method: "POST",
  path: `${path}/{caId}/renew`,
  room,
  summary: "Renew the authority's certificate, with its key (existing) or with a new one (new)",
  params: ofCa,
  body: z.object({ type: z.enum(["existing", "new"]).default("existing"), notAfter: momentText }),
  reply: caCertificate,
  example: { body: { type: "existing", notAfter: "2036-01-01T00:00:00Z" } },
});
export const downloadIssuer = endpoint({
  id: "downloadIssuer",
  method: "GET",
  path: "/pki/ca/{certId}",
  room,
  summary: "An authority's certificate in DER, as certificates point to it",
  access: "public",
  params: z.object({ certId: uuid }),
  reply: z.unknown(),
  replyType: "application/pkix-cert",
});
