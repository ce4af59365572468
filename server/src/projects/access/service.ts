/**
 * A project belongs to its members alone, until the last of its admins has left: then nobody could grant a right in it
 * any more, and what is kept there would be lost. So an admin of the organisation can become its admin, knowingly and
 * in the project's own audit log.
 */
import type { MemberActor } from "../../platform/actor.ts";
import type { Clock } from "../../platform/clock.ts";
import { isUniqueViolation, type Db } from "../../platform/db/index.ts";
import { newId } from "../../platform/ids.ts";
import { badRequest, conflict } from "../../platform/problem.ts";
import { addMembership } from "../../memberships/index.ts";
import {
  accessChanged,
  EVERY_ACTION,
  EVERY_SUBJECT,
  orgOf,
  type Permissions,
} from "../../permissions/index.ts";
import type { Projects } from "../service.ts";
import { addAdminRole, isLed, lockPlaceOf, pageOfAllProjects } from "./store.ts";

interface ProjectAccessNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly permissions: Permissions;
  readonly projects: Projects;
}

const EVERYTHING = [{ subject: EVERY_SUBJECT, action: EVERY_ACTION }];

export type ProjectAccess = ReturnType<typeof createProjectAccess>;

export function createProjectAccess({ db, clock, permissions, projects }: ProjectAccessNeeds) {
  const requireOrgAdmin = async (actor: MemberActor): Promise<void> =>
    permissions.requireHolds(
      await permissions.inOrganization(actor),
      EVERYTHING,
      "what only an admin of the organisation has",
    );

  return {
    requireOrgAdmin,

    async list(actor: MemberActor, page: { offset: number; limit: number; search?: string | undefined }) {
      const orgId = orgOf(actor);
      await requireOrgAdmin(actor);
      return db.read((q) => pageOfAllProjects(q, orgId, page), { tenant: orgId });
    },

    async grantAdmin(actor: MemberActor, ref: string) {
      const { id: projectId, orgId } = await projects.resolve(actor, ref);
      await requireOrgAdmin(actor);
      const self = actor.kind === "identity" ? { identityId: actor.id } : { userId: actor.id };
      const role = { id: newId(), role: "admin", roleId: null, isTemporary: false, range: null };
      try {
        return await db.write(async (tx) => {
          const at = clock.now();
          if (await isLed(tx, projectId))
            throw badRequest("This project has an admin, who can take you in. Ask there.");
          const held = await lockPlaceOf(tx, projectId, actor.id);
          const id = held?.id ?? newId();
          if (held) await addAdminRole(tx, id, role.id, at);
          else
            await addMembership(tx, { id, orgId, projectId, ...self, at }, [
              { ...role, startsAt: null, endsAt: null },
            ]);
          tx.audit(actor, { event: "grant-admin-access", orgId, projectId, metadata: { membershipId: id } });
          tx.emit(accessChanged({ orgId, projectId, actorId: actor.id }));
          return { id, projectId, createdAt: held?.createdAt ?? at, updatedAt: at };
        });
      } catch (error) {
        if (!isUniqueViolation(error)) throw error;
        throw conflict("You became a member of this project at the same moment. Try again.");
      }
    },
  };
}
