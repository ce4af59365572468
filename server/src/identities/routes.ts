import { serve, type Route, inOrganization, inProject } from "../platform/http/index.ts";
import * as contract from "./contract.ts";
import * as membership from "./memberships/contract.ts";
import type { IdentityMemberships } from "./memberships/service.ts";
import type { OrgIdentities } from "./organization.ts";
import type { ProjectIdentities } from "./service.ts";

interface IdentityServices {
  readonly ofProject: ProjectIdentities;
  readonly ofOrganization: OrgIdentities;
  readonly memberships: IdentityMemberships;
}

export const identityRoutes = ({ ofProject, ofOrganization, memberships }: IdentityServices): Route[] => [
  serve(
    contract.createProjectIdentity,
    async ({ actor, params, body }) => ({
      identity: await ofProject.create(actor, params.projectId, body),
    }),
    inProject("create", "identity"),
  ),
  serve(contract.listProjectIdentities, ({ actor, params, query }) =>
    ofProject.list(actor, params.projectId, query),
  ),
  serve(contract.getProjectIdentity, async ({ actor, params }) => ({
    identity: await ofProject.get(actor, params.projectId, params.identityId),
  })),
  serve(
    contract.updateProjectIdentity,
    async ({ actor, params, body }) => ({
      identity: await ofProject.update(actor, params.projectId, params.identityId, body),
    }),
    inProject("edit", "identity"),
  ),
  serve(
    contract.deleteProjectIdentity,
    async ({ actor, params }) => ({
      identity: await ofProject.delete(actor, params.projectId, params.identityId),
    }),
    inProject("delete", "identity"),
  ),
  serve(
    contract.createIdentity,
    async ({ actor, body }) => ({
      identity: await ofOrganization.create(actor, body),
    }),
    inOrganization("create", "identity"),
  ),
  serve(contract.listIdentities, ({ actor, query }) => ofOrganization.list(actor, query)),
  serve(contract.getIdentity, async ({ actor, params }) => ({
    identity: await ofOrganization.get(actor, params.identityId),
  })),
  serve(
    contract.updateIdentity,
    async ({ actor, params, body }) => ({
      identity: await ofOrganization.update(actor, params.identityId, body),
    }),
    inOrganization("edit", "identity"),
  ),
  serve(
    contract.deleteIdentity,
    async ({ actor, params }) => ({
      identity: await ofOrganization.delete(actor, params.identityId),
    }),
    inOrganization("delete", "identity"),
  ),
  serve(
    membership.addIdentityMembership,
    async ({ actor, params, body }) => ({
      identityMembership: await memberships.add(
        actor,
        params.projectId,
        params.identityId,
        body.roles ?? [{ role: body.role ?? "no-access", isTemporary: false }],
      ),
    }),
    inProject("create", "identity"),
  ),
  serve(membership.getIdentityMembership, async ({ actor, params }) => ({
    identityMembership: await memberships.get(actor, params.projectId, params.identityId),
  })),
  serve(membership.getIdentityMembershipById, async ({ actor, params }) => ({
    identityMembership: await memberships.getById(actor, params.membershipId),
  })),
  serve(membership.listIdentityMemberships, ({ actor, params, query }) =>
    memberships.list(actor, params.projectId, query),
  ),
  serve(
    membership.updateIdentityMembership,
    async ({ actor, params, body }) => {
      const identityMembership = await memberships.update(
        actor,
        params.projectId,
        params.identityId,
        body.roles,
      );
      return { identityMembership, roles: identityMembership.roles };
    },
    inProject("edit", "identity"),
  ),
  serve(
    membership.removeIdentityMembership,
    async ({ actor, params }) => ({
      identityMembership: await memberships.remove(actor, params.projectId, params.identityId),
    }),
    inProject("delete", "identity"),
  ),
];
