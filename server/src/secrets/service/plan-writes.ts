/**
 * The plan for each secret that a request names, made on rows that are read and locked: whether the caller may, what
 * is refused, what is written and what the caller is shown. Nothing here has an effect.
 */
import type { Keyring } from "../../platform/crypto/index.ts";
import type { Tx } from "../../platform/db/index.ts";
import { JudgingBudget } from "../../permissions/index.ts";
import { requireNoGain, requireRight, type ProjectScope } from "../access.ts";
import type { SecretChangeStep } from "../changes.ts";
import {
  attributesOf,
  decryptState,
  folderUnknown,
  nothingToOverride,
  secretExists,
  secretUnknown,
  type FolderPlace,
  type ReadSecret,
  type SecretRow,
  type TagRef,
} from "../model.ts";
import type { FolderAddress, WatchedFolder } from "../store.ts";
import {
  changedState,
  newDraft,
  newState,
  nextDraft,
  shown,
  shownRow,
  type ChangedFields,
  type NewFields,
} from "./drafts.ts";

/** A path that the caller named, before it is known whether the folder exists. */
export interface Target {
  readonly scope: ProjectScope;
  readonly at: FolderAddress;
  readonly place: { readonly environment: string; readonly path: string };
}

type SecretType = "shared" | "personal";

/** With the tags it will have. */
export interface SecretToMake extends NewFields {
  readonly key: string;
  readonly tags: readonly TagRef[];
}

interface SecretToChange {
  readonly key: string;
  readonly type: SecretType;
  readonly fields: ChangedFields;
  /** Undefined where they stay as they are. */
  readonly tags: readonly TagRef[] | undefined;
}

interface SecretToRemove {
  readonly key: string;
  readonly type: SecretType;
}

type UpdateMode = "failOnNotFound" | "ignore" | "upsert";

type WriteKind =
  | { readonly kind: "create"; readonly items: readonly SecretToMake[]; readonly ownerId: string | null }
  | {
      readonly kind: "update";
      readonly items: readonly SecretToChange[];
      /** What is done about names that do not exist. */
      readonly mode: UpdateMode;
    }
  | { readonly kind: "delete"; readonly items: readonly SecretToRemove[] };

export type WriteRequest = WriteKind & {
  readonly target: Target;
  /** Every name that is read or written. */
  readonly keys: readonly string[];
  /** For the audit log. */
  readonly event: string;
};

/** The input of a plan: everything was read under its locks. */
export interface LockedFolder {
  readonly tx: Tx;
  readonly folder: WatchedFolder | undefined;
  /** The shared secret of that name and everyone's overrides of it. */
  readonly rowsOf: (key: string) => readonly SecretRow[];
  readonly tagsOf: (row: SecretRow) => readonly TagRef[];
  readonly at: Date;
}

/** Of one secret. */
interface SecretPlan {
  readonly changes: readonly SecretChangeStep[];
  readonly secret: ReadSecret;
}

interface WritePlan {
  readonly changes: readonly SecretChangeStep[];
  readonly shown: readonly ReadSecret[];
}

interface PlanContext extends LockedFolder {
  readonly target: Target;
  readonly keyring: Keyring;
}

function planNew(
  { target, folder, rowsOf, at }: PlanContext,
  item: SecretToMake,
  ownerId: string | null,
): SecretPlan {
  if (!folder) throw folderUnknown(target.place.path);
  const here = rowsOf(item.key);
  if (here.some((row) => row.ownerId === ownerId)) throw secretExists(item.key);
  if (ownerId !== null && !here.some((row) => row.ownerId === null)) throw nothingToOverride(item.key);
  const draft = newDraft(folder, item.key, ownerId, { state: newState(item, item.tags), at });
  return {
    changes: [{ kind: "create", after: draft }],
    secret: shown(draft, { tags: item.tags, ability: target.scope.ability, at }),
  };
}

/** The row of that name, or a refusal that tells a caller without rights nothing. */
function pick(context: PlanContext, { key, type }: SecretToRemove, action: string): SecretRow {
  const { scope, place } = context.target;
  const ownerId = type === "personal" ? scope.actor.id : null;
  const row = context.rowsOf(key).find((candidate) => candidate.ownerId === ownerId);
  if (row) return row;
  requireRight(scope.ability, action, "secrets", attributesOf(place, key, []));
  throw context.folder ? secretUnknown(key) : folderUnknown(place.path);
}

