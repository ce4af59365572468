import { z } from "zod";
import { endpoint, moment, queryInteger, uuid } from "../../platform/http/endpoint.ts";
import { projectRef } from "../contract.ts";

const room = "projects";
const PATH = "/api/v1/organization-admin/projects";

export const listAllProjects = endpoint({
  id: "listAllProjects",
  method: "GET",
  path: PATH,
  room,
  summary: "Every project of the organisation, for its admins, whether they are members or not",
  query: z.object({
    offset: queryInteger(0, 1e9, 0),
    limit: queryInteger(1, 1000, 50),
    search: z.string().max(256).optional(),
  }),
  reply: z.object({
    projects: z.array(
      z.object({
        id: uuid,
        name: z.string(),
        slug: z.string(),
        type: z.string(),
        orgId: uuid,
        createdAt: moment,
        updatedAt: moment,
        /** Whether somebody is left who can give rights in it. */
        hasAdmin: z.boolean(),
      }),
    ),
    count: z.number(),
  }),
});

export const grantAdminAccess = endpoint({
  id: "grantAdminAccess",
  method: "POST",
  path: `${PATH}/{projectId}/grant-admin-access`,
  room,
  summary: "Become the admin of a project that has none left, as an admin of the organisation",
  description:
    "400 while a person, or an identity of the organisation, is a lasting admin of the project: it is theirs to let others in. It is written to the project's audit log. Roles that the caller holds there already stay, and so do their denials.",
  params: z.object({ projectId: projectRef }),
  reply: z.object({
    membership: z.object({ id: uuid, projectId: uuid, createdAt: moment, updatedAt: moment }),
  }),
});
