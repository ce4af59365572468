/**
 * The tree. Creating a folder leaves the others alone; renaming, moving and deleting change the path of everything
 * below, so they take an exclusive lock on the project's tree (lockTreeAlone).
 */
import type { MemberActor } from "../platform/actor.ts";
import { isUniqueViolation } from "../platform/db/index.ts";
import { isUuid } from "../platform/ids.ts";
import { badRequest, notFound } from "../platform/problem.ts";
import { orgOf, permittedOf } from "../permissions/index.ts";
import { joinPath, MAX_DEPTH, parentOf, ROOT } from "../secrets/paths.contract.ts";
import type { FolderChange, FolderMove, FolderQuery, FolderToDelete, NewFolder } from "./contract.ts";
import {
  countContent,
  deleteFolders,
  describeFolder,
  findFolderById,
  findFolderByPath,
  foldersBelow,
  foldersChangedSince,
  foldersIn,
  type FolderRow,
} from "./store.ts";
import {
  at,
  auditFolder,
  createTrees,
  requireRoom,
  folderExists,
  originOf,
  placeOf,
  requireFits,
  rootIsFixed,
  type TreeNeeds,
} from "./service/change-tree.ts";
import {
  requireRight,
  type Access,
  type ProjectScope,
  announceAffected,
  writeChanges,
  type SecretChangeStep,
  findDependants,
  folderUnknown,
  type FolderPlace,
  touchProject,
  lockTree,
  likeBelow,
} from "../secrets/index.ts";

export type { FolderRow } from "./store.ts";

interface FolderNeeds extends TreeNeeds {
  readonly access: Access;
}

export type Folders = ReturnType<typeof createFolders>;

/** Each level above may be made by somebody else in between. */
const ATTEMPTS = MAX_DEPTH + 1;

const notEmpty = () =>
  badRequest("The folder is not empty. Send forceDelete: true to delete it with everything in it.");

