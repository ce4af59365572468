/**
 * Every change of secrets ends here, whichever use case made it: encrypted rows, history, index of references, the
 * project's revision, and the facts. Nothing is sent before the commit: all of it is sent with it.
 */
import type { Actor } from "../platform/actor.ts";
import type { DataKey } from "../platform/crypto/index.ts";
import type { Tx } from "../platform/db/index.ts";
import { inChunks } from "../platform/pace.ts";
import { badRequest } from "../platform/problem.ts";
import { addToGroup } from "../platform/group-by.ts";
import { importsMutated, secretsChanged } from "./events.ts";
import {
  encryptState,
  type FolderPlace,
  type SecretHead,
  type SecretRow,
  type SecretState,
} from "./model.ts";
import { MAX_REFERENCES, referencesIn, tooManyReferences } from "./resolution/model.ts";
import { touchProject } from "./revisions.store.ts";
import {
  isMuch,
  writeReferences,
  writeVersions,
  type Dependant,
  type NewReference,
  type NewVersion,
  type Origin,
} from "./changes.store.ts";

/** A secret as it will be. */
export interface SecretDraft {
  readonly id: string;
  readonly folder: FolderPlace;
  readonly key: string;
  readonly ownerId: string | null;
  readonly version: number;
  readonly createdAt: Date;
  readonly state: SecretState;
}

export type SecretChangeStep =
  | { readonly kind: "create"; readonly after: SecretDraft }
  | {
      readonly kind: "update";
      readonly before: SecretHead;
      readonly from: FolderPlace;
      readonly after: SecretDraft;
      /** Name, value and folder are unchanged: its references are indexed already. */
      readonly isSameText?: true;
    }
  | { readonly kind: "delete"; readonly before: SecretHead; readonly from: FolderPlace };

interface WriteContext {
  readonly orgId: string;
  readonly projectId: string;
  readonly dataKey: DataKey;
  readonly at: Date;
}
export interface ChangeContext extends WriteContext {
  readonly actor: Actor;
}

/** The rows of one request, ready to be written. */
export interface ChangeSet {
  readonly changes: readonly SecretChangeStep[];
  readonly versions: readonly NewVersion[];
  /** What each changed secret refers to from now on, by its id. */
  readonly mentioned: ReadonlyMap<string, readonly NewReference[]>;
  readonly affected: readonly Dependant[];
}

/** In chunks: up to five thousand values are scanned and encrypted. */
export async function changeSetOf(
  { actor, dataKey }: Pick<ChangeContext, "actor" | "dataKey">,
  changes: readonly SecretChangeStep[],
  affected: readonly Dependant[],
): Promise<ChangeSet> {
  const mentioned = new Map<string, readonly NewReference[]>();
  const versions: NewVersion[] = [];
  // First: this is where a value may be refused, and nothing was encrypted for it yet.
  await inChunks(changes, (change) => {
    if (!isSameText(change)) mentioned.set(idOf(change), referencesOf(change));
  });
  await inChunks(changes, (change) => void versions.push(toVersion(change, dataKey, actor)));
  return { changes, mentioned, versions, affected };
}

/** Of one request: each reference is a row of the index, and the values of a request can hold a million. */
export const MOST_REFERENCES = 25_000;

export function requireFewReferences({ mentioned }: ChangeSet, most = MOST_REFERENCES): void {
  let count = 0;
  for (const references of mentioned.values()) count += references.length;
  if (count > most)
    throw badRequest(
      `The values of one request may hold at most ${most} references together; these hold ${count}. Send them in several requests.`,
    );
}

const isSameText = (change: SecretChangeStep): boolean =>
  change.kind === "update" && change.isSameText === true;
const idOf = (change: SecretChangeStep): string =>
  change.kind === "delete" ? change.before.id : change.after.id;

function toVersion(change: SecretChangeStep, dataKey: DataKey, actor: Actor): NewVersion {
  if (change.kind === "delete") {
    const { id, folderId, key, ownerId, version, createdAt, keyId, tagIds } = change.before;
    return {
      id,
      folderId,
      key,
      ownerId,
      version: version + 1,
      change: "delete",
      createdAt,
      state: null,
      keyId,
      tagIds,
      actor,
    };
  }
  const { id, folder, key, ownerId, version, createdAt, state } = change.after;
  const stored = encryptState(dataKey, { id, version }, state);
  return {
    id,
    folderId: folder.id,
    key,
    ownerId,
    version,
    change: change.kind,
    createdAt,
    state: stored,
    keyId: stored.keyId,
    tagIds: stored.tagIds,
    actor,
    keepsReferences: isSameText(change),
  };
}

/** The row that a version leaves in the table, for later requests of the same transaction, before it is written. */
export function noteVersion(rows: Map<string, SecretRow>, version: NewVersion, at: Date): void {
  const { id, folderId, key, ownerId, createdAt, state } = version;
  if (state)
    rows.set(id, {
      ...state,
      id,
      folderId,
      key,
      ownerId,
      version: version.version,
      createdAt,
      updatedAt: at,
    });
  else rows.delete(id);
}

