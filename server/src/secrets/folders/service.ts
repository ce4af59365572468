/**
 * The tree. Creating a folder leaves the others alone; renaming, moving and deleting change the path of everything
 * below, so they take the project's tree for themselves and speak for every secret in it: names go in one place and
 * come in another.
 */
import type { MemberActor } from "../../platform/actor.ts";
import type { Clock } from "../../platform/clock.ts";
import type { Keyring } from "../../platform/crypto/index.ts";
import { isUniqueViolation, type Db, type Tx } from "../../platform/db/index.ts";
import { isUuid, newId } from "../../platform/ids.ts";
import { badRequest, conflict, invalidField, notFound } from "../../platform/problem.ts";
import { orgOf } from "../../permissions/index.ts";
import { require, type Access, type EnvironmentRef, type Ground } from "../access/service.ts";
import { writeChanges, announceAffected, type Change } from "../changes/service.ts";
import { findDependants, type Origin } from "../changes/store.ts";
import { attributesOf, decryptState, folderUnknown, type FolderPlace, type SecretRow } from "../model.ts";
import { isWithin, joinPath, MAX_DEPTH, MAX_PATH_LENGTH, namesOf, parentOf, ROOT } from "../paths/contract.ts";
import { nextDraft } from "../service/drafts.ts";
import { touchProject } from "../stamps/store.ts";
import { holdTree, holdTreeAlone, likeBelow, lockInFolders } from "../store.ts";
import { tagsFor, type Tags } from "../tags/service.ts";
import type { FolderChange, FolderMove, FolderQuery, FolderToDelete, NewFolder } from "./contract.ts";
import {
  countContent, deleteFolders, describeFolder, findFolderById, findFolderByPath, findFoldersByPaths, folderTree, foldersBelow, foldersChangedSince,
  foldersIn, insertFolder, relocateFolder, type FolderRow,
} from "./store.ts";

export interface FolderNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly keyring: Keyring;
  readonly access: Access;
  readonly tags: Tags;
}

export type Folders = ReturnType<typeof createFolders>;

const folderExists = (path: string) => conflict(`The folder ${path} exists already.`);
const rootIsFixed = () => badRequest("The root of an environment cannot be renamed, moved or deleted.");
const notEmpty = () => badRequest("The folder is not empty. Send forceDelete: true to delete it with everything in it.");

const at = (environment: string, path: string) => ({ environment, secretPath: path });
const placeOf = (row: FolderRow): FolderPlace => ({ id: row.id, projectId: row.projectId, environmentId: row.environmentId, environment: row.environment, path: row.path });
const originOf = ({ environmentId, path }: { environmentId: string; path: string }): Origin => ({ environmentId, path, key: null });

