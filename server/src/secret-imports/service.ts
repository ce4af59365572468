/**
 * A folder may show other folders' secrets besides its own. Who adds an import must be able to read what it brings;
 * later readers are checked again, secret by secret.
 */
import type { MemberActor } from "../platform/actor.ts";
import { createBound } from "../platform/bound.ts";
import type { Clock } from "../platform/clock.ts";
import { isForeignKeyViolation, isUniqueViolation, type Db, type Tx } from "../platform/db/index.ts";
import { newId } from "../platform/ids.ts";
import { badRequest, conflict, notFound } from "../platform/problem.ts";
import { orgOf } from "../permissions/index.ts";
import { importsMutated } from "../secrets/events.ts";
import type { ImportChange, ImportQuery, NewImport } from "./contract.ts";
import { MOST_IMPORTS, tooManyImports } from "./model.ts";
import {
  countImports,
  countImportsOfProject,
  deleteImport,
  findCrowded,
  findImport,
  lockImports,
  importsOfFolder,
  insertImport,
  orderImports,
  repointImport,
  type ImportRow,
  type MoreImports,
} from "./store.ts";
import {
  requireRight,
  type Access,
  type ProjectScope,
  announceAffected,
  findDependants,
  folderUnknown,
  type FolderPlace,
  touchProject,
  findFolder,
  lockTree,
} from "../secrets/index.ts";

export type { ImportRow } from "./store.ts";

interface SecretImportNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly access: Access;
}

export type SecretImports = ReturnType<typeof createImports>;

const SUBJECT = "secret-imports";
const taken = () => conflict("This folder imports that folder already.");
const itself = () => badRequest("A folder cannot import itself.");
const importUnknown = (id: string) => notFound("The import", id);
const at = ({ environment, path }: { environment: string; path: string }) => ({
  environment,
  secretPath: path,
});

const MOST_IN_PROJECT = 100_000;
/** Every read of a folder reads all of them, and changing one may move all. */
const roomInFolder = createBound({
  most: MOST_IMPORTS,
  words: ["A folder has at most", "imports"],
  count: countImports,
});
const roomInProject = createBound({
  most: MOST_IN_PROJECT,
  words: ["A project has at most", "imports"],
  count: countImportsOfProject,
});

/** They wait for the tree and for each other. */
const inTurnOf = ({ project }: ProjectScope) => ({ tenant: project.orgId });

