import type { ProjectRow } from "../projects/index.ts";
import type { MemberActor } from "../platform/actor.ts";
import { createBound } from "../platform/bound.ts";
import type { Clock } from "../platform/clock.ts";
import { isUniqueViolation, type Db, type Tx } from "../platform/db/index.ts";
import { newId } from "../platform/ids.ts";
import { conflict, notFound } from "../platform/problem.ts";
import { orgOf, type Ability, type Permissions, visiblePart } from "../permissions/index.ts";
import type { NewApplication } from "./contract.ts";
import {
  countAllApplications,
  attachProfile,
  countApplications,
  deleteApplication,
  detachProfile,
  findApplication,
  findApplicationByName,
  hasAttached,
  insertApplication,
  knownProfiles,
  listApplicationNames,
  listApplications,
  listAttached,
  updateApplication,
  type ApplicationRow,
} from "./store.ts";
import { createNamedAccess, MOST_LOOKED_THROUGH, type CertificateScope } from "../certificates/index.ts";

interface ApplicationNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly permissions: Permissions;
  readonly scope: CertificateScope;
}

export interface ApplicationPage {
  readonly search?: string | undefined;
  readonly offset: number;
  readonly limit: number;
}

/** For a caller who may see some of them, all are checked for a page. */
const room = createBound({
  most: MOST_LOOKED_THROUGH,
  words: ["A project has at most", "applications"],
  count: countAllApplications,
});

export type Applications = ReturnType<typeof createApplications>;

