import type { MemberActor } from "../platform/actor.ts";
import type { Clock } from "../platform/clock.ts";
import { isUniqueViolation, type Db } from "../platform/db/index.ts";
import { conflict, notFound } from "../platform/problem.ts";
import { orgOf, type Permissions } from "../permissions/index.ts";
import type { OrganizationView } from "./contract.ts";
import { findOrganization, organizationsOfUser, updateOrganization } from "./store.ts";

interface OrganizationNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly permissions: Permissions;
}

export const organizationSlugTaken = (slug: string) =>
  conflict(`An organisation with the slug ${slug} exists already.`);

export type Organizations = ReturnType<typeof createOrganizations>;

export function createOrganizations({ db, clock, permissions }: OrganizationNeeds) {
  const own = async (actor: MemberActor): Promise<OrganizationView> => {
    const orgId = orgOf(actor);
    const row = await db.read((q) => findOrganization(q, orgId));
    if (!row) throw notFound("The organisation", orgId);
    return row;
  };

  return {
    own,

    /** A person may belong to several; a machine identity belongs to one. */
    list: async (actor: MemberActor): Promise<OrganizationView[]> =>
      actor.kind === "user" ? db.read((q) => organizationsOfUser(q, actor.id)) : [await own(actor)],

    async update(
      actor: MemberActor,
      change: { name?: string | undefined; slug?: string | undefined },
    ): Promise<OrganizationView> {
      const orgId = orgOf(actor);
      await permissions.requireInOrganization(actor, { action: "edit", subject: "settings" });
      // It is unique in the instance: who could try slugs out would learn which organisations there are.
      if (change.slug !== undefined && change.slug !== (await own(actor)).slug)
        permissions.requireInstanceAdmin(actor);
      try {
        return await db.write(async (tx) => {
          const row = await updateOrganization(tx, orgId, change, clock.now());
          if (!row) throw notFound("The organisation", orgId);
          tx.audit(actor, {
            event: "update-organization",
            orgId,
            metadata: { changed: Object.keys(change) },
          });
          return row;
        });
      } catch (error) {
        if (isUniqueViolation(error, "organizations_slug_unique"))
          throw organizationSlugTaken(change.slug ?? "");
        throw error;
      }
    },
  };
}
