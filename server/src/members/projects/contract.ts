import { z } from "zod";
import { endpoint, moment, uuid } from "../../platform/http/endpoint.ts";
import { assignments, heldRole } from "../../memberships/contract.ts";
import { projectRef } from "../../projects/contract.ts";
import { email } from "../../users/contract.ts";
import { person, roleSlug, room, searchablePage } from "../contract.ts";

const membership = z.object({
  id: uuid,
  userId: uuid,
  projectId: uuid,
  createdAt: moment,
  updatedAt: moment,
});
export type ProjectMembershipView = z.input<typeof membership>;

export const projectMember = membership.extend({
  user: person,
  roles: z.array(heldRole),
  project: z.object({ id: uuid, name: z.string(), type: z.string() }),
});
export type ProjectMemberView = z.input<typeof projectMember>;

const PATH = "/api/v1/projects/{projectId}/memberships";
const OLD_PATH = "/api/v1/workspace/{projectId}/memberships";
const inProject = z.object({ projectId: projectRef });
const one = z.object({ projectId: projectRef, membershipId: uuid });
const ONE_PATH = { path: `${PATH}/{membershipId}`, aliases: [`${OLD_PATH}/{membershipId}`] };

export const addProjectMembers = endpoint({
  id: "addProjectMembers",
  method: "POST",
  path: PATH,
  aliases: [OLD_PATH, "/api/v2/workspace/{projectId}/memberships"],
  room,
  summary: "Take people of the organisation into a project: all of those named, or nobody",
  params: inProject,
  body: z
    .object({
      emails: z.array(email).max(100).default([]),
      // A username is the address.
      usernames: z.array(email).max(100).default([]),
      roleSlugs: z.array(roleSlug).min(1).max(50).default(["member"]),
    })
    .refine(({ emails, usernames }) => emails.length + usernames.length > 0, {
      path: ["emails"],
      message: "must name at least one person, here or in usernames",
    }),
  reply: z.object({ memberships: z.array(membership) }),
  example: { body: { emails: ["ada@example.com"], roleSlugs: ["member"] } },
});

export const listProjectMembers = endpoint({
  id: "listProjectMembers",
  method: "GET",
  path: PATH,
  aliases: [OLD_PATH],
  room,
  summary: "The people of a project and their roles",
  params: inProject,
  query: searchablePage,
  reply: z.object({ memberships: z.array(projectMember), totalCount: z.number() }),
});

export const getProjectMember = endpoint({
  id: "getProjectMember",
  method: "GET",
  ...ONE_PATH,
  room,
  summary: "One person's membership in a project",
  params: one,
  reply: z.object({ membership: projectMember }),
});

export const updateProjectMember = endpoint({
  id: "updateProjectMember",
  method: "PATCH",
  ...ONE_PATH,
  room,
  summary: "Replace a person's roles in a project",
  params: one,
  body: z.object({ roles: assignments.min(1) }),
  reply: z.object({ membership: projectMember, roles: z.array(heldRole) }),
  example: { body: { roles: [{ role: "viewer" }] } },
});

export const removeProjectMember = endpoint({
  id: "removeProjectMember",
  method: "DELETE",
  ...ONE_PATH,
  room,
  summary: "Take a person out of a project; their rights there end at once",
  params: one,
  reply: z.object({ membership: projectMember }),
});
