import { z } from "zod";
import { endpoint, idInOneSpelling, moment, name, queryInteger, uuid } from "../platform/http/endpoint.ts";
import { assignments, roleAssignment } from "../memberships/contract.ts";
import { projectRef } from "../projects/contract.ts";

const room = "identities";

export const metadataInput = z
  .array(z.object({ key: z.string().min(1).max(255), value: z.string().max(1020) }))
  .max(100);
export const metadataItem = z.object({ id: z.string(), key: z.string(), value: z.string() });

/** All ten fields, always: an empty list is a list. */
export const projectIdentity = z.object({
  id: uuid,
  name: z.string(),
  orgId: uuid,
  projectId: uuid,
  createdAt: moment,
  updatedAt: moment,
  hasDeleteProtection: z.boolean(),
  activeLockoutAuthMethods: z.array(z.string()),
  authMethods: z.array(z.string()),
  metadata: z.array(metadataItem),
});
export type ProjectIdentityView = z.input<typeof projectIdentity>;

const inProject = z.object({ projectId: projectRef });
const oneInProject = z.object({ projectId: projectRef, identityId: uuid });

export const createProjectIdentity = endpoint({
  id: "createProjectIdentity",
  method: "POST",
  path: "/api/v1/projects/{projectId}/identities",
  room,
  summary: "Create a machine identity in a project",
  params: inProject,
  body: z.object({
    name: name(255),
    hasDeleteProtection: z.boolean().default(false),
    metadata: metadataInput.default([]),
    roles: assignments.default([]),
  }),
  reply: z.object({ identity: projectIdentity }),
  example: {
    body: { name: "deploy-bot", roles: [{ role: "viewer" }], metadata: [{ key: "team", value: "core" }] },
  },
});
export type NewProjectIdentity = z.output<typeof createProjectIdentity.body>;

export const listProjectIdentities = endpoint({
  id: "listProjectIdentities",
  method: "GET",
  path: "/api/v1/projects/{projectId}/identities",
  room,
  summary: "The machine identities of a project, oldest first",
  params: inProject,
  query: z.object({
    offset: queryInteger(0, 1e9, 0),
    limit: queryInteger(1, 1000, 20),
    search: z.string().max(256).optional(),
  }),
  reply: z.object({ identities: z.array(projectIdentity), totalCount: z.number() }),
});

export const getProjectIdentity = endpoint({
  id: "getProjectIdentity",
  method: "GET",
  path: "/api/v1/projects/{projectId}/identities/{identityId}",
  room,
  summary: "One machine identity of a project",
  params: oneInProject,
  reply: z.object({ identity: projectIdentity }),
});

const identityChange = z.object({
  name: name(255).optional(),
  hasDeleteProtection: z.boolean().optional(),
  metadata: metadataInput.optional(),
});
export type IdentityChange = z.output<typeof identityChange>;

export const updateProjectIdentity = endpoint({
  id: "updateProjectIdentity",
  method: "PATCH",
  path: "/api/v1/projects/{projectId}/identities/{identityId}",
  room,
  summary: "Change a machine identity; a field that is present is applied, metadata replaces",
  params: oneInProject,
  body: identityChange,
  reply: z.object({ identity: projectIdentity }),
  example: { body: { name: "deploy-bot-2" } },
});

export const deleteProjectIdentity = endpoint({
  id: "deleteProjectIdentity",
  method: "DELETE",
  path: "/api/v1/projects/{projectId}/identities/{identityId}",
  room,
  summary: "Delete a machine identity: its credentials, tokens and streams end at once",
  params: oneInProject,
  reply: z.object({ identity: projectIdentity }),
});

// ---- of the organisation

export const orgIdentity = z.object({
  id: uuid,
  name: z.string(),
  authMethod: z.string().nullable(),
  orgId: uuid,
  projectId: uuid.nullable(),
  createdAt: moment,
  updatedAt: moment,
  hasDeleteProtection: z.boolean(),
  authMethods: z.array(z.string()),
  metadata: z.array(metadataItem),
});

const customRole = z.object({
  id: uuid,
  name: z.string(),
  slug: z.string(),
  description: z.string().nullable(),
});
/** An identity as a member of its organisation. */
export const orgIdentityMembership = z.object({
  id: uuid,
  role: z.string(),
  roleId: uuid.nullable(),
  orgId: uuid,
  createdAt: moment,
  updatedAt: moment,
  identityId: uuid,
  lastLoginAuthMethod: z.string().nullable(),
  lastLoginTime: moment.nullable(),
  customRole: customRole.optional(),
  metadata: z.array(metadataItem),
  identity: z.object({
    id: uuid,
    name: z.string(),
    hasDeleteProtection: z.boolean(),
    orgId: uuid,
    authMethods: z.array(z.string()),
    activeLockoutAuthMethods: z.array(z.string()),
  }),
});
export type OrgIdentityMembershipView = z.input<typeof orgIdentityMembership>;

export const createIdentity = endpoint({
  id: "createIdentity",
  method: "POST",
  path: "/api/v1/identities",
  room,
  summary: "Create a machine identity of the organisation",
  body: z.object({
    name: name(255),
    organizationId: z.string().max(64).overwrite(idInOneSpelling).optional(),
    role: roleAssignment.in.shape.role.default("no-access"),
    hasDeleteProtection: z.boolean().default(false),
    metadata: metadataInput.default([]),
  }),
  reply: z.object({ identity: orgIdentity }),
  example: { body: { name: "ci-runner", role: "member" } },
});
export type NewIdentity = z.output<typeof createIdentity.body>;

export const listIdentities = endpoint({
  id: "listIdentities",
  method: "GET",
  path: "/api/v1/identities",
  room,
  summary: "The machine identities of the organisation",
  query: z.object({
    orgId: z.string().max(64).overwrite(idInOneSpelling).optional(),
    offset: queryInteger(0, 1e9, 0),
    limit: queryInteger(1, 10_000, 10_000),
    search: z.string().max(256).optional(),
  }),
  reply: z.object({ identities: z.array(orgIdentityMembership), totalCount: z.number() }),
});

export const identityDetails = endpoint({
  id: "identityDetails",
  method: "GET",
  path: "/api/v1/identities/details",
  room,
  summary: "The organisation that the calling identity belongs to",
  reply: z.object({
    identityDetails: z.object({ organization: z.object({ id: uuid, name: z.string(), slug: z.string() }) }),
  }),
});

const one = z.object({ identityId: uuid });

export const getIdentity = endpoint({
  id: "getIdentity",
  method: "GET",
  path: "/api/v1/identities/{identityId}",
  room,
  summary: "One machine identity with its role in the organisation",
  params: one,
  reply: z.object({ identity: orgIdentityMembership }),
});

export const updateIdentity = endpoint({
  id: "updateIdentity",
  method: "PATCH",
  path: "/api/v1/identities/{identityId}",
  room,
  summary: "Change a machine identity or its role in the organisation",
  params: one,
  body: identityChange.extend({ role: z.string().min(1).max(64).optional() }),
  reply: z.object({ identity: orgIdentity }),
  example: { body: { name: "ci-runner-2" } },
});
export type OrgIdentityChange = z.output<typeof updateIdentity.body>;

export const deleteIdentity = endpoint({
  id: "deleteIdentity",
  method: "DELETE",
  path: "/api/v1/identities/{identityId}",
  room,
  summary: "Delete a machine identity",
  params: one,
  reply: z.object({ identity: orgIdentity }),
});
