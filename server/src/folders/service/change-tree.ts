/**
 * What changes a whole tree of folders at once. Paths are prefixes, so a rename or a move is one statement for the
 * folders; but every secret below gets a new version, because its folder is part of its history, and is announced:
 * its name is deleted in one folder and created in another.
 */
import { createBound } from "../../platform/bound.ts";
import type { Clock } from "../../platform/clock.ts";
import type { Keyring } from "../../platform/crypto/index.ts";
import type { Db, Query, Tx } from "../../platform/db/index.ts";
import { newId } from "../../platform/ids.ts";
import { badRequest, conflict, invalidField } from "../../platform/problem.ts";
import {
  isWithin,
  joinPath,
  MAX_DEPTH,
  MAX_PATH_LENGTH,
  namesOf,
  parentOf,
  ROOT,
} from "../../secrets/paths.contract.ts";
import {
  describeFolder,
  countFolders,
  findFolderByPath,
  findFoldersByPaths,
  folderTree,
  insertFolder,
  relocateFolder,
  type FolderRow,
} from "../store.ts";
import {
  requireRight,
  type EnvironmentRef,
  type ProjectScope,
  announceAffected,
  writeChangesNow,
  type SecretChangeStep,
  type ChangeContext,
  findDependants,
  type Origin,
  attributesOf,
  decryptState,
  folderUnknown,
  type FolderPlace,
  type SecretHead,
  nextDraft,
  touchProject,
  lockTreeAlone,
  likeBelow,
  lockHeads,
  nextChunk,
  tagsFor,
  type Tags,
} from "../../secrets/index.ts";

export interface TreeNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly keyring: Keyring;
  readonly tags: Tags;
}

interface Tree {
  readonly folders: readonly FolderRow[];
  readonly rows: readonly SecretHead[];
}

/** Trees are read as a whole when a project is exported or a list goes down to the leaves. */
const MOST_FOLDERS = 100_000;
const room = createBound({
  most: MOST_FOLDERS,
  words: ["A project has at most", "folders"],
  count: countFolders,
});

/** For a caller that creates many, one after the other: counted, and nothing reserved. */
export async function requireRoom(q: Query, projectId: string, more: number): Promise<void> {
  if ((await countFolders(q, projectId, MOST_FOLDERS)) + more > MOST_FOLDERS)
    throw badRequest(`A project has at most ${MOST_FOLDERS.toLocaleString("en")} folders.`);
}

export const folderExists = (path: string) => conflict(`The folder ${path} exists already.`);
export const rootIsFixed = () =>
  badRequest("The root of an environment cannot be renamed, moved or deleted.");
export const at = (environment: string, path: string) => ({ environment, secretPath: path });
export const placeOf = (row: FolderRow): FolderPlace => ({
  id: row.id,
  projectId: row.projectId,
  environmentId: row.environmentId,
  environment: row.environment,
  path: row.path,
});
export const originOf = ({ environmentId, path }: { environmentId: string; path: string }): Origin => ({
  environmentId,
  path,
  key: null,
});

export const auditFolder = (
  tx: Tx,
  { actor, project }: ProjectScope,
  event: string,
  folder: FolderRow & { readonly more?: Record<string, unknown> },
) =>
  tx.audit(actor, {
    event,
    orgId: project.orgId,
    projectId: project.id,
    metadata: { environment: folder.environment, folderId: folder.id, path: folder.path, ...folder.more },
  });

