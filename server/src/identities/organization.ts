/** Machine identities of the organisation itself; a project takes them in as members. */
import type { MemberActor } from "../platform/actor.ts";
import type { Clock } from "../platform/clock.ts";
import { isForeignKeyViolation, type Db } from "../platform/db/index.ts";
import { newId } from "../platform/ids.ts";
import { notFound } from "../platform/problem.ts";
import { replaceRoles, type Memberships } from "../memberships/index.ts";
import { accessChanged, orgOf, type Permissions } from "../permissions/index.ts";
import type { NewIdentity, OrgIdentityChange, OrgIdentityMembershipView } from "./contract.ts";
import { createCounts } from "./counts.ts";
import { identityChanged, identityDeleted } from "./events.ts";
import { goneMeanwhile, identityProtected, readable, withIds } from "./model.ts";
import { createIdentity, deleteIdentity, findIdentity, updateIdentity, type IdentityRow } from "./store.ts";
import { findOrgIdentity, idsOfOrg, pageOfOrg, type OrgIdentityRow } from "./organization.store.ts";

interface OrgIdentityNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly permissions: Permissions;
  readonly memberships: Memberships;
}

export type OrgIdentities = ReturnType<typeof createOrgIdentities>;

const toMembership = (row: OrgIdentityRow): OrgIdentityMembershipView => ({
  id: row.membershipId,
  role: row.role,
  roleId: row.roleId,
  orgId: row.orgId,
  createdAt: row.createdAt,
  updatedAt: row.updatedAt,
  identityId: row.identityId,
  lastLoginAuthMethod: row.lastLoginMethod,
  lastLoginTime: row.lastLoginAt,
  metadata: row.metadata,
  ...(row.roleId === null
    ? {}
    : {
        customRole: {
          id: row.roleId,
          name: row.roleName ?? "",
          slug: row.roleSlug ?? "",
          description: row.roleDescription,
        },
      }),
  identity: {
    id: row.identityId,
    name: row.name,
    hasDeleteProtection: row.hasDeleteProtection,
    orgId: row.orgId,
    authMethods: row.authMethods,
    activeLockoutAuthMethods: row.activeLockoutAuthMethods,
  },
});

const toView = (row: IdentityRow) => ({ ...row, authMethod: row.authMethods[0] ?? null });

