import { z } from "zod";
import { endpoint, moment, name, slug, uuid } from "../../platform/http/endpoint.ts";
import { projectRef } from "../contract.ts";

export const environment = z.object({
  id: uuid,
  name: z.string(),
  slug: z.string(),
  position: z.number(),
  projectId: uuid,
  createdAt: moment,
  updatedAt: moment,
});
export type EnvironmentView = z.input<typeof environment>;

const room = "projects";
const changed = z.object({ message: z.string(), projectId: uuid, workspace: uuid, environment });
const one = z.object({ projectId: projectRef, id: uuid });

export const createEnvironment = endpoint({
  id: "createEnvironment",
  method: "POST",
  path: "/api/v1/projects/{projectId}/environments",
  aliases: ["/api/v1/workspace/{projectId}/environments"],
  room,
  summary: "Add an environment to a project",
  params: z.object({ projectId: projectRef }),
  body: z.object({
    name: name(255),
    slug: slug(1, 64),
    position: z.number().int().min(1).max(10_000).optional(),
  }),
  reply: changed,
  example: { body: { name: "Quality assurance", slug: "qa" } },
});

export const updateEnvironment = endpoint({
  id: "updateEnvironment",
  method: "PATCH",
  path: "/api/v1/projects/{projectId}/environments/{id}",
  aliases: ["/api/v1/workspace/{projectId}/environments/{id}"],
  room,
  summary: "Rename or reorder an environment",
  params: one,
  body: z.object({
    name: name(255).optional(),
    slug: slug(1, 64).optional(),
    position: z.number().int().min(1).max(10_000).optional(),
  }),
  reply: changed,
  example: { body: { name: "Testing" } },
});

export const deleteEnvironment = endpoint({
  id: "deleteEnvironment",
  method: "DELETE",
  path: "/api/v1/projects/{projectId}/environments/{id}",
  aliases: ["/api/v1/workspace/{projectId}/environments/{id}"],
  room,
  summary: "Delete an environment and what is in it",
  params: one,
  reply: changed,
});

export const getEnvironment = endpoint({
  id: "getEnvironment",
  method: "GET",
  path: "/api/v1/projects/{projectId}/environments/{id}",
  room,
  summary: "One environment by id",
  params: one,
  reply: z.object({ environment }),
});

export const getEnvironmentById = endpoint({
  id: "getEnvironmentById",
  method: "GET",
  path: "/api/v1/workspace/environments/{envId}",
  room,
  summary: "One environment by its id alone",
  params: z.object({ envId: uuid }),
  reply: z.object({ environment }),
});

/** Some clients read the fields wrapped, others at the top: both are answered. */
export const getEnvironmentBySlug = endpoint({
  id: "getEnvironmentBySlug",
  method: "GET",
  path: "/api/v1/projects/{projectId}/environments/slug/{slug}",
  room,
  summary: "One environment by its slug",
  params: z.object({ projectId: projectRef, slug: z.string().min(1).max(64) }),
  reply: environment.extend({ environment }),
});
