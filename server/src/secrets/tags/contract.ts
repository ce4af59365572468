import { z } from "zod";
import { endpoint, moment, uuid } from "../../platform/http/endpoint.ts";
import { projectRef } from "../../projects/contract.ts";

const room = "secrets";
const slug = z
  .string()
  .trim()
  .min(1)
  .max(64)
  .regex(/^[A-Za-z0-9_-]+$/, "must consist of letters, digits, - and _");
const color = z.string().max(64);
const tagName = z.string().trim().max(64);

export const tag = z.object({
  id: uuid,
  slug: z.string(),
  name: z.string(),
  color: z.string(),
  projectId: uuid,
  createdAt: moment,
  updatedAt: moment,
});

const inProject = z.object({ projectId: projectRef });
const one = z.object({ projectId: projectRef, tagId: uuid });
const bySlug = z.object({ projectId: projectRef, tagSlug: z.string().min(1).max(64) });
const newTag = z.object({ slug, name: tagName.optional(), color: color.default("") });
export type NewTag = z.output<typeof newTag>;
const tagChange = z.object({ slug: slug.optional(), name: tagName.optional(), color: color.optional() });
export type TagChange = z.output<typeof tagChange>;

const PATH = "/api/v1/projects/{projectId}/tags";
const OLD = "/api/v1/workspace/{projectId}/tags";
const example = { body: { slug: "database", name: "Database", color: "#224466" } };
const change = { body: { name: "Databases" } };
const wrapped = z.object({ tag });
const old = z.object({ workspaceTag: tag });

export const listTags = endpoint({
  id: "listTags",
  method: "GET",
  path: PATH,
  room,
  summary: "The tags of a project",
  params: inProject,
  reply: z.object({ tags: z.array(tag) }),
});
export const createTag = endpoint({
  id: "createTag",
  method: "POST",
  path: PATH,
  room,
  summary: "Create a tag",
  params: inProject,
  body: newTag,
  reply: wrapped,
  example,
});
export const getTag = endpoint({
  id: "getTag",
  method: "GET",
  path: `${PATH}/{tagId}`,
  room,
  summary: "One tag by id",
  params: one,
  reply: wrapped,
});
export const getTagBySlug = endpoint({
  id: "getTagBySlug",
  method: "GET",
  path: `${PATH}/slug/{tagSlug}`,
  room,
  summary: "One tag by slug",
  params: bySlug,
  reply: wrapped,
});
export const updateTag = endpoint({
  id: "updateTag",
  method: "PATCH",
  path: `${PATH}/{tagId}`,
  room,
  summary: "Change a tag",
  params: one,
  body: tagChange,
  reply: wrapped,
  example: change,
});
export const deleteTag = endpoint({
  id: "deleteTag",
  method: "DELETE",
  path: `${PATH}/{tagId}`,
  room,
  summary: "Delete a tag; secrets lose it",
  params: one,
  reply: wrapped,
});

export const listWorkspaceTags = endpoint({
  id: "listWorkspaceTags",
  method: "GET",
  path: OLD,
  room,
  summary: "The tags of a project, as older clients read them",
  params: inProject,
  reply: z.object({ workspaceTags: z.array(tag) }),
});
export const createWorkspaceTag = endpoint({
  id: "createWorkspaceTag",
  method: "POST",
  path: OLD,
  room,
  summary: "Create a tag, as older clients read it",
  params: inProject,
  body: newTag,
  reply: old,
  example,
});
export const getWorkspaceTag = endpoint({
  id: "getWorkspaceTag",
  method: "GET",
  path: `${OLD}/{tagId}`,
  room,
  summary: "One tag by id, as older clients read it",
  params: one,
  reply: old,
});
export const getWorkspaceTagBySlug = endpoint({
  id: "getWorkspaceTagBySlug",
  method: "GET",
  path: `${OLD}/slug/{tagSlug}`,
  room,
  summary: "One tag by slug, as older clients read it",
  params: bySlug,
  reply: old,
});
export const updateWorkspaceTag = endpoint({
  id: "updateWorkspaceTag",
  method: "PATCH",
  path: `${OLD}/{tagId}`,
  room,
  summary: "Change a tag, as older clients read it",
  params: one,
  body: tagChange,
  reply: old,
  example: change,
});
export const deleteWorkspaceTag = endpoint({
  id: "deleteWorkspaceTag",
  method: "DELETE",
  path: `${OLD}/{tagId}`,
  room,
  summary: "Delete a tag, as older clients read it",
  params: one,
  reply: old,
});
