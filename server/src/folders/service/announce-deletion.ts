/**
 * What is announced when an environment or a project is deleted, or an environment gets another slug. For subscribers,
 * a new slug is a move: every name is deleted in the old environment and created in the new one. And folders that showed them
 * through an import or a reference get an import mutation.
 */
import type { Tx } from "../../platform/db/index.ts";
import type { Permissions } from "../../permissions/index.ts";
import type { Environments, Projects } from "../../projects/index.ts";
import { secretsChanged } from "../../secrets/events.ts";
import { importedFromOutside, namesInEnvironment, secretsInEnvironment } from "../store.ts";
import {
  requireRight,
  announceAffected,
  findDependants,
  type Dependant,
  attributesOf,
  touchProject,
  lockTreeAlone,
  tagsFor,
  type Tags,
} from "../../secrets/index.ts";

const MAX_KEYS = 5000;

interface AnnouncedPlace {
  readonly orgId: string;
  readonly projectId: string;
  readonly environment: string;
}

function announceNames(
  tx: Tx,
  place: AnnouncedPlace,
  change: "create" | "delete",
  folders: ReadonlyMap<string, readonly string[]>,
): void {
  for (const [path, keys] of folders) {
    for (let from = 0; from < keys.length; from += MAX_KEYS)
      tx.emit(secretsChanged({ ...place, path, change, keys: keys.slice(from, from + MAX_KEYS) }));
  }
}

const spotsOf = (environmentId: string, folders: ReadonlyMap<string, unknown>) =>
  [...folders.keys()].map((path) => ({ environmentId, path, key: null }));

type Deletion = Parameters<Environments["onDelete"]>[0];

interface DeletionNeeds {
  readonly permissions: Permissions;
  readonly tags: Tags;
}

export function createDeletionAnnouncer({ permissions, tags }: DeletionNeeds): Deletion {
  /** The secrets are deleted with the environment, so the caller must be able to delete each of them. */
  const requireDeletable = async (...[tx, actor, project, environment]: Parameters<Deletion>) => {
    const ability = await permissions.inProject(actor, project.id);
    let page = await secretsInEnvironment(tx, environment.id, undefined);
    while (page.length > 0) {
      const known = await tags.lookUp(
        project.id,
        page.map((row) => row.tagIds),
      );
      for (const { path, key, tagIds } of page) {
        const place = { environment: environment.slug, path };
        requireRight(ability, "delete", "secrets", attributesOf(place, key, tagsFor(known, tagIds)));
      }
      page = await secretsInEnvironment(tx, environment.id, page.at(-1)?.id);
    }
  };

  return async (tx, actor, project, environment) => {
    await lockTreeAlone(tx, project.id);
    await requireDeletable(tx, actor, project, environment);
    const folders = await namesInEnvironment(tx, environment.id);
    const spots = spotsOf(environment.id, folders);
    const affected = await findDependants(tx, spots);
    const place = { orgId: project.orgId, projectId: project.id, environment: environment.slug };
    announceNames(tx, place, "delete", folders);
    announceAffected(tx, affected, spots);
    touchOthers(tx, project.id, affected);
  };
}

/** References name an environment by its slug: those to the old one lose their target, those to the new one find it. */
export const announceNewName: Parameters<Environments["onRename"]>[0] = async (tx, project, before) => {
  await lockTreeAlone(tx, project.id);
  const folders = await namesInEnvironment(tx, before.id);
  const spots = spotsOf(before.id, folders);
  const affectedBefore = await findDependants(tx, spots);
  return async (renamed) => {
    const all = new Map<string, Dependant>();
    for (const one of [...affectedBefore, ...(await findDependants(tx, spots))])
      all.set(`${one.environmentId}:${one.path}`, one);
    const place = { orgId: project.orgId, projectId: project.id };
    announceNames(tx, { ...place, environment: before.slug }, "delete", folders);
    announceNames(tx, { ...place, environment: renamed.slug }, "create", folders);
    announceAffected(tx, [...all.values()], spots);
    touchOthers(tx, project.id, [...all.values()]);
  };
};

/** A project's own streams end with it; what other projects imported from it is gone for them too. */
export const announceDeletion: Parameters<Projects["onDelete"]>[0] = async (tx, project) => {
  await lockTreeAlone(tx, project.id);
  const spots = (await importedFromOutside(tx, project.id)).map((spot) => ({ ...spot, key: null }));
  const affected = (await findDependants(tx, spots)).filter(({ projectId }) => projectId !== project.id);
  announceAffected(tx, affected, spots);
  touchOthers(tx, project.id, affected);
};

/** Their imports go with the source, so their tags must change by more than the source's number. */
function touchOthers(tx: Tx, projectId: string, affected: readonly Dependant[]): void {
  // In the same order everywhere, so that two such changes at once do not deadlock.
  const others = new Set(affected.map((one) => one.projectId).filter((id) => id !== projectId));
  for (const id of [...others].sort()) touchProject(tx, id);
}
