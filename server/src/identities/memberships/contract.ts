import { z } from "zod";
import { endpoint, moment, queryInteger, uuid } from "../../platform/http/endpoint.ts";
import { assignments, heldRole } from "../../memberships/contract.ts";
import { projectRef } from "../../projects/contract.ts";
import { metadataItem } from "../contract.ts";

const room = "identities";

export const identityMembership = z.object({
  id: uuid,
  projectId: uuid,
  identityId: uuid,
  createdAt: moment,
  updatedAt: moment,
  roles: z.array(heldRole),
  lastLoginAuthMethod: z.string().nullable(),
  lastLoginTime: moment.nullable(),
  identity: z.object({
    id: uuid,
    name: z.string(),
    orgId: uuid,
    projectId: uuid.nullable(),
    hasDeleteProtection: z.boolean(),
    authMethods: z.array(z.string()),
    activeLockoutAuthMethods: z.array(z.string()),
    metadata: z.array(metadataItem),
  }),
  project: z.object({ id: uuid, name: z.string(), type: z.string() }),
});
export type IdentityMembershipView = z.input<typeof identityMembership>;

const one = z.object({ projectId: projectRef, identityId: uuid });
const PATH = "/api/v1/projects/{projectId}/memberships/identities/{identityId}";
const OLD_PATH = "/api/v2/workspace/{projectId}/identity-memberships/{identityId}";

export const addIdentityMembership = endpoint({
  id: "addIdentityMembership",
  method: "POST",
  path: PATH,
  aliases: [OLD_PATH],
  room,
  summary: "Take an identity of the organisation into a project",
  params: one,
  body: z.object({ role: z.string().min(1).max(64).optional(), roles: assignments.optional() }),
  reply: z.object({ identityMembership }),
  example: { body: { role: "viewer" } },
});

export const getIdentityMembership = endpoint({
  id: "getIdentityMembership",
  method: "GET",
  path: PATH,
  aliases: [OLD_PATH],
  room,
  summary: "An identity's membership in a project",
  params: one,
  reply: z.object({ identityMembership }),
});

export const getIdentityMembershipById = endpoint({
  id: "getIdentityMembershipById",
  method: "GET",
  path: "/api/v2/workspace/identity-memberships/{membershipId}",
  room,
  summary: "A membership by its own id",
  params: z.object({ membershipId: uuid }),
  reply: z.object({ identityMembership }),
});

export const listIdentityMemberships = endpoint({
  id: "listIdentityMemberships",
  method: "GET",
  path: "/api/v1/projects/{projectId}/memberships/identities",
  aliases: ["/api/v2/workspace/{projectId}/identity-memberships"],
  room,
  summary: "All identities that are members of a project",
  params: z.object({ projectId: projectRef }),
  query: z.object({
    offset: queryInteger(0, 1e9, 0),
    limit: queryInteger(1, 1000, 20),
    identityName: z.string().max(256).optional(),
  }),
  reply: z.object({ identityMemberships: z.array(identityMembership), totalCount: z.number() }),
});

export const updateIdentityMembership = endpoint({
  id: "updateIdentityMembership",
  method: "PATCH",
  path: PATH,
  aliases: [OLD_PATH],
  room,
  summary: "Replace the roles of an identity in a project",
  params: one,
  body: z.object({ roles: assignments.min(1) }),
  reply: z.object({ identityMembership, roles: z.array(heldRole) }),
  example: { body: { roles: [{ role: "viewer" }] } },
});

export const removeIdentityMembership = endpoint({
  id: "removeIdentityMembership",
  method: "DELETE",
  path: PATH,
  aliases: [OLD_PATH],
  room,
  summary: "Take an identity out of a project; its rights there end at once",
  params: one,
  reply: z.object({ identityMembership }),
});
