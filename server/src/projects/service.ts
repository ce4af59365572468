import type { MemberActor } from "../platform/actor.ts";
import { createBound } from "../platform/bound.ts";
import type { Clock } from "../platform/clock.ts";
import type { Keyring } from "../platform/crypto/index.ts";
import { isUniqueViolation, type Db, type Tx } from "../platform/db/index.ts";
import { newId, randomAlphanumeric } from "../platform/ids.ts";
import { createFactCache, type Tail } from "../platform/outbox/index.ts";
import { notFound } from "../platform/problem.ts";
import { addMembership } from "../memberships/index.ts";
import { accessChanged, orgOf, type Permissions } from "../permissions/index.ts";
import type { NewProject, ProjectChange, ProjectView } from "./contract.ts";
import { insertDefaultEnvironments } from "./environments/store.ts";
import { projectChanged, projectDeleted } from "./events.ts";
import { projectProtected, projectSlugTaken, slugFrom } from "./model.ts";
import {
  countProjects,
  deleteProject,
  findProject,
  insertProject,
  listProjectsOf,
  updateProject,
  type ProjectPatch,
  type ProjectRow,
} from "./store.ts";

interface ProjectNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly tail: Tail;
  readonly keyring: Keyring;
  readonly permissions: Permissions;
}

/** Called inside the transaction, before a project is deleted: others may show what is in it. */
type BeforeProjectDelete = (tx: Tx, project: ProjectRow) => Promise<void>;

const CACHED_PROJECTS = 20_000;

const toProjectView = (row: ProjectRow): ProjectView => ({
  ...row,
  _id: row.id,
  defaultProduct: row.type,
  autoCapitalization: false,
  version: 3,
  upgradeStatus: null,
  pitVersionLimit: row.versionLimit,
  kmsCertificateKeyId: null,
  kmsSecretManagerKeyId: null,
  auditLogsRetentionDays: row.auditRetentionDays,
  deletedEnvironments: [],
});

/** They are listed in one answer. */
const room = createBound({
  most: 10_000,
  words: ["An organisation has at most", "projects"],
  count: countProjects,
});

export type Projects = ReturnType<typeof createProjects>;