export function createApplications({ db, clock, permissions, scope }: ApplicationNeeds) {
  const { require, find } = createNamedAccess(
    { db, permissions },
    { subject: "pki-applications", what: "The application", find: findApplication },
  );

  const change = async (
    actor: MemberActor,
    event: string,
    row: ApplicationRow,
    work: (tx: Tx) => void | Promise<void>,
  ): Promise<ApplicationRow> => {
    try {
      await db.write(async (tx) => {
        await work(tx);
        tx.audit(actor, {
          event,
          orgId: orgOf(actor),
          projectId: row.projectId,
          metadata: { applicationId: row.id, name: row.name },
        });
      });
    } catch (error) {
      if (isUniqueViolation(error, "pki_applications_name_unique"))
        throw conflict(`An application named ${row.name} exists in this project already.`);
      throw error;
    }
    return row;
  };

  /** Rights go by names: nobody renames an application to get what they had not. */
  const requireRename = async (actor: MemberActor, row: ApplicationRow, name: string): Promise<void> => {
    const ability = await require(actor, row.projectId, "edit", name);
    for (const action of ["read", "create", "delete"])
      if (ability.can(action, "pki-applications", { name }))
        await require(actor, row.projectId, action, row.name);
  };

  const requireProfiles = async (projectId: string, ids: readonly string[]): Promise<void> => {
    const known =
      ids.length === 0 ? new Set<string>() : await db.read((q) => knownProfiles(q, projectId, ids));
    const missing = ids.find((id) => !known.has(id));
    if (missing !== undefined) throw notFound("The certificate profile", missing);
  };

  const attachedTo = async (row: ApplicationRow) => {
    const rows = await db.read((q) => listAttached(q, row.id));
    return rows.map((each) => ({
      ...each,
      estConfigId: null,
      apiConfigId: each.profileId,
      acmeConfigId: null,
      scepConfigId: null,
    }));
  };

  const pageOfAll = (project: ProjectRow, query: ApplicationPage) =>
    db.read(
      async (q) => {
        const [rows, total] = await Promise.all([
          listApplications(q, project.id, query),
          countApplications(q, project.id, query.search),
        ]);
        return { rows, total };
      },
      { tenant: project.orgId },
    );

  /** By name first: what a caller may not see is neither counted nor looked at any further. */
  const pageOf = async (ability: Ability, project: ProjectRow, query: ApplicationPage) => {
    const names = await db.read(
      (q) => listApplicationNames(q, project.id, query.search, MOST_LOOKED_THROUGH),
      { tenant: project.orgId },
    );
    const mayRead = ({ name }: { name: string }) => ability.can("read", "pki-applications", { name });
    const { rows: seen, total } = await visiblePart(names, mayRead, query);
    const ids = seen.map(({ id }) => id);
    return {
      rows: await db.read((q) => listApplications(q, project.id, { ...query, offset: 0, ids }), {
        tenant: project.orgId,
      }),
      total,
    };
  };

  return {
    find,

    /** May certificates for the application be issued under the profile? */
    uses: (id: string, profileId: string): Promise<boolean> => db.read((q) => hasAttached(q, id, profileId)),

    async create(actor: MemberActor, input: NewApplication): Promise<ApplicationRow> {
      const project = await scope.projectOf(actor, input.projectId);
      await require(actor, project.id, "create", input.name);
      await requireProfiles(project.id, input.profileIds);
      const at = clock.now();
      const row = {
        id: newId(),
        projectId: project.id,
        name: input.name,
        description: input.description ?? null,
        createdAt: at,
        updatedAt: at,
      };
      return change(actor, "create-pki-application", row, async (tx) => {
        await room.leaveRoom(tx, project.id);
        insertApplication(tx, row);
        for (const profileId of new Set(input.profileIds)) attachProfile(tx, row.id, profileId, at);
      });
    },

    async list(actor: MemberActor, query: ApplicationPage & { readonly projectId?: string | undefined }) {
      const project = await scope.projectOf(actor, query.projectId);
      const ability = await require(actor, project.id, "read");
      const isAll = ability.can("read", "pki-applications", {});
      const { rows, total } = await (isAll ? pageOfAll(project, query) : pageOf(ability, project, query));
      // Rights are given in the project; an application has no members of its own.
      return { applications: rows.map((row) => ({ ...row, memberCount: 0 })), total };
    },

    get: (actor: MemberActor, id: string) => find(actor, id, "read"),

    async getByName(actor: MemberActor, ref: string | undefined, name: string): Promise<ApplicationRow> {
      const project = await scope.projectOf(actor, ref);
      const row = await db.read((q) => findApplicationByName(q, project.id, name));
      if (!row) throw notFound("The application", name);
      await require(actor, project.id, "read", name);
      return row;
    },

    async update(
      actor: MemberActor,
      id: string,
      input: { name?: string | undefined; description?: string | null | undefined },
    ): Promise<ApplicationRow> {
      const before = await find(actor, id, "edit");
      if (input.name !== undefined && input.name !== before.name)
        await requireRename(actor, before, input.name);
      const description = input.description === undefined ? before.description : input.description;
      const row = { ...before, name: input.name ?? before.name, description, updatedAt: clock.now() };
      return change(actor, "update-pki-application", row, (tx) => updateApplication(tx, row));
    },

    async delete(actor: MemberActor, id: string): Promise<ApplicationRow> {
      const row = await find(actor, id, "delete");
      return change(actor, "delete-pki-application", row, (tx) => deleteApplication(tx, id));
    },

    profiles: async (actor: MemberActor, id: string) => attachedTo(await find(actor, id, "read")),

    async attach(actor: MemberActor, id: string, profileIds: readonly string[]) {
      const row = await find(actor, id, "edit");
      await requireProfiles(row.projectId, profileIds);
      const at = clock.now();
      await change(actor, "attach-certificate-profiles", row, (tx) => {
        for (const profileId of new Set(profileIds)) attachProfile(tx, id, profileId, at);
      });
      return attachedTo(row);
    },

    async detach(actor: MemberActor, id: string, profileId: string) {
      const row = await find(actor, id, "edit");
      await change(actor, "detach-certificate-profile", row, (tx) => detachProfile(tx, id, profileId));
      return attachedTo(row);
    },
  };
}
