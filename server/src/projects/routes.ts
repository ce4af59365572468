import { serve, type Route, inOrganization, inProject, toThing } from "../platform/http/index.ts";
import * as contract from "./contract.ts";
import * as environments from "./environments/contract.ts";
import type { Environments } from "./environments/service.ts";
import * as access from "./access/contract.ts";
import type { ProjectAccess } from "./access/service.ts";
import type { Projects } from "./service.ts";

const changed = (message: string, environment: environments.EnvironmentView) => ({
  message,
  projectId: environment.projectId,
  workspace: environment.projectId,
  environment,
});

export const projectRoutes = (projects: Projects, envs: Environments, taking: ProjectAccess): Route[] => [
  serve(access.listAllProjects, ({ actor, query }) => taking.list(actor, query)),
  serve(
    access.grantAdminAccess,
    async ({ actor, params }) => ({
      membership: await taking.grantAdmin(actor, params.projectId),
    }),
    toThing((actor) => taking.requireOrgAdmin(actor)),
  ),
  serve(
    contract.createProject,
    async ({ actor, body }) => ({ project: await projects.create(actor, body) }),
    inOrganization("create", "workspace"),
  ),
  serve(contract.listProjects, async ({ actor, query }) => ({
    projects: await projects.list(actor, query.type),
  })),
  serve(contract.listWorkspaces, async ({ actor }) => ({
    workspaces: await projects.list(actor, undefined),
  })),
  serve(contract.getProject, async ({ actor, params }) => ({
    project: await projects.get(actor, params.projectId),
  })),
  serve(contract.getWorkspace, async ({ actor, params }) => ({
    workspace: await projects.get(actor, params.projectId),
  })),
  serve(contract.getProjectBySlug, ({ actor, params }) => projects.get(actor, params.projectId)),
  serve(
    contract.updateProject,
    async ({ actor, params, body }) => ({
      project: await projects.update(actor, params.projectId, body),
    }),
    inProject("edit", "workspace"),
  ),
  serve(
    contract.setAuditRetention,
    async ({ actor, params, body }) => ({
      message: "The retention of the audit log was changed.",
      workspace: await projects.setAuditRetention(actor, params.projectId, body.auditLogsRetentionDays),
    }),
    inProject("edit", "audit-logs"),
  ),
  serve(
    contract.deleteProject,
    async ({ actor, params }) => {
      const project = await projects.delete(actor, params.projectId);
      return { project, workspace: project };
    },
    inProject("delete", "workspace"),
  ),
  serve(
    environments.createEnvironment,
    async ({ actor, params, body }) =>
      changed("The environment was created.", await envs.create(actor, params.projectId, body)),
    inProject("create", "environments"),
  ),
  serve(
    environments.updateEnvironment,
    async ({ actor, params, body }) =>
      changed("The environment was changed.", await envs.update(actor, params.projectId, params.id, body)),
    inProject("edit", "environments"),
  ),
  serve(
    environments.deleteEnvironment,
    async ({ actor, params }) =>
      changed("The environment was deleted.", await envs.delete(actor, params.projectId, params.id)),
    inProject("delete", "environments"),
  ),
  serve(environments.getEnvironment, async ({ actor, params }) => ({
    environment: await envs.get(actor, params.projectId, params.id),
  })),
  serve(environments.getEnvironmentById, async ({ actor, params }) => ({
    environment: await envs.getById(actor, params.envId),
  })),
  serve(environments.getEnvironmentBySlug, async ({ actor, params }) => {
    const environment = await envs.getBySlug(actor, params.projectId, params.slug);
    return { ...environment, environment };
  }),
];