/** One secret changed, and with a new name its overrides too. */
async function planChange(context: PlanContext, { fields, ...item }: SecretToChange): Promise<SecretPlan> {
  const { tx, target, keyring, rowsOf, at } = context;
  const { ability } = target.scope;
  const row = pick(context, item, "edit");
  const folder = context.folder as FolderPlace;
  const oldTags = context.tagsOf(row);
  const key = fields.newSecretName ?? row.key;
  const [before, after] = [
    attributesOf(folder, row.key, oldTags),
    attributesOf(folder, key, item.tags ?? oldTags),
  ];
  requireRight(ability, "edit", "secrets", before);
  if (key !== row.key || item.tags) {
    requireRight(ability, "edit", "secrets", after);
    requireNoGain(ability, before, after);
  }
  if (key !== row.key && rowsOf(key).some((other) => other.ownerId === row.ownerId)) throw secretExists(key);
  const dataKey = await keyring.dataKeyById(row.keyId, tx);
  const draft = nextDraft(row, folder, key, changedState(decryptState(dataKey, row), fields, item.tags));
  const changes: SecretChangeStep[] = [{ kind: "update", before: row, from: folder, after: draft }];
  if (key !== row.key && row.ownerId === null) {
    for (const override of rowsOf(row.key).filter((other) => other.ownerId !== null)) {
      const own = await keyring.dataKeyById(override.keyId, tx);
      const renamed = nextDraft(override, folder, key, decryptState(own, override));
      changes.push({ kind: "update", before: override, from: folder, after: renamed });
    }
  }
  return { changes, secret: shown(draft, { tags: item.tags ?? oldTags, ability, at }) };
}

async function planRemoval(context: PlanContext, item: SecretToRemove): Promise<SecretPlan> {
  const { ability } = context.target.scope;
  const row = pick(context, item, "delete");
  const folder = context.folder as FolderPlace;
  const tags = context.tagsOf(row);
  requireRight(ability, "delete", "secrets", attributesOf(folder, row.key, tags));
  // Overrides of a deleted secret would override nothing.
  const gone = row.ownerId === null ? context.rowsOf(row.key) : [row];
  const dataKey = await context.keyring.dataKeyById(row.keyId, context.tx);
  return {
    changes: gone.map((before): SecretChangeStep => ({ kind: "delete", before, from: folder })),
    secret: shownRow(row, folder, dataKey, { tags, ability }),
  };
}

/** Created because it does not exist: under its new name, not the one it was searched by. */
function planUpsert(context: PlanContext, { key: asked, fields, tags = [] }: SecretToChange): SecretPlan {
  const { scope, place } = context.target;
  const key = fields.newSecretName ?? asked;
  requireRight(scope.ability, "create", "secrets", attributesOf(place, key, tags));
  const made: NewFields = {
    secretValue: fields.secretValue ?? "",
    secretComment: fields.secretComment ?? "",
    secretMetadata: fields.secretMetadata ?? [],
    metadata: fields.metadata,
    skipMultilineEncoding: fields.skipMultilineEncoding,
    secretReminderNote: fields.secretReminderNote,
    secretReminderRepeatDays: fields.secretReminderRepeatDays,
  };
  return planNew(context, { ...made, key, tags }, null);
}

/** Undefined: it does not exist, and that is fine. */
function planUpdate(
  context: PlanContext,
  item: SecretToChange,
  mode: UpdateMode,
): Promise<SecretPlan> | SecretPlan | undefined {
  const isThere = context.rowsOf(item.key).some((row) => row.ownerId === null);
  if (isThere || mode === "failOnNotFound") return planChange(context, item);
  if (mode === "upsert") return planUpsert(context, item);
  // A caller who may not change it does not learn that it does not exist.
  const { scope, place } = context.target;
  requireRight(scope.ability, "edit", "secrets", attributesOf(place, item.key, []));
  return undefined;
}

/** One plan per secret, in order. */
function stepsOf(
  context: PlanContext,
  request: WriteKind,
): (() => Promise<SecretPlan> | SecretPlan | undefined)[] {
  switch (request.kind) {
    case "create":
      return request.items.map((item) => () => planNew(context, item, request.ownerId));
    case "update":
      return request.items.map((item) => () => planUpdate(context, item, request.mode));
    case "delete":
      return request.items.map((item) => () => planRemoval(context, item));
  }
}

/** A name that comes to be by this change, for one owner; undefined where it had it before. */
function newNameIn(change: SecretChangeStep): string | undefined {
  if (change.kind === "delete" || (change.kind === "update" && change.before.key === change.after.key))
    return undefined;
  return `${change.after.ownerId ?? ""} ${change.after.key}`;
}

/** Refuses by throwing a Problem. */
export async function planOf(
  locked: LockedFolder,
  request: WriteRequest,
  keyring: Keyring,
): Promise<WritePlan> {
  const context = { ...locked, target: request.target, keyring };
  const changes: SecretChangeStep[] = [];
  const secrets: ReadSecret[] = [];
  const taken = new Set<string>();
  const budget = new JudgingBudget();
  for (const step of stepsOf(context, request)) {
    if (budget.isDue()) await budget.giveWay();
    const plan = await step();
    if (plan === undefined) continue;
    for (const change of plan.changes) {
      const name = newNameIn(change);
      if (name !== undefined && taken.has(name)) throw secretExists(plan.secret.row.key);
      if (name !== undefined) taken.add(name);
      changes.push(change);
    }
    secrets.push(plan.secret);
  }
  return { changes, shown: secrets };
}
