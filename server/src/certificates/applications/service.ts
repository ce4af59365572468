import type { MemberActor } from "../../platform/actor.ts";
import type { Clock } from "../../platform/clock.ts";
import { isUniqueViolation, type Db, type Tx } from "../../platform/db/index.ts";
import { newId } from "../../platform/ids.ts";
import { conflict, notFound } from "../../platform/problem.ts";
import { orgOf, type Permissions } from "../../permissions/index.ts";
import type { CertificateScope } from "../service.ts";
import type { NewApplication } from "./contract.ts";
import {
  attachProfile,
  countApplications,
  deleteApplication,
  detachProfile,
  findApplication,
  findApplicationByName,
  insertApplication,
  knownProfiles,
  listApplications,
  listAttached,
  updateApplication,
  type ApplicationRow,
} from "./store.ts";

export interface ApplicationNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly permissions: Permissions;
  readonly scope: CertificateScope;
}

export type Applications = ReturnType<typeof createApplications>;

export function createApplications({ db, clock, permissions, scope }: ApplicationNeeds) {
  const require = (actor: MemberActor, projectId: string, action: string, name?: string) =>
    permissions.requireInProject(actor, projectId, {
      action,
      subject: "pki-applications",
      ...(name === undefined ? {} : { attributes: { name } }),
    });

  const find = async (actor: MemberActor, id: string, action: string): Promise<ApplicationRow> => {
    const row = await db.read((q) => findApplication(q, orgOf(actor), id));
    if (!row) throw notFound("The application", id);
    await require(actor, row.projectId, action, row.name);
    return row;
  };

  const change = async (
    actor: MemberActor,
    event: string,
    row: ApplicationRow,
    work: (tx: Tx) => void,
  ): Promise<ApplicationRow> => {
    try {
      await db.write(async (tx) => {
        work(tx);
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

  return {
    find,

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
      return change(actor, "create-pki-application", row, (tx) => {
        insertApplication(tx, row);
        for (const profileId of new Set(input.profileIds)) attachProfile(tx, row.id, profileId, at);
      });
    },

    async list(
      actor: MemberActor,
      query: { projectId?: string | undefined; search?: string | undefined; offset: number; limit: number },
    ) {
      const project = await scope.projectOf(actor, query.projectId);
      const ability = await require(actor, project.id, "read");
      const [rows, total] = await db.read((q) =>
        Promise.all([listApplications(q, project.id, query), countApplications(q, project.id, query.search)]),
      );
      return {
        applications: rows
          .filter(({ name }) => ability.can("read", "pki-applications", { name }))
          // Rights are given in the project; an application has no members of its own.
          .map((row) => ({ ...row, memberCount: 0 })),
        total,
      };
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
