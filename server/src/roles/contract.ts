import { z } from "zod";
import { endpoint, moment, name, uuid, LARGE_BODY } from "../platform/http/endpoint.ts";
import { projectRef } from "../projects/contract.ts";

const room = "roles";

/** Rules are checked by the permission model, which names every unknown subject, action, attribute and operator. */
const rules = z.array(z.unknown());
const roleSlug = z
  .string()
  .min(1)
  .max(64)
  .regex(
    /^[a-z0-9]+(?:[-_][a-z0-9]+)*$/,
    "must be lower-case letters and digits, in groups joined by single - or _",
  );

const base = {
  id: uuid,
  name: z.string(),
  description: z.string().nullable(),
  slug: z.string(),
  createdAt: moment,
  updatedAt: moment,
};
export const role = z.object({
  ...base,
  permissions: z.array(z.unknown()),
  projectId: uuid.optional(),
  orgId: uuid,
});
export type RoleView = z.input<typeof role>;

const newRole = z.object({
  slug: roleSlug,
  name: name(255),
  description: z.string().max(1024).nullish(),
  permissions: rules,
});
export type NewRole = z.output<typeof newRole>;
const roleChange = z.object({
  slug: roleSlug.optional(),
  name: name(255).optional(),
  description: z.string().max(1024).nullish(),
  permissions: rules.optional(),
});
export type RoleChange = z.output<typeof roleChange>;

const inProject = z.object({ projectId: projectRef });
const PATH = "/api/v1/projects/{projectId}/roles";
const example = {
  body: {
    slug: "dev-reader",
    name: "Reader of dev",
    permissions: [{ subject: "secrets", action: ["readValue"], conditions: { environment: { $eq: "dev" } } }],
  },
};
const changeExample = { body: { name: "Reader" } };

export const createProjectRole = endpoint({
  id: "createProjectRole",
  method: "POST",
  path: PATH,
  room,
  maxBodyBytes: LARGE_BODY,
  summary: "Create a custom role in a project",
  params: inProject,
  body: newRole,
  reply: z.object({ role }),
  example,
});
export const listProjectRoles = endpoint({
  id: "listProjectRoles",
  method: "GET",
  path: PATH,
  room,
  summary: "The built-in and custom roles of a project",
  params: inProject,
  reply: z.object({ roles: z.array(role) }),
});
export const getProjectRole = endpoint({
  id: "getProjectRole",
  method: "GET",
  path: `${PATH}/slug/{roleSlug}`,
  room,
  summary: "One role with its rules",
  params: z.object({ projectId: projectRef, roleSlug: z.string().max(64) }),
  reply: z.object({ role }),
});
export const updateProjectRole = endpoint({
  id: "updateProjectRole",
  method: "PATCH",
  path: `${PATH}/{roleId}`,
  room,
  maxBodyBytes: LARGE_BODY,
  summary: "Change a custom role; whoever holds it feels it at once",
  params: z.object({ projectId: projectRef, roleId: uuid }),
  body: roleChange,
  reply: z.object({ role }),
  example: changeExample,
});
export const deleteProjectRole = endpoint({
  id: "deleteProjectRole",
  method: "DELETE",
  path: `${PATH}/{roleId}`,
  room,
  summary: "Delete a custom role; whoever holds it loses it",
  params: z.object({ projectId: projectRef, roleId: uuid }),
  reply: z.object({ role }),
});

const ORG_PATH = "/api/v1/organization/roles";
const orgExample = {
  body: { slug: "auditor", name: "Auditor", permissions: [{ subject: "audit-logs", action: ["read"] }] },
};
export const createOrgRole = endpoint({
  id: "createOrganizationRole",
  method: "POST",
  path: ORG_PATH,
  room,
  maxBodyBytes: LARGE_BODY,
  summary: "Create a custom role in the organisation",
  body: newRole,
  reply: z.object({ role }),
  example: orgExample,
});
export const listOrgRoles = endpoint({
  id: "listOrganizationRoles",
  method: "GET",
  path: ORG_PATH,
  room,
  summary: "The built-in and custom roles of the organisation",
  reply: z.object({ roles: z.array(role) }),
});
export const getOrgRole = endpoint({
  id: "getOrganizationRole",
  method: "GET",
  path: `${ORG_PATH}/slug/{roleSlug}`,
  room,
  summary: "One role of the organisation",
  params: z.object({ roleSlug: z.string().max(64) }),
  reply: z.object({ role }),
});
export const updateOrgRole = endpoint({
  id: "updateOrganizationRole",
  method: "PATCH",
  path: `${ORG_PATH}/{roleId}`,
  room,
  maxBodyBytes: LARGE_BODY,
  summary: "Change a custom role of the organisation",
  params: z.object({ roleId: uuid }),
  body: roleChange,
  reply: z.object({ role }),
  example: changeExample,
});
export const deleteOrgRole = endpoint({
  id: "deleteOrganizationRole",
  method: "DELETE",
  path: `${ORG_PATH}/{roleId}`,
  room,
  summary: "Delete a custom role of the organisation",
  params: z.object({ roleId: uuid }),
  reply: z.object({ role }),
});
