import { z } from "zod";
import { endpoint, moment, uuid } from "../platform/http/endpoint.ts";
import { projectRef } from "../projects/contract.ts";
import {
  algorithmText,
  altName,
  basicConstraintsWish,
  byId,
  extendedKeyUsageWord,
  inProject,
  keyUsageWord,
  paging,
} from "../certificates/contract.ts";

const room = "certificates";
const path = "/api/v1/cert-manager/certificate-profiles";

export const profileSlug = z.string().trim().min(1).max(255);
const part = z.string().max(255).optional();

export const profileDefaults = z.object({
  ttlDays: z.number().int().min(0).max(36_500).optional(),
  commonName: part,
  keyAlgorithm: algorithmText.optional(),
  signatureAlgorithm: algorithmText.optional(),
  keyUsages: z.array(keyUsageWord).max(20).optional(),
  extendedKeyUsages: z.array(extendedKeyUsageWord).max(20).optional(),
  basicConstraints: basicConstraintsWish.optional(),
  organization: part,
  organizationalUnit: part,
  country: part,
  state: part,
  locality: part,
  subjectAltNames: z.array(altName).max(100).optional(),
  domainComponents: z.array(z.string().min(1).max(255)).max(50).optional(),
});
export type ProfileDefaults = z.output<typeof profileDefaults>;

/** How the server renews by itself: so many days before the end, or so many hundredths of the lifetime. */
export const renewalConfig = z.object({
  autoRenew: z.boolean().default(false),
  renewBeforeDays: z.number().int().min(1).max(3650).nullish(),
  renewBeforePercent: z.number().int().min(1).max(50).nullish(),
});

/** What a change leaves out stays; of the two ways to say when, the one that is sent counts. */
const renewalChange = renewalConfig.extend({ autoRenew: z.boolean().optional() });

const issuerType = z.enum(["ca", "self-signed"]);
const externalConfigs = z.record(z.string(), z.unknown()).nullish();

export const profile = z.object({
  id: uuid,
  projectId: uuid,
  caId: uuid.nullable(),
  certificatePolicyId: uuid,
  slug: z.string(),
  description: z.string().nullable(),
  enrollmentType: z.string(),
  issuerType: z.string(),
  externalConfigs: z.record(z.string(), z.unknown()).nullable(),
  defaults: profileDefaults.nullable(),
  estConfigId: uuid.nullable(),
  apiConfigId: uuid.nullable(),
  acmeConfigId: uuid.nullable(),
  scepConfigId: uuid.nullable(),
  apiConfig: z.object({
    id: uuid,
    autoRenew: z.boolean(),
    renewBeforeDays: z.number().nullable(),
    renewBeforePercent: z.number().nullable(),
  }),
  certificateAuthority: z
    .object({
      id: uuid,
      status: z.string(),
      name: z.string(),
      isExternal: z.boolean(),
      externalType: z.string().nullable(),
    })
    .nullable(),
  certificatePolicy: z.object({ id: uuid, name: z.string(), description: z.string().nullable() }),
  createdAt: moment,
  updatedAt: moment,
});
export type ProfileView = z.input<typeof profile>;

const reply = z.object({ certificateProfile: profile });
const example = {
  caId: "00000000-0000-7000-8000-000000000001",
  certificatePolicyId: "00000000-0000-7000-8000-000000000002",
  slug: "web-servers",
  defaults: { ttlDays: 90 },
};

export const createProfile = endpoint({
  id: "createCertificateProfile",
  method: "POST",
  path,
  room,
  summary: "Create a profile: an authority, a policy and defaults under one slug",
  body: z.object({
    caId: uuid.nullish(),
    certificatePolicyId: uuid,
    slug: profileSlug,
    description: z.string().max(255).nullish(),
    issuerType: issuerType.default("ca"),
    enrollmentType: z.enum(["api", "est", "acme", "scep"]).default("api"),
    externalConfigs,
    defaults: profileDefaults.nullish(),
    apiConfig: renewalConfig.nullish(),
    ...inProject.shape,
  }),
  reply,
  example: { body: example },
});
export type NewProfile = z.output<typeof createProfile.body>;

export const listProfiles = endpoint({
  id: "listCertificateProfiles",
  method: "GET",
  path,
  room,
  summary: "Profiles of a project, by slug",
  query: z.object({
    ...paging,
    search: z.string().max(256).optional(),
    caId: uuid.optional(),
    issuerType: issuerType.optional(),
    applicationId: uuid.optional(),
    projectId: projectRef.optional(),
  }),
  reply: z.object({ certificateProfiles: z.array(profile), totalCount: z.number() }),
});
export type ProfileQuery = z.output<typeof listProfiles.query>;

export const getProfile = endpoint({
  id: "getCertificateProfile",
  method: "GET",
  path: `${path}/{id}`,
  room,
  summary: "One profile",
  params: byId,
  reply,
});
export const getProfileBySlug = endpoint({
  id: "getCertificateProfileBySlug",
  method: "GET",
  path: `${path}/slug/{slug}`,
  room,
  summary: "The profile of a slug, in the project or in the organisation's certificate project",
  params: z.object({ slug: profileSlug }),
  query: inProject,
  reply,
});
export const updateProfile = endpoint({
  id: "updateCertificateProfile",
  method: "PATCH",
  path: `${path}/{id}`,
  room,
  summary: "Change a profile; certificates it has issued stay as they are",
  params: byId,
  body: z.object({
    caId: uuid.nullish(),
    certificatePolicyId: uuid.optional(),
    slug: profileSlug.optional(),
    description: z.string().max(255).nullish(),
    issuerType: issuerType.optional(),
    externalConfigs,
    defaults: profileDefaults.nullish(),
    apiConfig: renewalChange.nullish(),
  }),
  reply,
  example: { body: { description: "Short-lived server certificates" } },
});
export type ProfileChange = z.output<typeof updateProfile.body>;
export const deleteProfile = endpoint({
  id: "deleteCertificateProfile",
  method: "DELETE",
  path: `${path}/{id}`,
  room,
  summary: "Delete a profile; its certificates stay in the project's inventory",
  params: byId,
  reply,
});