export function createTrees({ db, clock, keyring, tags }: TreeNeeds) {
  /** The folder at the path, made if it is missing, with all above it. The caller holds the tree. */
  const ensure = async (
    tx: Tx,
    scope: ProjectScope,
    environment: EnvironmentRef,
    path: string,
  ): Promise<{ folder: FolderRow; made: string[] }> => {
    const names = namesOf(path);
    const paths = names.reduce<string[]>((all, name) => [...all, joinPath(all.at(-1) ?? ROOT, name)], [ROOT]);
    const known = new Map(
      (await findFoldersByPaths(tx, environment.id, paths)).map((row) => [row.path, row.id]),
    );
    const missing = paths.filter((one) => !known.has(one));
    if (missing.length > 0) await room.leaveRoom(tx, scope.project.id, missing.length);
    const made: string[] = [];
    for (const one of missing) {
      const parentId = known.get(parentOf(one));
      if (parentId === undefined) throw folderUnknown(parentOf(one));
      const id = newId();
      await insertFolder(tx, {
        id,
        projectId: scope.project.id,
        environmentId: environment.id,
        parentId,
        name: namesOf(one).at(-1) ?? "",
        path: one,
        description: null,
        at: clock.now(),
      });
      known.set(one, id);
      made.push(one);
    }
    const folder = await findFolderByPath(tx, environment.id, path);
    if (!folder) throw folderUnknown(path);
    return { folder, made };
  };

  /** The folder as it is now, with everything below it, and nobody else changing any of it. */
  const seize = async (tx: Tx, folder: FolderRow): Promise<Tree & { top: FolderRow }> => {
    await lockTreeAlone(tx, folder.projectId);
    const now = await findFolderByPath(tx, folder.environmentId, folder.path);
    if (now?.id !== folder.id) throw folderUnknown(folder.path);
    if (now.parentId === null) throw rootIsFixed();
    const folders = await folderTree(tx, now.environmentId, now.path, likeBelow(now.path));
    return {
      top: now,
      folders,
      rows: await lockHeads(
        tx,
        folders.map((row) => row.id),
      ),
    };
  };

  const requireForAll = async (
    scope: ProjectScope,
    { folders, rows }: Tree,
    actions: readonly string[],
    move?: (path: string) => { environment: string; path: string },
  ): Promise<void> => {
    const known = await tags.lookUp(
      scope.project.id,
      rows.map((row) => row.tagIds),
    );
    const byId = new Map(folders.map((row) => [row.id, row]));
    for (const row of rows.filter((candidate) => candidate.ownerId === null)) {
      const folder = byId.get(row.folderId) as FolderRow;
      const own = tagsFor(known, row.tagIds);
      for (const action of actions)
        requireRight(scope.ability, action, "secrets", attributesOf(folder, row.key, own));
      if (move)
        requireRight(scope.ability, "create", "secrets", attributesOf(move(folder.path), row.key, own));
    }
  };

  const relocate = async (
    scope: ProjectScope,
    folder: FolderRow,
    change: {
      environment: EnvironmentRef;
      parentPath: string;
      name: string;
      description?: string | null | undefined;
    },
  ): Promise<FolderRow> => {
    const dataKey = await keyring.dataKeyOf({ projectId: scope.project.id });
    const { orgId, id: projectId } = scope.project;
    const { environment, parentPath, name } = change;
    const path = joinPath(parentPath, name);
    requireRight(scope.ability, "edit", "secret-folders", at(folder.environment, folder.path));
    requireRight(scope.ability, "create", "secret-folders", at(environment.slug, path));
    return db.write(
      async (tx) => {
        const { top, folders, rows } = await seize(tx, folder);
        if (environment.id === top.environmentId && isWithin(path, top.path))
          throw badRequest("A folder cannot be moved into itself.");
        const parent = await findFolderByPath(tx, environment.id, parentPath);
        if (!parent) throw folderUnknown(parentPath);
        if (await findFolderByPath(tx, environment.id, path)) throw folderExists(path);
        const moved = (old: string) => ({
          environment: environment.slug,
          path: path + old.slice(top.path.length),
        });
        requireFits(folders.map((row) => moved(row.path).path));
        for (const row of folders) {
          requireRight(scope.ability, "edit", "secret-folders", at(row.environment, row.path));
          requireRight(scope.ability, "create", "secret-folders", at(environment.slug, moved(row.path).path));
        }
        await requireForAll(scope, { folders, rows }, ["readValue", "delete"], moved);
        const context = { actor: scope.actor, orgId, projectId, dataKey, at: clock.now() };
        const origins = folders.flatMap((row) => [
          originOf(row),
          originOf({ environmentId: environment.id, path: moved(row.path).path }),
        ]);
        const affectedBefore = await findDependants(tx, origins);
        await relocateFolder(tx, {
          folder: top,
          ids: folders.map((row) => row.id),
          likeBelow: likeBelow(top.path),
          to: { environmentId: environment.id, parentId: parent.id, name, path },
          at: context.at,
        });
        if (change.description !== undefined)
          await describeFolder(tx, top.id, change.description, context.at);
        const places = new Map(
          folders.map((row) => [
            row.id,
            {
              from: placeOf(row),
              to: { ...placeOf(row), environmentId: environment.id, ...moved(row.path) },
            },
          ]),
        );
        await moveSecretsAlong(tx, context, places);
        touchProject(tx, projectId);
        announceAffected(
          tx,
          await withLater(tx, affectedBefore, origins),
          [...places.values()].flatMap(({ from, to }) => [from, to]),
        );
        auditFolder(tx, scope, "update-folder", {
          ...top,
          more: { newPath: path, newEnvironment: environment.slug },
        });
        return (await findFolderByPath(tx, environment.id, path)) as FolderRow;
      },
      { tenant: orgId },
    );
  };

  /** Every secret below has a new version: its place is part of its history, and names go and come. */
  const moveSecretsAlong = async (
    tx: Tx,
    context: ChangeContext,
    places: ReadonlyMap<string, { from: FolderPlace; to: FolderPlace }>,
  ): Promise<void> => {
    const ids = [...places.keys()];
    for (let after: string | undefined; ;) {
      const rows = await nextChunk(tx, ids, after);
      if (rows.length === 0) return;
      const changes: SecretChangeStep[] = [];
      for (const row of rows) {
        const { from, to } = places.get(row.folderId) as { from: FolderPlace; to: FolderPlace };
        const state = decryptState(await keyring.dataKeyById(row.keyId, tx), row);
        const draft = nextDraft(row, to, row.key, state);
        changes.push({ kind: "update", before: row, from, after: draft, isSameText: true });
      }
      await writeChangesNow(tx, context, changes, []);
      after = rows.at(-1)?.id;
    }
  };

  const withLater = async (
    tx: Tx,
    before: Awaited<ReturnType<typeof findDependants>>,
    origins: readonly Origin[],
  ) => {
    const all = new Map(
      [...before, ...(await findDependants(tx, origins))].map((one) => [
        `${one.environmentId}:${one.path}`,
        one,
      ]),
    );
    return [...all.values()];
  };

  return { ensure, seize, requireForAll, relocate };
}

export function requireFits(paths: readonly string[]): void {
  for (const path of paths) {
    if (path.length > MAX_PATH_LENGTH)
      throw invalidField(["path"], `must be at most ${MAX_PATH_LENGTH} characters long`);
    if (namesOf(path).length > MAX_DEPTH)
      throw invalidField(["path"], `must be at most ${MAX_DEPTH} folders deep`);
  }
}