export function createProjects(needs: ProjectNeeds) {
  const { db, clock, permissions } = needs;
  const beforeDeletes: BeforeProjectDelete[] = [];
  const cache = createFactCache<ProjectRow>(needs.tail, CACHED_PROJECTS, (row) => [row.id]);
  needs.tail.onInvalidate((fact) => {
    if (projectChanged.is(fact) || projectDeleted.is(fact)) cache.dropGroup(fact.data.projectId);
  });

  /** The project behind an id or slug, inside the caller's organisation; anything else is not found. */
  const resolve = async (actor: MemberActor, ref: string): Promise<ProjectRow> => {
    const orgId = orgOf(actor);
    const row = await cache.get(`${orgId}:${ref}`, () => db.read((q) => findProject(q, orgId, ref)));
    if (!row) throw notFound("The project", ref);
    return row;
  };

  /** Membership is enough to see a project; without one the caller is refused, not told that it is unknown. */
  const resolveForMember = async (actor: MemberActor, ref: string): Promise<ProjectRow> => {
    const row = await resolve(actor, ref);
    await permissions.requireMember(actor, row.id);
    return row;
  };

  const reread = async (tx: Tx, orgId: string, id: string): Promise<ProjectView> => {
    const row = await findProject(tx, orgId, id);
    if (!row) throw notFound("The project", id);
    return toProjectView(row);
  };

  const change = async (actor: MemberActor, ref: string, patch: ProjectPatch): Promise<ProjectView> => {
    const row = await resolve(actor, ref);
    await permissions.requireInProject(actor, row.id, { action: "edit", subject: "workspace" });
    try {
      return await db.write(async (tx) => {
        await updateProject(tx, row.id, patch, clock.now());
        tx.audit(actor, {
          event: "update-project",
          orgId: row.orgId,
          projectId: row.id,
          metadata: {
            changed: Object.keys(patch).filter((key) => patch[key as keyof ProjectPatch] !== undefined),
          },
        });
        tx.emit(projectChanged({ orgId: row.orgId, projectId: row.id }));
        return reread(tx, row.orgId, row.id);
      });
    } catch (error) {
      if (isUniqueViolation(error, "projects_slug_unique")) throw projectSlugTaken(patch.slug ?? "");
      throw error;
    }
  };

  return {
    resolve,
    resolveForMember,
    onDelete: (beforeDelete: BeforeProjectDelete) => void beforeDeletes.push(beforeDelete),

    async create(actor: MemberActor, input: NewProject): Promise<ProjectView> {
      const orgId = orgOf(actor);
      await permissions.requireInOrganization(actor, { action: "create", subject: "workspace" });
      const id = newId();
      const at = clock.now();
      const slug = input.slug ?? slugFrom(input.projectName, randomAlphanumeric(4).toLowerCase());
      const row = {
        id,
        orgId,
        name: input.projectName,
        slug,
        description: input.projectDescription ?? null,
        type: input.type,
        hasDeleteProtection: input.hasDeleteProtection,
        at,
      };
      const creator = actor.kind === "identity" ? { identityId: actor.id } : { userId: actor.id };
      const admin = {
        id: newId(),
        role: "admin",
        roleId: null,
        isTemporary: false,
        range: null,
        startsAt: null,
        endsAt: null,
      };
      try {
        return await db.write(async (tx) => {
          await room.leaveRoom(tx, orgId);
          await insertProject(tx, row);
          await needs.keyring.createProjectKey(tx, orgId, id);
          if (input.shouldCreateDefaultEnvs && input.type === "secret-manager")
            await insertDefaultEnvironments(tx, id, at);
          await addMembership(tx, { id: newId(), orgId, projectId: id, ...creator, at }, [admin]);
          tx.audit(actor, {
            event: "create-project",
            orgId,
            projectId: id,
            metadata: { name: row.name, slug, type: row.type },
          });
          tx.emit(accessChanged({ orgId, projectId: id, actorId: actor.id }));
          return reread(tx, orgId, id);
        });
      } catch (error) {
        if (isUniqueViolation(error, "projects_slug_unique")) throw projectSlugTaken(slug);
        throw error;
      }
    },

    async list(actor: MemberActor, type: string | undefined): Promise<ProjectView[]> {
      const orgId = orgOf(actor);
      return (await db.read((q) => listProjectsOf(q, orgId, actor, type))).map(toProjectView);
    },

    get: async (actor: MemberActor, ref: string): Promise<ProjectView> =>
      toProjectView(await resolveForMember(actor, ref)),

    update: (actor: MemberActor, ref: string, input: ProjectChange) => {
      const { pitVersionLimit, ...rest } = input;
      return change(actor, ref, { ...rest, versionLimit: pitVersionLimit });
    },

    async setAuditRetention(actor: MemberActor, ref: string, days: number): Promise<ProjectView> {
      const { id, orgId, auditRetentionDays } = await resolve(actor, ref);
      await permissions.requireInProject(actor, id, { action: "edit", subject: "audit-logs" });
      return db.write(async (tx) => {
        await updateProject(tx, id, { auditRetentionDays: days }, clock.now());
        const metadata = { projectId: id, daysBefore: auditRetentionDays, days };
        // In the organisation's audit log, too: what is only in the project's is deleted by its own retention.
        for (const projectId of [id, null])
          tx.audit(actor, { event: "set-audit-retention", orgId, projectId, metadata });
        tx.emit(projectChanged({ orgId, projectId: id }));
        return reread(tx, orgId, id);
      });
    },

    async delete(actor: MemberActor, ref: string): Promise<ProjectView> {
      const row = await resolve(actor, ref);
      await permissions.requireInProject(actor, row.id, { action: "delete", subject: "workspace" });
      return db.write(
        async (tx) => {
          for (const beforeDelete of beforeDeletes) await beforeDelete(tx, row);
          if (!(await deleteProject(tx, row.id)))
            throw (await findProject(tx, row.orgId, row.id))
              ? projectProtected()
              : notFound("The project", ref);
          tx.audit(actor, {
            event: "delete-project",
            orgId: row.orgId,
            projectId: row.id,
            metadata: { name: row.name, slug: row.slug },
          });
          tx.emit(projectDeleted({ orgId: row.orgId, projectId: row.id }));
          tx.emit(accessChanged({ orgId: row.orgId, projectId: row.id, actorId: null }));
          return toProjectView(row);
        },
        { tenant: row.orgId },
      );
    },
  };
}
