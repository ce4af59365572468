/**
 * A caller who can create credentials for an identity can impersonate it. So acting on someone's credentials needs, besides the
 * right to do so, all rights that the identity holds: otherwise "may create tokens" would mean "may become admin".
 */
import type { MemberActor } from "../platform/actor.ts";
import type { Clock } from "../platform/clock.ts";
import type { Db } from "../platform/db/index.ts";
import { notFound } from "../platform/problem.ts";
import {
  EVERY_ACTION,
  EVERY_SUBJECT,
  missingInChunks,
  orgOf,
  type Permissions,
} from "../permissions/index.ts";
import { findIdentity, type IdentityRow } from "./store.ts";
import { projectsOfIdentity } from "./impersonation.store.ts";

export interface ImpersonationGuard {
  /** The identity, if the actor may do this to its credentials. */
  require(
    actor: MemberActor,
    identityId: string,
    action: "read" | "edit-auth" | "revoke-auth" | "create-token" | "get-token" | "delete-token",
  ): Promise<IdentityRow>;
}

/** Actions that hand out the power to act as the identity. */
const EMPOWERING = new Set(["edit-auth", "create-token"]);
const EVERYTHING = [{ subject: EVERY_SUBJECT, action: EVERY_ACTION }];

export function createImpersonationGuard(needs: {
  readonly db: Db;
  readonly clock: Clock;
  readonly permissions: Permissions;
}): ImpersonationGuard {
  const { db, clock, permissions } = needs;

  const requireAll = async (actor: MemberActor, identity: IdentityRow): Promise<void> => {
    const inOrg = await permissions.inOrganization(actor);
    await permissions.requireHolds(
      inOrg,
      await permissions.rulesOf(identity, null),
      "the rights of this identity",
    );
    // An organisation admin answers for everything in it; anyone else needs the identity's rights in each project.
    if (identity.projectId === null && (await missingInChunks(inOrg, EVERYTHING)).length === 0) return;
    const projectIds = await db.read((q) => projectsOfIdentity(q, identity.id));
    for (const projectId of projectIds) {
      await permissions.requireHolds(
        await permissions.inProject(actor, projectId),
        await permissions.rulesOf(identity, projectId),
        "the rights of this identity",
      );
    }
  };

  return {
    async require(actor, identityId, action) {
      const orgId = orgOf(actor);
      const identity = await db.read((q) => findIdentity(q, orgId, identityId, clock.now()));
      if (!identity) throw notFound("The identity", identityId);
      const wanted = { action, subject: "identity", attributes: { identityId } };
      if (identity.projectId === null) await permissions.requireInOrganization(actor, wanted);
      else await permissions.requireInProject(actor, identity.projectId, wanted);
      if (EMPOWERING.has(action) && actor.id !== identity.id) await requireAll(actor, identity);
      if (EMPOWERING.has(action) && identity.isInstanceAdmin) permissions.requireInstanceAdmin(actor);
      return identity;
    },
  };
}
