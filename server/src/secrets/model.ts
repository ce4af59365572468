/**
 * A secret as it is stored and as it is read. What is stored is encrypted; the context bound into each ciphertext (AAD)
 * is the secret's id, the column and the version, so that a ciphertext moved to another row, column or version does
 * not open. The newest version and its row in the history hold the same bytes.
 */
import { badRequest, notFound } from "../platform/problem.ts";
import type { Redacted } from "../platform/redacted.ts";
import type { ConditionAttributes } from "../permissions/index.ts";
import type { SecretMetadataItem, SecretView } from "./contract.ts";

export const secretExists = (key: string) =>
  badRequest(`A secret with the name ${JSON.stringify(key)} exists in this folder already.`);
export const secretUnknown = (key: string) => notFound("The secret", key);
/** Never existed, or is no longer kept: a project may limit how many versions it keeps. */
export const versionUnknown = (version: number, key: string) =>
  notFound(`Version ${version} (not there or no longer kept) of the secret`, key);
export const folderUnknown = (path: string) => notFound("The folder", path);
export const environmentUnknown = (slug: string) => notFound("The environment", slug);
/** The stored bytes of all secrets in one answer: what a server can decrypt and send at once without harm. */
export const MAX_ANSWER_BYTES = 64 * 1024 * 1024;
/** What each secret adds to that: a million empty ones are no small answer. */
export const MIN_WEIGHT = 256;
export const answerTooLarge = () =>
  badRequest(
    `The secrets of this answer are larger than ${MAX_ANSWER_BYTES / 1024 / 1024} MiB together (each counts ${MIN_WEIGHT} bytes besides what it holds). Read them folder by folder (recursive=false, includeImports=false) or by name; with viewSecretValue=false values do not count.`,
  );
export const requestTooLarge = () =>
  badRequest(
    `The secrets that this would change are larger than ${MAX_ANSWER_BYTES / 1024 / 1024} MiB together. Send them in several requests.`,
  );
export const nothingToOverride = (key: string) =>
  badRequest(`There is no shared secret ${JSON.stringify(key)} in this folder that could be overridden.`);

/** Placeholder for a value that the reader may know of but not see. */
const HIDDEN = "<hidden-by-keyward>";

/** A folder with its path: permissions, facts and answers all use this. */
export interface FolderPlace {
  readonly id: string;
  readonly projectId: string;
  readonly environmentId: string;
  readonly environment: string;
  readonly path: string;
}

interface StoredMetadata {
  readonly key: string;
  readonly value: string;
  readonly isEncrypted: boolean;
}

/** The encrypted part and what goes along with it, the same in `secrets` and in its history. */
export interface StoredState {
  readonly keyId: string;
  readonly value: Buffer;
  readonly comment: Buffer | null;
  readonly metadata: readonly StoredMetadata[] | null;
  readonly tagIds: readonly string[];
  readonly skipMultiline: boolean | null;
  readonly reminderNote: string | null;
  readonly reminderDays: number | null;
}