export function createFolders(needs: FolderNeeds) {
  const { db, clock, keyring, access } = needs;
  const { ensure, seize, requireForAll, relocate } = createTrees(needs);

  const byRef = async (
    actor: MemberActor,
    ref: string,
    where: { projectId: string; environment: string; path: string },
  ): Promise<{ scope: ProjectScope; folder: FolderRow }> => {
    const scope = await access.scope(actor, where.projectId);
    const environment = await access.environment(scope, where.environment);
    const path = joinPath(where.path, ref);
    const found = await db.read(
      async (q) =>
        (isUuid(ref) ? await findFolderById(q, ref, orgOf(actor)) : undefined) ??
        (await findFolderByPath(q, environment.id, path)),
    );
    if (found && found.projectId === scope.project.id && found.environmentId === environment.id)
      return { scope, folder: found };
    requireRight(scope.ability, "read", "secret-folders", at(environment.slug, where.path));
    throw notFound("The folder", ref);
  };

  return {
    ensure,

    requireRoom: (projectId: string, more: number) => db.read((q) => requireRoom(q, projectId, more)),

    async create(actor: MemberActor, input: NewFolder): Promise<FolderRow> {
      const scope = await access.scope(actor, input.projectId);
      const environment = await access.environment(scope, input.environment);
      const path = joinPath(input.path, input.name);
      requireFits([path]);
      requireRight(scope.ability, "create", "secret-folders", at(environment.slug, path));
      const make = () =>
        db.write(
          async (tx) => {
            await lockTree(tx, scope.project.id);
            const { folder, made } = await ensure(tx, scope, environment, path);
            if (!made.includes(path)) throw folderExists(path);
            for (const parent of made)
              requireRight(scope.ability, "create", "secret-folders", at(environment.slug, parent));
            if (typeof input.description === "string")
              await describeFolder(tx, folder.id, input.description, folder.createdAt);
            touchProject(tx, scope.project.id);
            auditFolder(tx, scope, "create-folder", folder);
            return { ...folder, description: input.description ?? null, version: 1 };
          },
          { tenant: scope.project.orgId },
        );
      // Somebody else created it, or one above it, in the same moment: then the next read finds that one.
      for (let attempt = 1; ; attempt += 1) {
        try {
          return await make();
        } catch (error) {
          if (!isUniqueViolation(error, "folders_path_unique")) throw error;
          if (attempt >= ATTEMPTS) throw folderExists(path);
        }
      }
    },

    async list(actor: MemberActor, query: FolderQuery): Promise<(FolderRow & { relativePath: string })[]> {
      const scope = await access.scope(actor, query.projectId);
      const environment = await access.environment(scope, query.environment);
      const parent = await db.read((q) => findFolderByPath(q, environment.id, query.path));
      const rows = parent
        ? await db.read(
            (q) =>
              query.recursive
                ? foldersBelow(q, environment.id, likeBelow(query.path))
                : foldersIn(q, parent.id),
            { tenant: scope.project.orgId },
          )
        : [];
      const seen = await permittedOf(rows, (row) =>
        scope.ability.can("read", "secret-folders", at(row.environment, row.path)),
      );
      if (seen.length === 0)
        requireRight(scope.ability, "read", "secret-folders", at(environment.slug, query.path));
      if (!parent) throw folderUnknown(query.path);
      const since = query.lastSecretModified;
      const changed =
        since &&
        new Set(
          (
            await db.read((q) =>
              foldersChangedSince(
                q,
                seen.map((row) => row.id),
                since,
              ),
            )
          ).map((row) => row.id),
        );
      return seen
        .filter((row) => !changed || changed.has(row.id))
        .map((row) => ({
          ...row,
          relativePath: row.path.slice(query.path === ROOT ? 0 : query.path.length),
        }));
    },

    async get(actor: MemberActor, id: string): Promise<FolderRow> {
      const row = await db.read((q) => findFolderById(q, id, orgOf(actor)));
      if (!row) throw notFound("The folder", id);
      const scope = await access.scope(actor, row.projectId);
      requireRight(scope.ability, "read", "secret-folders", at(row.environment, row.path));
      return row;
    },

    async getByPath(
      actor: MemberActor,
      where: { projectId: string; environment: string; path: string },
    ): Promise<FolderRow> {
      const scope = await access.scope(actor, where.projectId);
      const environment = await access.environment(scope, where.environment);
      requireRight(scope.ability, "read", "secret-folders", at(environment.slug, where.path));
      const row = await db.read((q) => findFolderByPath(q, environment.id, where.path));
      if (!row) throw folderUnknown(where.path);
      return row;
    },

    async update(actor: MemberActor, ref: string, input: FolderChange): Promise<FolderRow> {
      const { scope, folder } = await byRef(actor, ref, input);
      if (input.name !== undefined && input.name !== folder.name) {
        if (folder.parentId === null) throw rootIsFixed();
        const environment = await access.environment(scope, folder.environment);
        return relocate(scope, folder, {
          environment,
          parentPath: parentOf(folder.path),
          name: input.name,
          description: input.description,
        });
      }
      requireRight(scope.ability, "edit", "secret-folders", at(folder.environment, folder.path));
      return db.write(
        async (tx) => {
          await lockTree(tx, scope.project.id);
          // It may have been deleted, or moved to where the caller has no rights, since it was read.
          const now = await findFolderByPath(tx, folder.environmentId, folder.path);
          if (now?.id !== folder.id) throw folderUnknown(folder.path);
          await describeFolder(tx, folder.id, input.description, clock.now());
          touchProject(tx, scope.project.id);
          auditFolder(tx, scope, "update-folder", folder);
          return (await findFolderByPath(tx, folder.environmentId, folder.path)) ?? folder;
        },
        { tenant: scope.project.orgId },
      );
    },

    async move(actor: MemberActor, id: string, input: FolderMove): Promise<FolderRow> {
      const scope = await access.scope(actor, input.projectId);
      const folder = await db.read((q) => findFolderById(q, id, orgOf(actor)));
      if (!folder || folder.projectId !== scope.project.id) throw notFound("The folder", id);
      const environment = await access.environment(scope, input.destinationEnvironment);
      return relocate(scope, folder, { environment, parentPath: input.destinationPath, name: folder.name });
    },

    async delete(actor: MemberActor, ref: string, input: FolderToDelete): Promise<FolderRow> {
      const { scope, folder } = await byRef(actor, ref, input);
      requireRight(scope.ability, "delete", "secret-folders", at(folder.environment, folder.path));
      const dataKey = await keyring.dataKeyOf({ projectId: scope.project.id });
      const { orgId, id: projectId } = scope.project;
      return db.write(
        async (tx) => {
          const tree = await seize(tx, folder);
          if (!input.forceDelete && (await countContent(tx, folder.id)) > 0) throw notEmpty();
          for (const row of tree.folders)
            requireRight(scope.ability, "delete", "secret-folders", at(row.environment, row.path));
          await requireForAll(scope, tree, ["delete"]);
          const now = clock.now();
          const affected = await findDependants(tx, tree.folders.map(originOf));
          const places = new Map(tree.folders.map((row) => [row.id, placeOf(row)]));
          const changes = tree.rows.map((before): SecretChangeStep => ({
            kind: "delete",
            before,
            from: places.get(before.folderId) as FolderPlace,
          }));
          await writeChanges(tx, { actor, orgId, projectId, dataKey, at: now }, changes, []);
          announceAffected(tx, affected, tree.folders);
          await deleteFolders(
            tx,
            tree.folders.map((row) => row.id),
            now,
          );
          touchProject(tx, projectId);
          auditFolder(tx, scope, "delete-folder", {
            ...tree.top,
            more: { numberOfSecrets: tree.rows.length },
          });
          return tree.top;
        },
        { tenant: scope.project.orgId },
      );
    },
  };
}
