/**
 * What a project's file holds. It must pass the same rules as any request: anyone who knows a passphrase can
 * make a file.
 */
import { z } from "zod";
import { createEnvironment } from "../../projects/environments/contract.ts";
import { createProjectRole } from "../../roles/contract.ts";
import { newSecretFields, secretMetadata, secretValue } from "../../secrets/contract.ts";
import { folderPath, secretName } from "../../secrets/paths.contract.ts";
import { createTag } from "../../secrets/tags/contract.ts";

/** Of one secret, written in one transaction. */
export const MOST_VERSIONS = 100_000;

const moment = z.iso.datetime();
const environment = createEnvironment.body.shape.slug;

/** What a secret holds, at any time. */
const state = {
  comment: newSecretFields.secretComment,
  metadata: secretMetadata,
  tags: z.array(z.string()).max(100),
  skipMultiline: z.boolean().nullable(),
  reminderNote: newSecretFields.secretReminderNote.transform((text) => text ?? null),
  reminderDays: newSecretFields.secretReminderRepeatDays.transform((days) => days ?? null),
};
const archivedVersion = z.object({
  version: z.number().int().min(1).max(1e9),
  change: z.enum(["create", "update", "delete"]),
  key: secretName,
  /** Null where the secret was deleted, to come back later. */
  value: secretValue.nullable(),
  ...state,
  at: moment,
  by: z.string().max(1024),
});
export type ArchivedVersion = z.output<typeof archivedVersion>;

export const archivedSecret = z.object({
  environment,
  path: folderPath,
  key: secretName,
  value: secretValue,
  ...state,
  /** The versions before this one, oldest first and without gaps; absent if the file was made without history. */
  history: z.object({ createdAt: moment, versions: z.array(archivedVersion).max(MOST_VERSIONS) }).optional(),
});
export type ArchivedSecret = z.output<typeof archivedSecret>;

const archivedImport = z.object({
  environment,
  path: folderPath,
  /** The slug of another project; null for a folder of this one. */
  sourceProject: z.string().max(64).nullable().default(null),
  sourceEnvironment: environment,
  sourcePath: folderPath,
  isReplication: z.boolean().default(false),
});
export type ArchivedImport = z.output<typeof archivedImport>;

export const archive = z.object({
  project: z.object({ name: z.string(), slug: z.string() }),
  environments: z.array(createEnvironment.body.pick({ slug: true, name: true })).max(1000),
  tags: z.array(createTag.body.required()).max(10_000),
  folders: z
    .array(z.object({ environment, path: folderPath, description: z.string().max(1024).nullable() }))
    .max(100_000),
  secrets: z.array(archivedSecret).max(1_000_000),
  /** Of each folder in their order: it decides which one wins. */
  imports: z.array(archivedImport).max(100_000),
  roles: z.array(createProjectRole.body).max(10_000).default([]),
});
export type NewArchive = z.input<typeof archive>;
export type Archive = z.output<typeof archive>;
export type ArchivedRole = Archive["roles"][number];