export interface SecretRow extends StoredState {
  readonly id: string;
  readonly folderId: string;
  readonly key: string;
  readonly ownerId: string | null;
  readonly version: number;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

/** The part that is not encrypted. */
export type SecretHead = Omit<SecretRow, "value" | "comment" | "metadata">;

/** A row that was weighed against what one answer may hold. */
export interface Weighed {
  readonly weight: number;
  /** It did not fit: value, comment and metadata were not even loaded. */
  readonly isLeftOut: boolean;
}

/** The readable state of one version. */
export interface SecretState {
  readonly value: string;
  readonly comment: string;
  readonly metadata: readonly SecretMetadataItem[];
  readonly tagIds: readonly string[];
  readonly skipMultiline: boolean | null;
  readonly reminderNote: string | null;
  readonly reminderDays: number | null;
}

/** What encrypts and decrypts: the part of a data key of the keyring that is used here. */
interface Cipher {
  readonly keyId: string;
  encrypt(plain: string, place: CipherPlace): Buffer;
  decrypt(box: Buffer, place: CipherPlace): Buffer;
}
interface CipherPlace {
  readonly table: string;
  readonly row: string;
  readonly column: string;
  readonly version: number;
}

interface Numbered {
  readonly id: string;
  readonly version: number;
}

const spot = ({ id, version }: Numbered, column: string) => ({
  table: "secret_versions",
  row: id,
  column,
  version,
});

export function encryptState(dataKey: Cipher, secret: Numbered, state: SecretState): StoredState {
  const metadata = state.metadata.map((item, at) => {
    if (!item.isEncrypted) return item;
    const box = dataKey.encrypt(item.value, spot(secret, `metadata.${at}`));
    return { ...item, value: box.toString("base64") };
  });
  return {
    keyId: dataKey.keyId,
    value: dataKey.encrypt(state.value, spot(secret, "value")),
    comment: state.comment === "" ? null : dataKey.encrypt(state.comment, spot(secret, "comment")),
    metadata: metadata.length === 0 ? null : metadata,
    tagIds: state.tagIds,
    skipMultiline: state.skipMultiline,
    reminderNote: state.reminderNote,
    reminderDays: state.reminderDays,
  };
}

export const decryptValue = (dataKey: Cipher, row: Numbered & StoredState): string =>
  dataKey.decrypt(row.value, spot(row, "value")).toString("utf8");

export const decryptComment = (dataKey: Cipher, row: Numbered & StoredState): string =>
  row.comment === null ? "" : dataKey.decrypt(row.comment, spot(row, "comment")).toString("utf8");

export function decryptMetadata(dataKey: Cipher, row: Numbered & StoredState): SecretMetadataItem[] {
  return (row.metadata ?? []).map((item, at) => {
    if (!item.isEncrypted) return { ...item };
    const box = Buffer.from(item.value, "base64");
    return { ...item, value: dataKey.decrypt(box, spot(row, `metadata.${at}`)).toString("utf8") };
  });
}

/** Metadata for a reader who may not see the value: encrypted metadata is hidden with it. */
export const closeMetadata = (metadata: readonly SecretMetadataItem[]): SecretMetadataItem[] =>
  metadata.map((item) => (item.isEncrypted ? { ...item, value: "" } : item));

export function decryptState(dataKey: Cipher, row: Numbered & StoredState): SecretState {
  return {
    value: decryptValue(dataKey, row),
    comment: decryptComment(dataKey, row),
    metadata: decryptMetadata(dataKey, row),
    tagIds: row.tagIds,
    skipMultiline: row.skipMultiline,
    reminderNote: row.reminderNote,
    reminderDays: row.reminderDays,
  };
}

export interface TagRef {
  readonly id: string;
  readonly slug: string;
  readonly name: string;
  readonly color: string;
}

/** A secret as it is answered. `value` is absent where the reader may know of it but not see it. */
export interface ReadSecret {
  readonly row: Omit<SecretRow, keyof StoredState> &
    Pick<StoredState, "skipMultiline" | "reminderNote" | "reminderDays">;
  readonly folder: FolderPlace;
  readonly tags: readonly TagRef[];
  readonly value: Redacted<string> | undefined;
  readonly comment: Redacted<string>;
  readonly metadata: Redacted<readonly SecretMetadataItem[]>;
}

export function toView({ row, folder, tags, value, comment, metadata }: ReadSecret): SecretView {
  return {
    id: row.id,
    _id: row.id,
    workspace: folder.projectId,
    environment: folder.environment,
    version: row.version,
    type: row.ownerId === null ? "shared" : "personal",
    secretKey: row.key,
    secretValue: value === undefined ? HIDDEN : value.open(),
    secretValueHidden: value === undefined,
    secretComment: comment.open(),
    secretPath: folder.path,
    secretMetadata: [...metadata.open()],
    tags: [...tags],
    skipMultilineEncoding: row.skipMultiline,
    secretReminderNote: row.reminderNote,
    secretReminderRepeatDays: row.reminderDays,
    createdAt: row.createdAt,
    updatedAt: row.updatedAt,
    actor: null,
    isRotatedSecret: false,
    rotationId: null,
  };
}

/** The attributes that permissions are checked with. */
export const attributesOf = (
  folder: Pick<FolderPlace, "environment" | "path">,
  key: string,
  tags: readonly TagRef[],
): ConditionAttributes => ({
  environment: folder.environment,
  secretPath: folder.path,
  secretName: key,
  secretTags: tags.map((tag) => tag.slug),
});

/** `key=a,value=b|key=c`: every item must be met by some metadata of the secret. Encrypted values match nothing. */
function metadataMatches(filter: string, metadata: readonly StoredMetadata[] | null): boolean {
  return filter.split("|").every((item) => {
    const wanted = new Map(item.split(",").map((part): [string, string] => splitOnce(part)));
    const [key, value] = [wanted.get("key"), wanted.get("value")];
    return (metadata ?? []).some(
      (entry) =>
        (key === undefined || entry.key === key) &&
        (value === undefined || (!entry.isEncrypted && entry.value === value)),
    );
  });
}

/** The filters of a list. */
export function passesFilters(
  secret: ReadSecret,
  query: { readonly tagSlugs?: string | undefined; readonly metadataFilter?: string | undefined },
): boolean {
  if (query.tagSlugs !== undefined) {
    const wanted = query.tagSlugs
      .split(",")
      .map((slug) => slug.trim())
      .filter((slug) => slug !== "");
    if (wanted.length > 0 && !secret.tags.some((tag) => wanted.includes(tag.slug))) return false;
  }
  if (query.metadataFilter === undefined) return true;
  return metadataMatches(query.metadataFilter, secret.metadata.open());
}

function splitOnce(part: string): [string, string] {
  const at = part.indexOf("=");
  return at < 0 ? [part.trim(), ""] : [part.slice(0, at).trim(), part.slice(at + 1)];
}
