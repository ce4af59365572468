import { z } from "zod";
import { endpoint, moment, queryInteger, uuid, LARGE_BODY } from "../platform/http/endpoint.ts";
import { projectRef } from "../projects/contract.ts";
import { byId, finding, momentText, paging } from "../certificates/contract.ts";

const room = "certificates";
const path = "/api/v1/cert-manager/certificates";
const status = z.enum(["active", "expired", "revoked"]);

export const listProfileCertificates = endpoint({
  id: "listCertificateProfileCertificates",
  method: "GET",
  path: "/api/v1/cert-manager/certificate-profiles/{id}/certificates",
  room,
  summary: "Certificates issued under a profile, newest first",
  params: byId,
  query: z.object({ ...paging, status: status.optional(), search: z.string().max(256).optional() }),
  reply: z.object({
    certificates: z.array(
      z.object({
        id: z.string(),
        serialNumber: z.string(),
        cn: z.string(),
        status,
        notBefore: moment,
        notAfter: moment,
        revokedAt: moment.nullable(),
        createdAt: moment,
      }),
    ),
  }),
  example: { query: { limit: "20", status: "active" } },
});
export type ProfileListQuery = z.output<typeof listProfileCertificates.query>;

const bundle = z.object({
  certificate: z.string(),
  certificateChain: z.string().nullable(),
  privateKey: z.string().nullable(),
  serialNumber: z.string(),
});

export const latestActiveBundle = endpoint({
  id: "getLatestActiveBundle",
  method: "GET",
  path: "/api/v1/cert-manager/certificate-profiles/{id}/certificates/latest-active-bundle",
  room,
  summary: "The newest active certificate of a profile, with chain and key",
  params: byId,
  reply: z.object({
    certificate: z.string().nullable(),
    certificateChain: z.string().nullable(),
    privateKey: z.string().nullable(),
    serialNumber: z.string().nullable(),
  }),
});

const text = z.string().nullable();
export const certificate = z.object({
  id: uuid,
  projectId: uuid,
  createdAt: moment,
  updatedAt: moment,
  caId: uuid.nullable(),
  status,
  serialNumber: z.string(),
  friendlyName: z.string(),
  commonName: z.string(),
  notBefore: moment,
  notAfter: moment,
  revokedAt: moment.nullable(),
  revocationReason: z.number().nullable(),
  altNames: text,
  caCertId: uuid.nullable(),
  certificateTemplateId: uuid.nullable(),
  keyUsages: z.array(z.string()),
  extendedKeyUsages: z.array(z.string()),
  profileId: uuid.nullable(),
  renewBeforeDays: z.number().nullable(),
  renewedFromCertificateId: uuid.nullable(),
  renewedByCertificateId: uuid.nullable(),
  renewalError: text,
  renewAt: moment.nullable(),
  keyAlgorithm: text,
  signatureAlgorithm: text,
  subjectOrganization: text,
  subjectOrganizationalUnit: text,
  subjectCountry: text,
  subjectState: text,
  subjectLocality: text,
  fingerprintSha256: z.string(),
  fingerprintSha1: z.string(),
  isCA: z.boolean(),
  pathLength: z.number().nullable(),
  source: z.string(),
  applicationId: uuid.nullable(),
  keySource: z.string(),
  subject: z.object({
    commonName: z.string().optional(),
    organization: z.string().optional(),
    organizationalUnit: z.string().optional(),
    country: z.string().optional(),
    state: z.string().optional(),
    locality: z.string().optional(),
    domainComponents: z.array(z.string()).optional(),
  }),
  fingerprints: z.object({ sha256: z.string(), sha1: z.string() }),
  basicConstraints: z.object({ isCA: z.boolean(), pathLength: z.number().optional() }),
  caName: text,
  caType: text,
  profileName: text,
  applicationName: text,
  hasPrivateKey: z.boolean(),
  metadata: z.array(z.object({ key: z.string(), value: z.string() })),
});
export type CertificateView = z.input<typeof certificate>;