export function createOrgIdentities({ db, clock, permissions, memberships }: OrgIdentityNeeds) {
  const counts = createCounts(db);
  /** Naming an organisation other than one's own is naming something that does not exist. */
  const ownOrg = (actor: MemberActor, named: string | undefined): string => {
    const orgId = orgOf(actor);
    if (named !== undefined && named !== "" && named !== orgId) throw notFound("The organisation", named);
    return orgId;
  };

  const find = async (orgId: string, identityId: string): Promise<IdentityRow> => {
    const row = await db.read((q) => findIdentity(q, orgId, identityId, clock.now()));
    // One that belongs to a project is managed there, by those who have rights there.
    if (!row || row.projectId !== null) throw notFound("The identity", identityId);
    return row;
  };

  const orGone = <T>(write: Promise<T>): Promise<T> =>
    write.catch((error: unknown) => {
      throw isForeignKeyViolation(error) ? goneMeanwhile() : error;
    });

  const requireOne = (actor: MemberActor, action: string, identityId: string) =>
    permissions.requireInOrganization(actor, { action, subject: "identity", attributes: { identityId } });

  return {
    async create(actor: MemberActor, input: NewIdentity) {
      const orgId = ownOrg(actor, input.organizationId);
      const id = newId();
      const granter = await requireOne(actor, "create", id);
      const roles = await memberships.prepareRoles({ orgId, projectId: null, granter, subject: "identity" }, [
        { role: input.role, isTemporary: false },
      ]);
      const at = clock.now();
      const row = {
        id,
        orgId,
        projectId: null,
        name: input.name,
        hasDeleteProtection: input.hasDeleteProtection,
        isInstanceAdmin: false,
        metadata: withIds(input.metadata),
        at,
      };
      await orGone(
        db.write(async (tx) => {
          createIdentity(tx, row, [{ membershipId: newId(), projectId: null, roles }]);
          tx.audit(actor, {
            event: "create-identity",
            orgId,
            metadata: { identityId: row.id, name: row.name, roles: [input.role] },
          });
        }),
      );
      return { ...row, authMethod: null, authMethods: [], createdAt: at, updatedAt: at };
    },

    async list(
      actor: MemberActor,
      asked: { orgId?: string | undefined; offset: number; limit: number; search?: string | undefined },
    ) {
      const orgId = ownOrg(actor, asked.orgId);
      const ability = await permissions.requireInOrganization(actor, { action: "read", subject: "identity" });
      const only = await readable(ability, () => db.read((q) => idsOfOrg(q, orgId)));
      const { rows, total } = await db.read(
        (q) => pageOfOrg(q, orgId, { ...asked, search: asked.search, only }, clock.now()),
        { tenant: orgId },
      );
      return { identities: rows.map(toMembership), totalCount: counts.sum("orgIdentities", orgId, total) };
    },

    async get(actor: MemberActor, identityId: string): Promise<OrgIdentityMembershipView> {
      const orgId = orgOf(actor);
      await find(orgId, identityId);
      await requireOne(actor, "read", identityId);
      const row = await db.read((q) => findOrgIdentity(q, orgId, identityId, clock.now()));
      if (!row) throw notFound("The identity", identityId);
      return toMembership(row);
    },

    async update(actor: MemberActor, identityId: string, change: OrgIdentityChange) {
      const orgId = orgOf(actor);
      await find(orgId, identityId);
      const granter = await requireOne(actor, "edit", identityId);
      if (change.role !== undefined)
        await permissions.requireHolds(
          granter,
          await permissions.rulesOf({ id: identityId, orgId }, null),
          "other rights to this identity",
        );
      const roles =
        change.role === undefined
          ? undefined
          : await memberships.prepareRoles({ orgId, projectId: null, granter, subject: "identity" }, [
              { role: change.role, isTemporary: false },
            ]);
      return orGone(
        db.write(async (tx) => {
          await updateIdentity(
            tx,
            identityId,
            {
              name: change.name,
              hasDeleteProtection: change.hasDeleteProtection,
              metadata: change.metadata && withIds(change.metadata),
            },
            clock.now(),
          );
          const membership = await findOrgIdentity(tx, orgId, identityId, clock.now());
          const row = await findIdentity(tx, orgId, identityId, clock.now());
          if (!row || !membership) throw notFound("The identity", identityId);
          if (roles) await replaceRoles(tx, membership.membershipId, roles, clock.now());
          tx.audit(actor, {
            event: "update-identity",
            orgId,
            metadata: {
              identityId,
              changed: Object.keys(change),
              ...(change.role === undefined ? {} : { role: change.role }),
            },
          });
          tx.emit(identityChanged({ orgId, identityId }));
          if (roles) tx.emit(accessChanged({ orgId, projectId: null, actorId: identityId }));
          return toView(row);
        }),
      );
    },

    async delete(actor: MemberActor, identityId: string) {
      const orgId = orgOf(actor);
      const row = await find(orgId, identityId);
      await requireOne(actor, "delete", identityId);
      await db.write(async (tx) => {
        if (!(await deleteIdentity(tx, identityId)))
          throw (await findIdentity(tx, orgId, identityId, clock.now()))
            ? identityProtected()
            : notFound("The identity", identityId);
        tx.audit(actor, { event: "delete-identity", orgId, metadata: { identityId, name: row.name } });
        tx.emit(identityDeleted({ orgId, identityId }));
        tx.emit(accessChanged({ orgId, projectId: null, actorId: identityId }));
      });
      return toView(row);
    },
  };
}
