import { serve, type Route, inOrganization, inProject } from "../platform/http/index.ts";
import * as contract from "./contract.ts";
import type { Roles } from "./service.ts";

export const roleRoutes = (roles: Roles): Route[] => [
  serve(
    contract.createProjectRole,
    async ({ actor, params, body }) => ({
      role: await roles.create(actor, params.projectId, body),
    }),
    inProject("create", "role"),
  ),
  serve(contract.listProjectRoles, async ({ actor, params }) => ({
    roles: await roles.list(actor, params.projectId),
  })),
  serve(contract.getProjectRole, async ({ actor, params }) => ({
    role: await roles.get(actor, params.projectId, params.roleSlug),
  })),
  serve(
    contract.updateProjectRole,
    async ({ actor, params, body }) => ({
      role: await roles.update(actor, params.projectId, params.roleId, body),
    }),
    inProject("edit", "role"),
  ),
  serve(
    contract.deleteProjectRole,
    async ({ actor, params }) => ({
      role: await roles.delete(actor, params.projectId, params.roleId),
    }),
    inProject("delete", "role"),
  ),
  serve(
    contract.createOrgRole,
    async ({ actor, body }) => ({
      role: await roles.create(actor, undefined, body),
    }),
    inOrganization("create", "role"),
  ),
  serve(contract.listOrgRoles, async ({ actor }) => ({ roles: await roles.list(actor, undefined) })),
  serve(contract.getOrgRole, async ({ actor, params }) => ({
    role: await roles.get(actor, undefined, params.roleSlug),
  })),
  serve(
    contract.updateOrgRole,
    async ({ actor, params, body }) => ({
      role: await roles.update(actor, undefined, params.roleId, body),
    }),
    inOrganization("edit", "role"),
  ),
  serve(
    contract.deleteOrgRole,
    async ({ actor, params }) => ({
      role: await roles.delete(actor, undefined, params.roleId),
    }),
    inOrganization("delete", "role"),
  ),
];