export const getCertificate = endpoint({
  id: "getCertificate",
  method: "GET",
  path: `${path}/{id}`,
  room,
  summary: "One certificate",
  params: byId,
  reply: z.object({ certificate }),
});
export const getCertificateBody = endpoint({
  id: "getCertificateBody",
  method: "GET",
  path: `${path}/{id}/certificate`,
  room,
  summary: "A certificate and its chain as PEM, root last",
  params: byId,
  reply: z.object({
    certificate: z.string(),
    certificateChain: z.string().nullable(),
    serialNumber: z.string(),
  }),
});
export const getBundle = endpoint({
  id: "getCertificateBundle",
  method: "GET",
  path: `${path}/{id}/bundle`,
  room,
  summary: "A certificate with chain and, where it is kept here and the caller may read it, its private key",
  params: byId,
  reply: bundle,
});
export const getPrivateKey = endpoint({
  id: "getCertificatePrivateKey",
  method: "GET",
  path: `${path}/{id}/private-key`,
  room,
  summary: "The private key alone, as PEM",
  params: byId,
  reply: z.string(),
});
export const exportKeystore = endpoint({
  id: "exportKeystore",
  method: "POST",
  path: `${path}/{id}/keystore`,
  aliases: [`${path}/{id}/pkcs12`],
  room,
  summary: "Certificate, chain and key in one file under a password: PKCS#12 or JKS",
  params: byId,
  body: z.object({
    format: z.enum(["pkcs12", "jks"]).default("pkcs12"),
    password: z.string().min(6).max(255),
    alias: z.string().min(1).max(255).optional(),
  }),
  reply: z.unknown(),
  replyType: ["application/x-pkcs12", "application/octet-stream"],
  example: { body: { format: "pkcs12", password: "a password" } },
});
export const setRenewal = endpoint({
  id: "setCertificateRenewal",
  method: "PATCH",
  path: `${path}/{id}/config`,
  room,
  summary:
    "Turn automatic renewal of one certificate, and of those that replace it, on or off, whatever its profile says",
  params: byId,
  body: z.object({
    renewBeforeDays: z.number().int().min(1).max(3650).optional(),
    enableAutoRenewal: z.boolean().optional(),
  }),
  reply: z.object({ message: z.string(), renewBeforeDays: z.number().optional() }),
  example: { body: { renewBeforeDays: 10 } },
});
export const deleteCertificate = endpoint({
  id: "deleteCertificate",
  method: "DELETE",
  path: `${path}/{id}`,
  room,
  summary:
    "Remove a certificate from the inventory: one that was imported, or one of ours that has expired. Until then its revocation must be known",
  params: byId,
  reply: z.object({ certificate }),
});
export const importCertificate = endpoint({
  id: "importCertificate",
  method: "POST",
  path: `${path}/import-certificate`,
  room,
  maxBodyBytes: LARGE_BODY,
  summary: "Take a certificate from elsewhere into the inventory",
  body: z.object({
    certificatePem: z.string().min(1).max(65_536),
    privateKeyPem: z.string().min(1).max(65_536).nullish(),
    chainPem: z.string().max(1_000_000).nullish(),
    friendlyName: z.string().max(255).optional(),
    applicationId: uuid.nullish(),
    profileId: uuid.nullish(),
    projectId: projectRef.optional(),
  }),
  reply: z.object({
    certificate: z.string(),
    certificateChain: z.string(),
    privateKey: z.string().optional(),
    serialNumber: z.string(),
    certificateId: uuid,
  }),
  example: { body: { certificatePem: "-----BEGIN CERTIFICATE-----\n…" } },
});
export type ImportInput = z.output<typeof importCertificate.body>;

const moments = { expiresBefore: momentText.optional(), issuedBefore: momentText.optional() };
export const certificateQuery = z.object({
  status: status.optional(),
  search: z.string().max(256).optional(),
  profileId: uuid.optional(),
  applicationId: uuid.optional(),
  caId: uuid.optional(),
  keyAlgorithm: z.string().max(64).optional(),
  source: z.enum(["issued", "imported"]).optional(),
  ...moments,
});
const inProjectPath = z.object({ projectId: projectRef });
const found = z.object({
  id: uuid,
  serialNumber: z.string(),
  commonName: z.string(),
  altNames: z.array(z.object({ type: z.string(), value: z.string() })),
  status,
  notBefore: moment,
  notAfter: moment,
  revokedAt: moment.nullable(),
  createdAt: moment,
  profileId: uuid.nullable(),
  profileSlug: text,
  caId: uuid.nullable(),
  applicationId: uuid.nullable(),
  keyAlgorithm: text,
  source: z.string(),
  isCA: z.boolean(),
  renewedByCertificateId: uuid.nullable(),
});

export const searchCertificates = endpoint({
  id: "searchCertificates",
  method: "GET",
  path: "/api/v1/projects/{projectId}/certificates/search",
  room,
  summary: "Certificates of a project, newest first; nextCursor leads to the next page",
  params: inProjectPath,
  query: z.object({
    ...certificateQuery.shape,
    cursor: z.string().max(200).optional(),
    limit: queryInteger(1, 1000, 20),
  }),
  reply: z.object({ certificates: z.array(found), nextCursor: z.string().nullable() }),
});
export const exportCertificates = endpoint({
  id: "exportCertificates",
  method: "GET",
  path: "/api/v1/projects/{projectId}/certificates/export",
  room,
  summary: "The same search as one stream: NDJSON or CSV",
  params: inProjectPath,
  query: z.object({ ...certificateQuery.shape, format: z.enum(["ndjson", "csv"]).default("ndjson") }),
  reply: z.unknown(),
  replyType: ["application/x-ndjson", "text/csv"],
});

const bulk = {
  query: certificateQuery.extend({
    status: z
      .literal("active", { error: "status can only be active here: nothing else can be revoked or renewed" })
      .optional(),
  }),
  dryRun: z.boolean().default(false),
  limit: z.number().int().min(1).max(10_000).default(1000),
};
const bulkReply = z.object({
  matched: z.number(),
  done: z.number(),
  failed: z.array(z.object({ id: uuid, message: z.string(), findings: z.array(finding).optional() })),
  dryRun: z.boolean(),
});
export const bulkRevoke = endpoint({
  id: "bulkRevokeCertificates",
  method: "POST",
  path: "/api/v1/projects/{projectId}/certificates/bulk-revoke",
  room,
  summary:
    "Revoke every active certificate that a query finds. dryRun revokes nothing; matched is then the number of those that were signed here and that the caller may revoke",
  params: inProjectPath,
  body: z.object({ ...bulk, revocationReason: z.string().max(64).default("UNSPECIFIED") }),
  reply: bulkReply,
  example: { body: { query: { search: "old.example.com" }, dryRun: true } },
});
export const bulkRenew = endpoint({
  id: "bulkRenewCertificates",
  method: "POST",
  path: "/api/v1/projects/{projectId}/certificates/bulk-renew",
  room,
  summary:
    "Renew every active certificate that a query finds and that was not renewed yet, the oldest first. To go on where limit stopped it, repeat it with issuedBefore, or the new ones are met in the end. dryRun renews nothing; matched is then the number of those with a key kept here that the caller may renew; a policy may still refuse some",
  params: inProjectPath,
  body: z.object(bulk),
  reply: bulkReply,
  example: { body: { query: { expiresBefore: "2030-01-01T00:00:00Z" }, dryRun: true } },
});
export type BulkInput = z.output<typeof bulkRenew.body>;
