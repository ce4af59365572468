/** From what a caller sent to the secret as it will be. Pure but for ids and ciphers. */
import type { DataKey } from "../../platform/crypto/index.ts";
import { newId } from "../../platform/ids.ts";
import { badRequest } from "../../platform/problem.ts";
import { redact } from "../../platform/redacted.ts";
import type { Ability } from "../../permissions/index.ts";
import type { SecretChangeStep, SecretDraft } from "../changes.ts";
import type { SecretMetadataItem, NewSecret, SecretChange } from "../contract.ts";
import {
  attributesOf,
  closeMetadata,
  decryptState,
  type FolderPlace,
  type ReadSecret,
  type SecretHead,
  type SecretRow,
  type SecretState,
  type TagRef,
} from "../model.ts";

export type NewFields = Pick<
  NewSecret,
  | "secretValue"
  | "secretComment"
  | "secretMetadata"
  | "skipMultilineEncoding"
  | "secretReminderNote"
  | "secretReminderRepeatDays"
> & { readonly metadata?: Readonly<Record<string, string>> | undefined };
export type ChangedFields = Omit<SecretChange, "projectId" | "environment" | "secretPath" | "type">;

const fromPairs = (pairs: Readonly<Record<string, string>>): SecretMetadataItem[] =>
  Object.entries(pairs).map(([key, value]) => ({ key, value, isEncrypted: false }));

export function newState(input: NewFields, tags: readonly TagRef[]): SecretState {
  const metadata =
    input.secretMetadata.length === 0 && input.metadata ? fromPairs(input.metadata) : input.secretMetadata;
  return {
    value: input.secretValue,
    comment: input.secretComment,
    metadata,
    tagIds: tags.map((tag) => tag.id),
    skipMultiline: input.skipMultilineEncoding ?? null,
    reminderNote: input.secretReminderNote ?? null,
    reminderDays: input.secretReminderRepeatDays ?? null,
  };
}

/** A field that is present is applied; one that is absent stays; null clears. */
export function changedState(
  before: SecretState,
  input: ChangedFields,
  tags: readonly TagRef[] | undefined,
): SecretState {
  const metadata = input.secretMetadata ?? (input.metadata ? fromPairs(input.metadata) : before.metadata);
  return {
    value: input.secretValue ?? before.value,
    comment: input.secretComment ?? before.comment,
    metadata,
    tagIds: tags?.map((tag) => tag.id) ?? before.tagIds,
    skipMultiline:
      input.skipMultilineEncoding === undefined ? before.skipMultiline : input.skipMultilineEncoding,
    reminderNote: input.secretReminderNote === undefined ? before.reminderNote : input.secretReminderNote,
    reminderDays:
      input.secretReminderRepeatDays === undefined ? before.reminderDays : input.secretReminderRepeatDays,
  };
}

export const newDraft = (
  folder: FolderPlace,
  key: string,
  ownerId: string | null,
  more: { state: SecretState; at: Date },
): SecretDraft => ({
  id: newId(),
  folder,
  key,
  ownerId,
  version: 1,
  createdAt: more.at,
  state: more.state,
});

export const nextDraft = (
  row: SecretHead,
  folder: FolderPlace,
  key: string,
  state: SecretState,
): SecretDraft => ({
  id: row.id,
  folder,
  key,
  ownerId: row.ownerId,
  version: row.version + 1,
  createdAt: row.createdAt,
  state,
});

/** What the writer is shown of what was written: the value only if it may be read. */
export function shown(
  draft: SecretDraft,
  more: { tags: readonly TagRef[]; ability: Ability; at: Date },
): ReadSecret {
  const { folder, state, ...rest } = draft;
  const isReadable = more.ability.can("readValue", "secrets", attributesOf(folder, draft.key, more.tags));
  return {
    row: {
      ...rest,
      folderId: folder.id,
      updatedAt: more.at,
      skipMultiline: state.skipMultiline,
      reminderNote: state.reminderNote,
      reminderDays: state.reminderDays,
    },
    folder,
    tags: more.tags,
    value: isReadable ? redact(state.value) : undefined,
    comment: redact(state.comment),
    metadata: redact(isReadable ? state.metadata : closeMetadata(state.metadata)),
  };
}

/** A deleted secret, as it was. */
export function shownRow(
  row: SecretRow,
  folder: FolderPlace,
  dataKey: DataKey,
  more: { tags: readonly TagRef[]; ability: Ability },
): ReadSecret {
  const draft = { ...nextDraft(row, folder, row.key, decryptState(dataKey, row)), version: row.version };
  return shown(draft, { ...more, at: row.updatedAt });
}

export function requireDistinct(keys: readonly string[]): void {
  const seen = new Set<string>();
  for (const key of keys) {
    if (seen.has(key)) throw badRequest(`The secret ${JSON.stringify(key)} is named more than once.`);
    seen.add(key);
  }
}

const MAX_AUDITED = 100;

/** The audit row of a change: names and versions, never a value. */
export function auditOf(
  place: { readonly environment: string; readonly path: string },
  changes: readonly SecretChangeStep[],
): Record<string, unknown> {
  const secrets = changes
    .slice(0, MAX_AUDITED)
    .map((change) =>
      change.kind === "delete"
        ? { secretId: change.before.id, secretKey: change.before.key, version: change.before.version + 1 }
        : { secretId: change.after.id, secretKey: change.after.key, version: change.after.version },
    );
  return { environment: place.environment, secretPath: place.path, numberOfSecrets: changes.length, secrets };
}
