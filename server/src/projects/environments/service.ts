import type { MemberActor } from "../../platform/actor.ts";
import { createBound } from "../../platform/bound.ts";
import type { Clock } from "../../platform/clock.ts";
import { isUniqueViolation, type Db, type Tx } from "../../platform/db/index.ts";
import { newId } from "../../platform/ids.ts";
import { conflict, notFound } from "../../platform/problem.ts";
import { CATALOGUE, orgOf, type Permissions, type Rule } from "../../permissions/index.ts";
import { projectChanged } from "../events.ts";
import type { Projects } from "../service.ts";
import type { ProjectRow } from "../store.ts";
import {
  countEnvironments,
  deleteEnvironment,
  findEnvironment,
  findEnvironmentBySlug,
  findEnvironmentInOrg,
  insertEnvironment,
  makeRoomAt,
  updateEnvironment,
  type EnvironmentRow,
} from "./store.ts";

/** Every read of a project includes all of them. */
const room = createBound({
  most: 1000,
  words: ["A project has at most", "environments"],
  count: countEnvironments,
});

interface EnvironmentNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly permissions: Permissions;
  readonly projects: Projects;
}

/** Called inside the transaction, before an environment is deleted: rooms that store things in it delete and announce them. */
type BeforeEnvironmentDelete = (
  tx: Tx,
  actor: MemberActor,
  project: ProjectRow,
  environment: EnvironmentRow,
) => Promise<void>;

/**
 * Called inside the transaction, before an environment's slug changes; the returned function is called once it has. Names that
 * others use for what is in it mean something else from then on.
 */
type EnvironmentRename = (
  tx: Tx,
  project: ProjectRow,
  environment: EnvironmentRow,
) => Promise<(renamed: EnvironmentRow) => Promise<void>>;

interface AnnouncedEnvironment {
  readonly project: ProjectRow;
  readonly row: EnvironmentRow;
}

export type Environments = ReturnType<typeof createEnvironments>;

/** They wait for whatever moves the project's folders at the moment. */
const inTurnOf = ({ orgId }: ProjectRow) => ({ tenant: orgId });

const slugTaken = (slug: string) =>
  conflict(`An environment with the slug ${slug} exists in this project already.`);

/**
 * Rights name an environment by its slug, so another slug is another set of rights for everything in it. A caller who may
 * not do everything under both could read, or be rid of a denial, by renaming.
 */
const everythingIn = (slugs: readonly string[]): Rule[] =>
  CATALOGUE.project
    .filter(({ subject, attributes }) => subject !== "environments" && "environment" in attributes)
    .map(({ subject, actions }) => ({
      subject,
      action: [...actions],
      conditions: { environment: { $in: [...slugs] } },
      inverted: false,
    }));

