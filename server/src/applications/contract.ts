import { z } from "zod";
import { endpoint, moment, name, uuid } from "../platform/http/endpoint.ts";
import { projectRef } from "../projects/contract.ts";
import { inProject, paging } from "../certificates/contract.ts";

const room = "certificates";
const path = "/api/v1/cert-manager/applications";
const params = z.object({ applicationId: uuid });

export const application = z.object({
  id: uuid,
  projectId: uuid,
  name: z.string(),
  description: z.string().nullable(),
  createdAt: moment,
  updatedAt: moment,
});
const listed = z.object({
  ...application.shape,
  profileCount: z.number(),
  memberCount: z.number(),
  certificateCount: z.number(),
});
const attached = z.object({
  applicationId: uuid,
  profileId: uuid,
  profileSlug: z.string(),
  profileDescription: z.string().nullable(),
  estConfigId: uuid.nullable(),
  apiConfigId: uuid.nullable(),
  acmeConfigId: uuid.nullable(),
  scepConfigId: uuid.nullable(),
  createdAt: moment,
  updatedAt: moment,
});
const reply = z.object({ application });
const profileIds = z.array(uuid).max(100);

export const createApplication = endpoint({
  id: "createPkiApplication",
  method: "POST",
  path,
  room,
  summary: "Create an application: a consumer of certificates and the profiles it may use",
  body: z.object({
    name: name(64),
    description: z.string().max(256).nullish(),
    profileIds: profileIds.default([]),
    ...inProject.shape,
  }),
  reply,
  example: { body: { name: "checkout" } },
});
export type NewApplication = z.output<typeof createApplication.body>;
export const listApplications = endpoint({
  id: "listPkiApplications",
  method: "GET",
  path,
  room,
  summary: "Applications of a project, by name",
  query: z.object({ ...paging, search: z.string().max(256).optional(), projectId: projectRef.optional() }),
  reply: z.object({ applications: z.array(listed), total: z.number() }),
});
export const getApplication = endpoint({
  id: "getPkiApplication",
  method: "GET",
  path: `${path}/{applicationId}`,
  room,
  summary: "One application",
  params,
  reply,
});
export const getApplicationByName = endpoint({
  id: "getPkiApplicationByName",
  method: "GET",
  path: `${path}/by-name/{name}`,
  room,
  summary: "The application of a name",
  params: z.object({ name: name(64) }),
  query: inProject,
  reply,
});
export const updateApplication = endpoint({
  id: "updatePkiApplication",
  method: "PATCH",
  path: `${path}/{applicationId}`,
  room,
  summary: "Rename or describe an application",
  params,
  body: z.object({ name: name(64).optional(), description: z.string().max(256).nullish() }),
  reply,
  example: { body: { description: "Pays and ships" } },
});
export const deleteApplication = endpoint({
  id: "deletePkiApplication",
  method: "DELETE",
  path: `${path}/{applicationId}`,
  room,
  summary: "Delete an application; its certificates stay",
  params,
  reply,
});
export const listApplicationProfiles = endpoint({
  id: "listPkiApplicationProfiles",
  method: "GET",
  path: `${path}/{applicationId}/profiles`,
  room,
  summary: "The profiles an application may use",
  params,
  reply: z.object({ profiles: z.array(attached) }),
});
export const attachProfiles = endpoint({
  id: "attachPkiApplicationProfiles",
  method: "POST",
  path: `${path}/{applicationId}/profiles`,
  room,
  summary: "Attach profiles to an application",
  params,
  body: z.object({ profileIds: profileIds.min(1) }),
  reply: z.object({ profiles: z.array(attached) }),
  example: { body: { profileIds: ["00000000-0000-7000-8000-000000000001"] } },
});
export const detachProfile = endpoint({
  id: "detachPkiApplicationProfile",
  method: "DELETE",
  path: `${path}/{applicationId}/profiles/{profileId}`,
  room,
  summary: "Detach a profile from an application",
  params: z.object({ applicationId: uuid, profileId: uuid }),
  reply: z.object({ profiles: z.array(attached) }),
});
