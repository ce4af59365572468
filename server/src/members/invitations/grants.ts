/** What an invitation gives, worked out by the rights that its inviter holds now. */
import type { MemberActor } from "../../platform/actor.ts";
import type { Memberships, NewRoleRow } from "../../memberships/index.ts";
import { orgOf, type Permissions } from "../../permissions/index.ts";
import type { InvitedPlace } from "./store.ts";

export interface PreparedGrants {
  readonly roles: readonly NewRoleRow[];
  readonly places: readonly { readonly projectId: string; readonly roles: readonly NewRoleRow[] }[];
}

interface Promised {
  readonly email: string;
  readonly role: string;
  readonly projects: readonly InvitedPlace[];
}

export interface InvitationGrants {
  /** The rows to store; throws if the inviter may not take this person in, or may not give one of the roles. */
  prepare(inviter: MemberActor, promised: Promised): Promise<PreparedGrants>;
}

export function createInvitationGrants(needs: {
  readonly permissions: Permissions;
  readonly memberships: Memberships;
}): InvitationGrants {
  const { permissions, memberships } = needs;
  return {
    async prepare(inviter, { email, role, projects }) {
      const orgId = orgOf(inviter);
      const wanted = { action: "create", subject: "member", attributes: { userEmail: email } };
      const inOrg = { projectId: null, granter: await permissions.requireInOrganization(inviter, wanted) };
      const roles = await memberships.prepareRoles({ orgId, subject: "member", ...inOrg }, [
        { role, isTemporary: false },
      ]);
      const places = [];
      for (const { projectId, roles: asked } of projects) {
        const granter = await permissions.requireInProject(inviter, projectId, wanted);
        const scope = { orgId, projectId, granter, subject: "member" as const };
        places.push({ projectId, roles: await memberships.prepareRoles(scope, asked) });
      }
      return { roles, places };
    },
  };
}