export function createFolders(needs: FolderNeeds) {
  const { db, clock, keyring, access, tags } = needs;

  const audit = (tx: Tx, { actor, project }: Ground, event: string, folder: FolderRow, more: Record<string, unknown> = {}) =>
    tx.audit(actor, { event, orgId: project.orgId, projectId: project.id, metadata: { environment: folder.environment, folderId: folder.id, path: folder.path, ...more } });

  /** The folder at the path, made if it is missing, with all above it. The caller holds the tree. */
  const ensure = async (tx: Tx, ground: Ground, environment: EnvironmentRef, path: string): Promise<{ folder: FolderRow; made: string[] }> => {
    const names = namesOf(path);
    const paths = names.reduce<string[]>((all, name) => [...all, joinPath(all.at(-1) ?? ROOT, name)], [ROOT]);
    const known = new Map((await findFoldersByPaths(tx, environment.id, paths)).map((row) => [row.path, row.id]));
    const made: string[] = [];
    for (const one of paths) {
      if (known.has(one)) continue;
      const parentId = known.get(parentOf(one));
      if (parentId === undefined) throw folderUnknown(parentOf(one));
      const id = newId();
      await insertFolder(tx, { id, projectId: ground.project.id, environmentId: environment.id, parentId, name: namesOf(one).at(-1) ?? "", path: one, description: null, at: clock.now() });
      known.set(one, id);
      made.push(one);
    }
    const folder = await findFolderByPath(tx, environment.id, path);
    if (!folder) throw folderUnknown(path);
    return { folder, made };
  };

  const byRef = async (actor: MemberActor, ref: string, where: { projectId: string; environment: string; path: string }): Promise<{ ground: Ground; folder: FolderRow }> => {
    const ground = await access.ground(actor, where.projectId);
    const environment = await access.environment(ground, where.environment);
    const path = joinPath(where.path, ref);
    const found = await db.read(async (q) => (isUuid(ref) ? await findFolderById(q, ref, orgOf(actor)) : undefined) ?? (await findFolderByPath(q, environment.id, path)));
    if (found && found.projectId === ground.project.id && found.environmentId === environment.id) return { ground, folder: found };
    require(ground.ability, "read", "secret-folders", at(environment.slug, where.path));
    throw notFound("The folder", ref);
  };

  interface Tree {
    readonly folders: readonly FolderRow[];
    readonly rows: readonly SecretRow[];
  }

  /** The folder as it is now, with everything below it, and nobody else changing any of it. */
  const seize = async (tx: Tx, folder: FolderRow): Promise<Tree & { top: FolderRow }> => {
    await holdTreeAlone(tx, folder.projectId);
    const now = await findFolderByPath(tx, folder.environmentId, folder.path);
    if (now?.id !== folder.id) throw folderUnknown(folder.path);
    if (now.parentId === null) throw rootIsFixed();
    const folders = await folderTree(tx, now.environmentId, now.path, likeBelow(now.path));
    return { top: now, folders, rows: await lockInFolders(tx, folders.map((row) => row.id)) };
  };

  const requireForAll = async (ground: Ground, { folders, rows }: Tree, actions: readonly string[], move?: (path: string) => { environment: string; path: string }): Promise<void> => {
    const known = await tags.lookUp(ground.project.id, rows.map((row) => row.tagIds));
    const byId = new Map(folders.map((row) => [row.id, row]));
    for (const row of rows.filter((candidate) => candidate.ownerId === null)) {
      const folder = byId.get(row.folderId) as FolderRow;
      const own = tagsFor(known, row.tagIds);
      for (const action of actions) require(ground.ability, action, "secrets", attributesOf(folder, row.key, own));
      if (move) require(ground.ability, "create", "secrets", attributesOf(move(folder.path), row.key, own));
    }
  };

  const relocate = async (ground: Ground, folder: FolderRow, change: { environment: EnvironmentRef; parentPath: string; name: string; description?: string | null | undefined }): Promise<FolderRow> => {
    const vault = await keyring.vaultOf({ projectId: ground.project.id });
    const { orgId, id: projectId } = ground.project;
    const { environment, parentPath, name } = change;
    const path = joinPath(parentPath, name);
    require(ground.ability, "edit", "secret-folders", at(folder.environment, folder.path));
    require(ground.ability, "create", "secret-folders", at(environment.slug, path));
    return db.write(async (tx) => {
      const { top, folders, rows } = await seize(tx, folder);
      if (environment.id === top.environmentId && isWithin(path, top.path)) throw badRequest("A folder cannot be moved into itself.");
      const parent = await findFolderByPath(tx, environment.id, parentPath);
      if (!parent) throw folderUnknown(parentPath);
      if (await findFolderByPath(tx, environment.id, path)) throw folderExists(path);
      const moved = (old: string) => ({ environment: environment.slug, path: path + old.slice(top.path.length) });
      requireFits(folders.map((row) => moved(row.path).path));
      await requireForAll(ground, { folders, rows }, ["readValue", "delete"], moved);
      const context = { actor: ground.actor, orgId, projectId, vault, at: clock.now() };
      const origins = folders.flatMap((row) => [originOf(row), originOf({ environmentId: environment.id, path: moved(row.path).path })]);
      const affectedBefore = await findDependants(tx, origins);
      await relocateFolder(tx, { folder: top, ids: folders.map((row) => row.id), likeBelow: likeBelow(top.path), to: { environmentId: environment.id, parentId: parent.id, name, path }, at: context.at });
      if (change.description !== undefined) await describeFolder(tx, top.id, change.description, context.at);
      const places = new Map(folders.map((row) => [row.id, { from: placeOf(row), to: { ...placeOf(row), environmentId: environment.id, ...moved(row.path) } }]));
      const changes = await moveSecretsAlong(tx, rows, places);
      writeChanges(tx, context, changes, []);
      touchProject(tx, projectId);
      announceAffected(tx, await withLater(tx, affectedBefore, origins), [...places.values()].flatMap(({ from, to }) => [from, to]));
      audit(tx, ground, "update-folder", top, { newPath: path, newEnvironment: environment.slug });
      return (await findFolderByPath(tx, environment.id, path)) as FolderRow;
    });
  };

  /** Every secret below has a new version: its place is part of its history, and names go and come. */
  const moveSecretsAlong = async (tx: Tx, rows: readonly SecretRow[], places: ReadonlyMap<string, { from: FolderPlace; to: FolderPlace }>): Promise<Change[]> => {
    const changes: Change[] = [];
    for (const row of rows) {
      const place = places.get(row.folderId);
      if (!place) continue;
      const state = decryptState(await keyring.vaultById(row.keyId, tx), row);
      changes.push({ kind: "update", before: row, from: place.from, after: nextDraft(row, place.to, row.key, state) });
    }
    return changes;
  };

  const withLater = async (tx: Tx, before: Awaited<ReturnType<typeof findDependants>>, origins: readonly Origin[]) => {
    const all = new Map([...before, ...(await findDependants(tx, origins))].map((one) => [`${one.environmentId}:${one.path}`, one]));
    return [...all.values()];
  };

  return {
    ensure,

    async create(actor: MemberActor, input: NewFolder): Promise<FolderRow> {
      const ground = await access.ground(actor, input.projectId);
      const environment = await access.environment(ground, input.environment);
      const path = joinPath(input.path, input.name);
      requireFits([path]);
      require(ground.ability, "create", "secret-folders", at(environment.slug, path));
      try {
        return await db.write(async (tx) => {
          await holdTree(tx, ground.project.id);
          const { folder, made } = await ensure(tx, ground, environment, path);
          if (!made.includes(path)) throw folderExists(path);
          for (const parent of made) require(ground.ability, "create", "secret-folders", at(environment.slug, parent));
          if (input.description != null) await describeFolder(tx, folder.id, input.description, folder.createdAt);
          touchProject(tx, ground.project.id);
          audit(tx, ground, "create-folder", folder);
          return { ...folder, description: input.description ?? null, version: 1 };
        });
      } catch (error) {
        if (isUniqueViolation(error, "folders_path_unique")) throw folderExists(path);
        throw error;
      }
    },

    async list(actor: MemberActor, query: FolderQuery): Promise<(FolderRow & { relativePath: string })[]> {
      const ground = await access.ground(actor, query.projectId);
      const environment = await access.environment(ground, query.environment);
      const parent = await db.read((q) => findFolderByPath(q, environment.id, query.path));
      const rows = parent ? await db.read((q) => (query.recursive ? foldersBelow(q, environment.id, likeBelow(query.path)) : foldersIn(q, parent.id))) : [];
      const seen = rows.filter((row) => ground.ability.can("read", "secret-folders", at(row.environment, row.path)));
      if (seen.length === 0) require(ground.ability, "read", "secret-folders", at(environment.slug, query.path));
      if (!parent) throw folderUnknown(query.path);
      const since = query.lastSecretModified;
      const changed = since && new Set((await db.read((q) => foldersChangedSince(q, seen.map((row) => row.id), since))).map((row) => row.id));
      return seen.filter((row) => !changed || changed.has(row.id)).map((row) => ({ ...row, relativePath: row.path.slice(query.path === ROOT ? 0 : query.path.length) }));
    },

    async get(actor: MemberActor, id: string): Promise<FolderRow> {
      const row = await db.read((q) => findFolderById(q, id, orgOf(actor)));
      if (!row) throw notFound("The folder", id);
      const ground = await access.ground(actor, row.projectId);
      require(ground.ability, "read", "secret-folders", at(row.environment, row.path));
      return row;
    },

    async getByPath(actor: MemberActor, where: { projectId: string; environment: string; path: string }): Promise<FolderRow> {
      const ground = await access.ground(actor, where.projectId);
      const environment = await access.environment(ground, where.environment);
      require(ground.ability, "read", "secret-folders", at(environment.slug, where.path));
      const row = await db.read((q) => findFolderByPath(q, environment.id, where.path));
      if (!row) throw folderUnknown(where.path);
      return row;
    },

    async update(actor: MemberActor, ref: string, input: FolderChange): Promise<FolderRow> {
      const { ground, folder } = await byRef(actor, ref, input);
      if (input.name !== undefined && input.name !== folder.name) {
        if (folder.parentId === null) throw rootIsFixed();
        const environment = await access.environment(ground, folder.environment);
        return relocate(ground, folder, { environment, parentPath: parentOf(folder.path), name: input.name, description: input.description });
      }
      require(ground.ability, "edit", "secret-folders", at(folder.environment, folder.path));
      return db.write(async (tx) => {
        await describeFolder(tx, folder.id, input.description, clock.now());
        touchProject(tx, ground.project.id);
        audit(tx, ground, "update-folder", folder);
        return (await findFolderByPath(tx, folder.environmentId, folder.path)) ?? folder;
      });
    },

    async move(actor: MemberActor, id: string, input: FolderMove): Promise<FolderRow> {
      const ground = await access.ground(actor, input.projectId);
      const folder = await db.read((q) => findFolderById(q, id, orgOf(actor)));
      if (!folder || folder.projectId !== ground.project.id) throw notFound("The folder", id);
      const environment = await access.environment(ground, input.destinationEnvironment);
      return relocate(ground, folder, { environment, parentPath: input.destinationPath, name: folder.name });
    },

    async delete(actor: MemberActor, ref: string, input: FolderToDelete): Promise<FolderRow> {
      const { ground, folder } = await byRef(actor, ref, input);
      require(ground.ability, "delete", "secret-folders", at(folder.environment, folder.path));
      const vault = await keyring.vaultOf({ projectId: ground.project.id });
      const { orgId, id: projectId } = ground.project;
      return db.write(async (tx) => {
        const tree = await seize(tx, folder);
        if (!input.forceDelete && (await countContent(tx, folder.id)) > 0) throw notEmpty();
        for (const row of tree.folders) require(ground.ability, "delete", "secret-folders", at(row.environment, row.path));
        await requireForAll(ground, tree, ["delete"]);
        const now = clock.now();
        const affected = await findDependants(tx, tree.folders.map(originOf));
        const places = new Map(tree.folders.map((row) => [row.id, placeOf(row)]));
        const changes = tree.rows.map((before): Change => ({ kind: "delete", before, from: places.get(before.folderId) as FolderPlace }));
        writeChanges(tx, { actor, orgId, projectId, vault, at: now }, changes, []);
        announceAffected(tx, affected, tree.folders);
        await deleteFolders(tx, tree.folders.map((row) => row.id), now);
        touchProject(tx, projectId);
        audit(tx, ground, "delete-folder", tree.top, { numberOfSecrets: tree.rows.length });
        return tree.top;
      });
    },
  };
}

function requireFits(paths: readonly string[]): void {
  for (const path of paths) {
    if (path.length > MAX_PATH_LENGTH) throw invalidField(["path"], `must be at most ${MAX_PATH_LENGTH} characters long`);
    if (namesOf(path).length > MAX_DEPTH) throw invalidField(["path"], `must be at most ${MAX_DEPTH} folders deep`);
  }
}
