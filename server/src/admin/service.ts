/** The instance itself: its first moments, and further organisations on it. */
import { systemActor, type Actor, type Caller, type MemberActor } from "../platform/actor.ts";
import type { Clock } from "../platform/clock.ts";
import { hashPassword, type Keyring } from "../platform/crypto/index.ts";
import { isUniqueViolation, type Db, type Tx } from "../platform/db/index.ts";
import { newId, randomAlphanumeric } from "../platform/ids.ts";
import { badRequest } from "../platform/problem.ts";
import type { Redacted } from "../platform/redacted.ts";
import {
  EVERYWHERE,
  foundTokenAuth,
  toUserView,
  UNLIMITED_SECONDS,
  type AccessTokens,
} from "../auth/index.ts";
import { createIdentity } from "../identities/index.ts";
import { LICENCE_FEATURES, type Licences } from "../licences/index.ts";
import { addMembership } from "../memberships/index.ts";
import {
  claimBootstrap,
  findBootstrap,
  insertOrganization,
  organizationSlugTaken,
  type OrganizationRow,
} from "../organizations/index.ts";
import type { Permissions } from "../permissions/index.ts";
import { slugFrom } from "../projects/index.ts";
import { insertUser, listInstanceAdmins, type UserRow } from "../users/index.ts";

interface AdminNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly keyring: Keyring;
  readonly permissions: Permissions;
  readonly accessTokens: AccessTokens;
  readonly licences: Licences;
}

/** The first token must outlive every reason to have set a limit; it is revoked like any other. */
const UNBOUNDED = {
  accessTokenTTL: UNLIMITED_SECONDS,
  accessTokenMaxTTL: UNLIMITED_SECONDS,
  accessTokenPeriod: 0,
  accessTokenNumUsesLimit: 0,
  accessTokenTrustedIps: [...EVERYWHERE],
};

const alreadyDone = () => badRequest("This instance has been set up already.");
const adminRole = () => ({
  id: newId(),
  role: "admin",
  roleId: null,
  isTemporary: false,
  range: null,
  startsAt: null,
  endsAt: null,
});
const slugOf = (name: string): string => slugFrom(name, randomAlphanumeric(4).toLowerCase());

interface Founding {
  readonly orgId: string;
  readonly name: string;
  readonly slug: string;
  readonly identityName: string;
  readonly isInstanceAdmin: boolean;
}

export type Admin = ReturnType<typeof createAdmin>;

export function createAdmin({ db, clock, keyring, permissions, accessTokens, licences }: AdminNeeds) {
  /** An organisation, its key, its people and an admin identity with a token that lives until it is revoked. */
  const found = async (tx: Tx, founding: Founding, people: readonly { readonly id: string }[]) => {
    const { orgId, name, slug } = founding;
    const at = clock.now();
    const organization = (await insertOrganization(tx, { id: orgId, name, slug, at })) as OrganizationRow;
    await keyring.createOrgKey(tx, orgId);
    for (const person of people)
      await addMembership(tx, { id: newId(), orgId, projectId: null, userId: person.id, at }, [adminRole()]);
    const identityId = newId();
    createIdentity(
      tx,
      {
        id: identityId,
        orgId,
        projectId: null,
        name: founding.identityName,
        hasDeleteProtection: false,
        isInstanceAdmin: founding.isInstanceAdmin,
        metadata: [],
        at,
      },
      [{ membershipId: newId(), projectId: null, roles: [adminRole()] }],
    );
    foundTokenAuth(tx, { id: newId(), identityId }, UNBOUNDED, at);
    const { accessToken } = accessTokens.issue(tx, {
      bearer: { identityId, identityName: founding.identityName, orgId },
      method: "token-auth",
      name: "bootstrap",
      settings: { ttl: UNLIMITED_SECONDS, maxTtl: UNLIMITED_SECONDS, period: 0, usesLimit: 0 },
    });
    return {
      organization,
      identity: { id: identityId, name: founding.identityName, credentials: { token: accessToken } },
    };
  };

  return {
    async bootstrap(
      input: { email: string; password: Redacted<string>; organization: string },
      caller: Caller,
    ) {
      // Asked first, so that nobody can make a set-up instance hash passwords; decided by the constraint.
      if (await db.read(findBootstrap)) throw alreadyDone();
      const passwordHash = await hashPassword(input.password, "bootstrap");
      const orgId = newId();
      const row: UserRow = {
        id: newId(),
        email: input.email,
        firstName: "Admin",
        lastName: "",
        passwordHash,
        isInstanceAdmin: true,
      };
      const actor: Actor = systemActor("bootstrap", caller);
      try {
        return await db.write(async (tx) => {
          await claimBootstrap(tx, orgId, clock.now());
          await insertUser(tx, row, clock.now());
          const founded = await found(
            tx,
            {
              orgId,
              name: input.organization,
              slug: slugOf(input.organization),
              identityName: "Instance Admin Identity",
              isInstanceAdmin: true,
            },
            [row],
          );
          // The owner of an instance is its own licensor: the first organisation may use everything.
          const from = clock.now();
          const terms = {
            plan: "enterprise",
            features: [...LICENCE_FEATURES],
            notBefore: from,
            notAfter: new Date(from.getTime() + UNLIMITED_SECONDS * 1000),
          };
          await licences.issueFor(tx, actor, orgId, terms);
          tx.audit(actor, {
            event: "bootstrap-instance",
            orgId,
            metadata: { userId: row.id, identityId: founded.identity.id },
          });
          return { message: "The instance is set up.", user: toUserView(row), ...founded };
        });
      } catch (error) {
        if (isUniqueViolation(error, "bootstrap_once")) throw alreadyDone();
        throw error;
      }
    },

    async createOrganization(actor: MemberActor, input: { name: string; slug?: string | undefined }) {
      permissions.requireInstanceAdmin(actor);
      const slug = input.slug ?? slugOf(input.name);
      try {
        return await db.write(async (tx) => {
          const people = actor.kind === "user" ? [actor] : await listInstanceAdmins(tx);
          const founded = await found(
            tx,
            {
              orgId: newId(),
              name: input.name,
              slug,
              identityName: "Organisation Admin Identity",
              isInstanceAdmin: false,
            },
            people,
          );
          tx.audit(actor, {
            event: "create-organization",
            orgId: founded.organization.id,
            metadata: { slug, identityId: founded.identity.id },
          });
          return founded;
        });
      } catch (error) {
        if (isUniqueViolation(error, "organizations_slug_unique")) throw organizationSlugTaken(slug);
        throw error;
      }
    },
  };
}