export function createImports({ db, clock, access }: SecretImportNeeds) {
  const orTaken = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      if (isUniqueViolation(error, "secret_imports_source_unique")) throw taken();
      // Its project or environment was deleted between the read and the write.
      if (isForeignKeyViolation(error)) throw notFound("The folder to import");
      throw error;
    }
  };

  /** The importing folder shows something else now, and so do folders that import that one. */
  const conclude = async (
    tx: Tx,
    { actor, project }: ProjectScope,
    event: string,
    row: ImportRow,
  ): Promise<void> => {
    const { orgId, id: projectId } = project;
    const affected = await findDependants(tx, [
      { environmentId: row.environmentId, path: row.path, key: null },
    ]);
    tx.emit(importsMutated({ orgId, projectId, environment: row.environment, path: row.path }));
    announceAffected(tx, affected, [row]);
    touchProject(tx, projectId);
    const metadata = {
      environment: row.environment,
      secretPath: row.path,
      importId: row.id,
      importProjectId: row.sourceProjectId,
      importEnvironment: row.sourceEnvironment,
      importPath: row.sourcePath,
      position: row.position,
    };
    tx.audit(actor, { event, orgId, projectId, metadata });
  };

  const findForChange = async (
    actor: MemberActor,
    id: string,
    action: string,
    projectRef?: string,
  ): Promise<{ scope: ProjectScope; row: ImportRow }> => {
    const row = await db.read((q) => findImport(q, id, orgOf(actor)));
    if (!row) throw importUnknown(id);
    const scope = await access.scope(actor, row.projectId);
    if (projectRef !== undefined && (await access.scope(actor, projectRef)).project.id !== row.projectId)
      throw importUnknown(id);
    requireRight(scope.ability, action, SUBJECT, at(row));
    return { scope, row };
  };

  /** As it is now, and nobody else changing it: it may have gone, or its folder moved, since it was looked at. */
  const seize = async (tx: Tx, { project, ability }: ProjectScope, seen: ImportRow, action: string) => {
    await lockTree(tx, project.id);
    await lockImports(tx, seen.folderId);
    const row = await findImport(tx, seen.id, project.orgId);
    if (!row) throw importUnknown(seen.id);
    requireRight(ability, action, SUBJECT, at(row));
    return row;
  };

  const requireSource = async (
    actor: MemberActor,
    projectRef: string,
    source: { environment: string; path: string },
  ): Promise<FolderPlace> => {
    const scope = await access.scope(actor, projectRef);
    const environment = await access.environment(scope, source.environment);
    requireRight(scope.ability, "readValue", "secrets", at(source));
    const folder = await db.read((q) => findFolder(q, { environmentId: environment.id, path: source.path }));
    if (!folder) throw folderUnknown(source.path);
    return folder;
  };

  return {
    findForChange,

    /** For a caller that creates many, one after the other: in the project, and in those folders of it that exist. */
    requireRoom: (projectId: string, more: number, inFolders: readonly MoreImports[]): Promise<void> =>
      db.read(async (q) => {
        if ((await countImportsOfProject(q, projectId, MOST_IN_PROJECT)) + more > MOST_IN_PROJECT)
          throw badRequest(`A project has at most ${MOST_IN_PROJECT.toLocaleString("en")} imports.`);
        const full = await findCrowded(q, inFolders, MOST_IMPORTS);
        if (full) throw tooManyImports(full.path);
      }),

    async create(actor: MemberActor, input: NewImport): Promise<ImportRow> {
      const scope = await access.scope(actor, input.projectId);
      const environment = await access.environment(scope, input.environment);
      requireRight(scope.ability, "create", SUBJECT, {
        environment: environment.slug,
        secretPath: input.path,
      });
      const source = await requireSource(
        actor,
        input.import.sourceProjectId ?? scope.project.id,
        input.import,
      );
      if (source.environmentId === environment.id && source.path === input.path) throw itself();
      const id = newId();
      return orTaken(() =>
        db.write(async (tx) => {
          await lockTree(tx, scope.project.id);
          const folder = await findFolder(tx, { environmentId: environment.id, path: input.path });
          if (!folder) throw folderUnknown(input.path);
          await lockImports(tx, folder.id);
          await roomInFolder.leaveRoom(tx, folder.id);
          await roomInProject.leaveRoom(tx, scope.project.id);
          await insertImport(tx, {
            id,
            projectId: scope.project.id,
            folderId: folder.id,
            sourceProjectId: source.projectId,
            sourceEnvironmentId: source.environmentId,
            sourcePath: source.path,
            isReplication: input.isReplication,
            at: clock.now(),
          });
          const row = (await findImport(tx, id, scope.project.orgId)) as ImportRow;
          await conclude(tx, scope, "create-secret-import", row);
          return row;
        }, inTurnOf(scope)),
      );
    },

    async list(actor: MemberActor, query: ImportQuery): Promise<ImportRow[]> {
      const scope = await access.scope(actor, query.projectId);
      const environment = await access.environment(scope, query.environment);
      requireRight(scope.ability, "read", SUBJECT, { environment: environment.slug, secretPath: query.path });
      const folder = await db.read((q) => findFolder(q, { environmentId: environment.id, path: query.path }));
      if (!folder) throw folderUnknown(query.path);
      return db.read((q) => importsOfFolder(q, folder.id));
    },

    get: async (actor: MemberActor, id: string): Promise<ImportRow> =>
      (await findForChange(actor, id, "read")).row,

    async update(actor: MemberActor, id: string, input: ImportChange): Promise<ImportRow> {
      const { scope, row } = await findForChange(actor, id, "edit", input.projectId);
      const { environment = row.sourceEnvironment, path = row.sourcePath, position } = input.import;
      const isRepointed = environment !== row.sourceEnvironment || path !== row.sourcePath;
      const source = isRepointed
        ? await requireSource(actor, row.sourceProjectId, { environment, path })
        : undefined;
      return orTaken(() =>
        db.write(async (tx) => {
          const now = await seize(tx, scope, row, "edit");
          if (source?.environmentId === now.environmentId && source.path === now.path) throw itself();
          if (source) await repointImport(tx, id, source, clock.now());
          if (position !== undefined) {
            const others = (await importsOfFolder(tx, row.folderId))
              .map((other) => other.id)
              .filter((other) => other !== id);
            await orderImports(tx, others.toSpliced(position - 1, 0, id));
          }
          const changed = await findImport(tx, id, scope.project.orgId);
          if (!changed) throw importUnknown(id);
          await conclude(tx, scope, "update-secret-import", changed);
          return changed;
        }, inTurnOf(scope)),
      );
    },

    async delete(actor: MemberActor, id: string, input: ImportQuery): Promise<ImportRow> {
      const { scope, row: seen } = await findForChange(actor, id, "delete", input.projectId);
      return db.write(async (tx) => {
        const row = await seize(tx, scope, seen, "delete");
        if (!(await deleteImport(tx, id))) throw importUnknown(id);
        await conclude(tx, scope, "delete-secret-import", row);
        const left = await importsOfFolder(tx, row.folderId);
        await orderImports(
          tx,
          left.map((other) => other.id),
        );
        return row;
      }, inTurnOf(scope));
    },
  };
}
