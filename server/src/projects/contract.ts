import { z } from "zod";
import { endpoint, idInOneSpelling, moment, name, slug, uuid } from "../platform/http/endpoint.ts";

export const projectType = z.enum(["secret-manager", "cert-manager"]);
export type ProjectType = z.output<typeof projectType>;

export const environmentRef = z.object({ id: uuid, name: z.string(), slug: z.string() });

/** The fields that clients of this API family read; those of features that Keyward does not have are constant. */
export const project = z.object({
  id: uuid,
  _id: uuid,
  name: z.string(),
  description: z.string().nullable(),
  type: z.string(),
  defaultProduct: z.string(),
  slug: z.string(),
  autoCapitalization: z.boolean(),
  orgId: uuid,
  createdAt: moment,
  updatedAt: moment,
  version: z.number(),
  upgradeStatus: z.string().nullable(),
  /** How many versions of each secret are kept; null keeps all. */
  pitVersionLimit: z.number().nullable(),
  kmsCertificateKeyId: uuid.nullable(),
  kmsSecretManagerKeyId: uuid.nullable(),
  auditLogsRetentionDays: z.number().nullable(),
  hasDeleteProtection: z.boolean(),
  environments: z.array(environmentRef),
  deletedEnvironments: z.array(environmentRef),
});
export type ProjectView = z.input<typeof project>;

/** Never one that could be read as an id: when the project of that id is gone, the name would mean another. */
const projectSlug = slug(1, 64).refine(
  (text) => !z.uuid().safeParse(text).success,
  "must not look like an id",
);

/** An id or a slug: both work wherever a project is named. */
export const projectRef = z.string().min(1).max(64).overwrite(idInOneSpelling);
const params = z.object({ projectId: projectRef });
const room = "projects";

export const createProject = endpoint({
  id: "createProject",
  method: "POST",
  path: "/api/v1/projects",
  aliases: ["/api/v2/workspace"],
  room,
  summary: "Create a project; its creator becomes its admin",
  body: z.object({
    projectName: name(64),
    projectDescription: z.string().max(1024).nullish(),
    slug: projectSlug.optional(),
    type: projectType.default("secret-manager"),
    shouldCreateDefaultEnvs: z.boolean().default(true),
    hasDeleteProtection: z.boolean().default(false),
  }),
  reply: z.object({ project }),
  example: { body: { projectName: "Payments", type: "secret-manager" } },
});
export type NewProject = z.output<typeof createProject.body>;

export const listProjects = endpoint({
  id: "listProjects",
  method: "GET",
  path: "/api/v1/projects",
  room,
  summary: "The projects of your organisation that you are a member of",
  query: z.object({ type: z.string().max(64).optional() }),
  reply: z.object({ projects: z.array(project) }),
});

export const listWorkspaces = endpoint({
  id: "listWorkspaces",
  method: "GET",
  path: "/api/v1/workspace",
  room,
  summary: "The same list, as older clients read it",
  reply: z.object({ workspaces: z.array(project) }),
});

export const getProject = endpoint({
  id: "getProject",
  method: "GET",
  path: "/api/v1/projects/{projectId}",
  room,
  summary: "One project, by id or slug",
  params,
  reply: z.object({ project }),
});

export const getWorkspace = endpoint({
  id: "getWorkspace",
  method: "GET",
  path: "/api/v1/workspace/{projectId}",
  room,
  summary: "One project, as older clients read it",
  params,
  reply: z.object({ workspace: project }),
});

export const getProjectBySlug = endpoint({
  id: "getProjectBySlug",
  method: "GET",
  path: "/api/v1/projects/slug/{projectId}",
  aliases: ["/api/v2/workspace/{projectId}", "/api/v1/workspace/slug/{projectId}"],
  room,
  summary: "One project, not wrapped in a field",
  params,
  reply: project,
});

export const updateProject = endpoint({
  id: "updateProject",
  method: "PATCH",
  path: "/api/v1/projects/{projectId}",
  room,
  summary:
    "Change a project's name, description, slug, protection or how many versions of its secrets are kept",
  params,
  body: z.object({
    name: name(64).optional(),
    description: z.string().max(1024).nullish(),
    slug: projectSlug.optional(),
    hasDeleteProtection: z.boolean().optional(),
    pitVersionLimit: z.number().int().min(1).max(100).nullish(),
  }),
  reply: z.object({ project }),
  example: { body: { description: "Card payments" } },
});
export type ProjectChange = z.output<typeof updateProject.body>;

export const setAuditRetention = endpoint({
  id: "setAuditRetention",
  method: "PUT",
  path: "/api/v1/workspace/{projectId}/audit-logs-retention",
  room,
  summary: "How long the project's audit rows are kept, in days; needs edit on audit-logs",
  params,
  body: z.object({ auditLogsRetentionDays: z.number().int().min(0).max(36500) }),
  reply: z.object({ message: z.string(), workspace: project }),
  example: { body: { auditLogsRetentionDays: 90 } },
});

export const deleteProject = endpoint({
  id: "deleteProject",
  method: "DELETE",
  path: "/api/v1/projects/{projectId}",
  aliases: ["/api/v2/workspace/{projectId}", "/api/v1/workspace/{projectId}"],
  room,
  summary: "Delete a project and everything in it",
  params,
  reply: z.object({ project, workspace: project }),
});