function referencesOf(change: SecretChangeStep): NewReference[] {
  if (change.kind === "delete") return [];
  const { id, folder, key, ownerId, state } = change.after;
  const references = referencesIn(state.value);
  if (references.length > MAX_REFERENCES) throw tooManyReferences(key);
  if (ownerId !== null) return [];
  return references.map((reference) => ({ secretId: id, folderId: folder.id, secretKey: key, ...reference }));
}

type Kind = "create" | "update" | "delete";

/** A moved folder is the same folder at another path: what counts is the path. */
const spotOf = (folder: { readonly environmentId: string; readonly path: string }): string =>
  `${folder.environmentId}:${folder.path}`;

/** The change as subscribers see it: a rename or move is one name deleted and one created. */
function effectsOf(
  change: SecretChangeStep,
): { readonly folder: FolderPlace; readonly kind: Kind; readonly key: string }[] {
  if (change.kind === "create")
    return [{ folder: change.after.folder, kind: "create", key: change.after.key }];
  if (change.kind === "delete") return [{ folder: change.from, kind: "delete", key: change.before.key }];
  const { before, from, after } = change;
  if (before.key === after.key && spotOf(from) === spotOf(after.folder))
    return [{ folder: from, kind: "update", key: after.key }];
  return [
    { folder: from, kind: "delete", key: before.key },
    { folder: after.folder, kind: "create", key: after.key },
  ];
}

const ownerOf = (change: SecretChangeStep): string | null =>
  change.kind === "delete" ? change.before.ownerId : change.after.ownerId;
const ORDER: readonly Kind[] = ["delete", "create", "update"];

/** One fact per folder and kind, with all its names. */
function announce(
  tx: Tx,
  { orgId, projectId }: Pick<WriteContext, "orgId" | "projectId">,
  { changes, affected }: ChangeSet,
): void {
  const groups = new Map<string, { folder: FolderPlace; kinds: Map<Kind, string[]> }>();
  for (const effect of changes.filter((change) => ownerOf(change) === null).flatMap(effectsOf)) {
    const group = groups.get(spotOf(effect.folder)) ?? {
      folder: effect.folder,
      kinds: new Map<Kind, string[]>(),
    };
    groups.set(spotOf(effect.folder), group);
    addToGroup(group.kinds, effect.kind, effect.key);
  }
  for (const { folder, kinds } of groups.values()) {
    for (const change of ORDER) {
      const keys = kinds.get(change);
      if (keys)
        tx.emit(
          secretsChanged({
            orgId,
            projectId,
            environment: folder.environment,
            path: folder.path,
            change,
            keys,
          }),
        );
    }
  }
  if (groups.size > 0)
    announceAffected(
      tx,
      affected,
      [...groups.values()].map((group) => group.folder),
    );
}

/** The changed folders have their own facts; folders that show them through imports or references get one each. */
export function announceAffected(
  tx: Tx,
  affected: readonly Dependant[],
  origins: readonly { environmentId: string; path: string }[],
): void {
  const own = new Set(origins.map(spotOf));
  for (const { orgId, projectId, environmentId, environment, path } of affected) {
    if (!own.has(spotOf({ environmentId, path })))
      tx.emit(importsMutated({ orgId, projectId, environment, path }));
  }
}

/** The names to look up in the index, before the whole change is known. */
export const originsOf = (
  folder: { environmentId: string; path: string },
  keys: readonly string[],
): Origin[] => keys.map((key) => ({ environmentId: folder.environmentId, path: folder.path, key }));

/** The change sets of all requests in order, in one transaction; each has its own facts. */
export async function writeChangeSets(
  tx: Tx,
  context: WriteContext,
  changeSets: readonly ChangeSet[],
): Promise<void> {
  const changes = changeSets.flatMap((changeSet) => changeSet.changes);
  if (changes.length === 0) return;
  const { projectId, at } = context;
  const versions = changeSets.flatMap((changeSet) => changeSet.versions);
  // Of a secret that changed twice, only what its last value refers to counts.
  const mentioned = new Map(changeSets.flatMap((changeSet) => [...changeSet.mentioned]));
  const references = [...mentioned.values()].flat();
  const writer = { projectId, at, isMuch: isMuch(versions, references) };
  await writeVersions(tx, writer, versions);
  await writeReferences(tx, writer, references);
  touchProject(tx, projectId);
  for (const changeSet of changeSets) announce(tx, context, changeSet);
}

export const writeChanges = async (
  tx: Tx,
  context: ChangeContext,
  changes: readonly SecretChangeStep[],
  affected: readonly Dependant[],
): Promise<void> => writeChangeSets(tx, context, [await changeSetOf(context, changes, affected)]);

/** The same, sent immediately and not with the commit: for changes that are too large to be kept until then. */
export async function writeChangesNow(
  tx: Tx,
  context: ChangeContext,
  changes: readonly SecretChangeStep[],
  affected: readonly Dependant[],
): Promise<void> {
  const sent: Promise<unknown>[] = [];
  const prompt: Tx = { ...tx, defer: (statement, values) => void sent.push(tx.rows(statement, values)) };
  await writeChanges(prompt, context, changes, affected);
  await Promise.all(sent);
}
