import type { Ability, ConditionAttributes } from "../permissions/index.ts";
import { badRequest } from "../platform/problem.ts";
import { namesOf } from "../secrets/paths.contract.ts";
import {
  attributesOf,
  MAX_ANSWER_BYTES,
  type FolderPlace,
  type SecretRow,
  type TagRef,
} from "../secrets/model.ts";

export const beforeHistory = (wholeFrom: Date) =>
  badRequest(
    `That moment is beyond the history that this project keeps (pitVersionLimit). Here it is whole from ${wholeFrom.toISOString()} on.`,
  );
export const rollbackTooLarge = () =>
  badRequest(
    `There is more than ${MAX_ANSWER_BYTES / 1024 / 1024} MiB to go through. Go back folder by folder (recursive=false) or secret by secret.`,
  );

/** The folder itself and all above it but the root, which is always there. */
export const pathsTo = (path: string): string[] =>
  namesOf(path).map((_, at, names) => `/${names.slice(0, at + 1).join("/")}`);

/** A place that a folder had for a while. */
export interface PlaceThen {
  readonly folderId: string;
  /** Null if the environment is gone. */
  readonly environment: string | null;
  readonly path: string;
  readonly fromAt: Date;
  readonly toAt: Date | null;
}

type Written = Pick<SecretRow, "folderId" | "key" | "createdAt">;

/**
 * What a version was when it was written, as permissions are asked about it: under the name and tags of then, both
 * where it was written and where the secret is today. A place that nobody knows any more leaves the question open, and
 * open questions are decided against the reader.
 */
export function attributesThen(
  version: Written,
  places: readonly PlaceThen[],
  tags: readonly TagRef[],
  today: Pick<FolderPlace, "environment" | "path">,
): ConditionAttributes[] {
  const ofFolder = places.filter(({ folderId }) => folderId === version.folderId);
  const fitting = ofFolder.filter(
    ({ fromAt, toAt }) => fromAt <= version.createdAt && (toAt === null || toAt > version.createdAt),
  );
  // Clocks of several servers may differ a little; then it was in one of the places that the folder ever had.
  const then = fitting.length > 0 ? fitting : ofFolder;
  const named = attributesOf(today, version.key, tags);
  const elsewhere = then.map(({ environment, path }) => ({
    ...named,
    environment: environment ?? undefined,
    secretPath: path,
  }));
  return [
    named,
    ...(elsewhere.length > 0 ? elsewhere : [{ ...named, environment: undefined, secretPath: undefined }]),
  ];
}

export const mayAll = (ability: Ability, action: string, all: readonly ConditionAttributes[]): boolean =>
  all.every((attributes) => ability.can(action, "secrets", attributes));

/** Whether writing an old version anew would show its writer what the version itself does not. */
export const isGain = (
  ability: Ability,
  then: readonly ConditionAttributes[],
  after: ConditionAttributes,
): boolean =>
  ["describeSecret", "readValue"].some(
    (action) => ability.can(action, "secrets", after) && !mayAll(ability, action, then),
  );