export function createEnvironments({ db, clock, permissions, projects }: EnvironmentNeeds) {
  const beforeDeletes: BeforeEnvironmentDelete[] = [];
  const renames: EnvironmentRename[] = [];

  const require = (actor: MemberActor, project: ProjectRow, action: string, environment?: string) =>
    permissions.requireInProject(actor, project.id, {
      action,
      subject: "environments",
      ...(environment === undefined ? {} : { attributes: { environment } }),
    });

  const find = async (project: ProjectRow, id: string): Promise<EnvironmentRow> => {
    const row = await db.read((q) => findEnvironment(q, project.id, id));
    if (!row) throw notFound("The environment", id);
    return row;
  };

  /** Rights depend on the slug: a check by another slug has to be repeated. */
  const changedMeanwhile = async (tx: Tx, project: ProjectRow, id: string) =>
    (await findEnvironment(tx, project.id, id))
      ? conflict("The environment has just been given another slug; try again.")
      : notFound("The environment", id);

  const announce = (
    tx: Tx,
    actor: MemberActor,
    event: string,
    { project, row }: AnnouncedEnvironment,
  ): void => {
    tx.audit(actor, {
      event,
      orgId: project.orgId,
      projectId: project.id,
      metadata: { environmentId: row.id, name: row.name, slug: row.slug },
    });
    tx.emit(projectChanged({ orgId: project.orgId, projectId: project.id }));
  };

  const orConflict = async <T>(slug: string | undefined, work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      if (isUniqueViolation(error, "environments_slug_unique")) throw slugTaken(slug ?? "");
      throw error;
    }
  };

  return {
    onDelete: (beforeDelete: BeforeEnvironmentDelete) => void beforeDeletes.push(beforeDelete),
    onRename: (rename: EnvironmentRename) => void renames.push(rename),

    /** For a caller that creates many, one after the other. */
    requireRoom: (projectId: string, more: number) => db.read((q) => room.check(q, projectId, more)),

    async create(
      actor: MemberActor,
      ref: string,
      input: { name: string; slug: string; position?: number | undefined },
    ): Promise<EnvironmentRow> {
      const project = await projects.resolve(actor, ref);
      await require(actor, project, "create", input.slug);
      return orConflict(input.slug, () =>
        db.write(async (tx) => {
          await room.leaveRoom(tx, project.id);
          if (input.position !== undefined) await makeRoomAt(tx, project.id, input.position);
          const row = await insertEnvironment(tx, {
            id: newId(),
            projectId: project.id,
            name: input.name,
            slug: input.slug,
            position: input.position,
            at: clock.now(),
          });
          if (!row) throw notFound("The project", ref);
          announce(tx, actor, "create-environment", { project, row });
          return row;
        }, inTurnOf(project)),
      );
    },

    async update(
      actor: MemberActor,
      ref: string,
      id: string,
      patch: { name?: string | undefined; slug?: string | undefined; position?: number | undefined },
    ): Promise<EnvironmentRow> {
      const project = await projects.resolve(actor, ref);
      const before = await find(project, id);
      await require(actor, project, "edit", before.slug);
      const isRenamed = patch.slug !== undefined && patch.slug !== before.slug;
      if (isRenamed) {
        const ability = await require(actor, project, "edit", patch.slug);
        await permissions.requireHolds(
          ability,
          everythingIn([before.slug, patch.slug ?? ""]),
          "another slug to this environment",
        );
      }
      return orConflict(patch.slug, () =>
        db.write(async (tx) => {
          if (patch.position !== undefined && patch.position !== before.position)
            await makeRoomAt(tx, project.id, patch.position);
          const conclusions = [];
          for (const rename of isRenamed ? renames : []) conclusions.push(await rename(tx, project, before));
          const row = await updateEnvironment(tx, before, patch, clock.now());
          if (!row) throw await changedMeanwhile(tx, project, id);
          for (const conclude of conclusions) await conclude(row);
          announce(tx, actor, "update-environment", { project, row });
          return row;
        }, inTurnOf(project)),
      );
    },

    async delete(actor: MemberActor, ref: string, id: string): Promise<EnvironmentRow> {
      const project = await projects.resolve(actor, ref);
      const before = await find(project, id);
      await require(actor, project, "delete", before.slug);
      return db.write(async (tx) => {
        for (const beforeDelete of beforeDeletes) await beforeDelete(tx, actor, project, before);
        const row = await deleteEnvironment(tx, before);
        if (!row) throw await changedMeanwhile(tx, project, id);
        announce(tx, actor, "delete-environment", { project, row });
        return row;
      }, inTurnOf(project));
    },

    async get(actor: MemberActor, ref: string, id: string): Promise<EnvironmentRow> {
      const project = await projects.resolveForMember(actor, ref);
      return find(project, id);
    },

    async getBySlug(actor: MemberActor, ref: string, slug: string): Promise<EnvironmentRow> {
      const project = await projects.resolveForMember(actor, ref);
      const row = await db.read((q) => findEnvironmentBySlug(q, project.id, slug));
      if (!row) throw notFound("The environment", slug);
      return row;
    },

    async getById(actor: MemberActor, id: string): Promise<EnvironmentRow> {
      const orgId = orgOf(actor);
      const row = await db.read((q) => findEnvironmentInOrg(q, orgId, id));
      if (!row) throw notFound("The environment", id);
      await projects.resolveForMember(actor, row.projectId);
      return row;
    },
  };
}
