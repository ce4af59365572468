import { z } from "zod";
import { endpoint, moment, queryBoolean, uuid, LARGE_BODY } from "../platform/http/endpoint.ts";
import { projectRef } from "../projects/contract.ts";
import { environmentSlug, folderPath, ROOT, secretName } from "./paths.contract.ts";

const room = "secrets";
const BATCH_BYTES = 8 * 1024 * 1024;
export const MAX_BATCH = 5000;
/** Larger values belong in a file store; this keeps a request within the body limit. */
export const MAX_VALUE = 1024 * 1024;

export const secretType = z.enum(["shared", "personal"]);
export const secretMetadata = z
  .array(
    z.object({
      key: z.string().min(1).max(255),
      value: z.string().max(1020).default(""),
      isEncrypted: z.boolean().default(false),
    }),
  )
  .max(100);
export type SecretMetadataItem = z.output<typeof secretMetadata>[number];

export const secretTag = z.object({ id: uuid, slug: z.string(), color: z.string(), name: z.string() });
export const secretActor = z.object({
  actorId: z.string().nullable(),
  actorType: z.string(),
  name: z.string(),
  membershipId: z.string().nullable(),
  groupId: z.string().nullable(),
});

/** Every field that some client of this API family reads, on every answer. */
export const secret = z.object({
  id: uuid,
  _id: uuid,
  workspace: uuid,
  environment: z.string(),
  version: z.number(),
  type: secretType,
  secretKey: z.string(),
  secretValue: z.string(),
  secretValueHidden: z.boolean(),
  secretComment: z.string(),
  secretPath: z.string(),
  secretMetadata: z.array(z.object({ key: z.string(), value: z.string(), isEncrypted: z.boolean() })),
  tags: z.array(secretTag),
  skipMultilineEncoding: z.boolean().nullable(),
  secretReminderNote: z.string().nullable(),
  secretReminderRepeatDays: z.number().nullable(),
  createdAt: moment,
  updatedAt: moment,
  actor: secretActor.nullable(),
  isRotatedSecret: z.boolean(),
  rotationId: z.string().nullable(),
});
export type SecretView = z.input<typeof secret>;

export const importBlock = z.object({
  secretPath: z.string(),
  environment: z.string(),
  folderId: uuid.optional(),
  secrets: z.array(secret),
});

export const secretValue = z.string().max(MAX_VALUE);
const reminderDays = z.number().int().min(1).max(3650).nullish();
const reminderNote = z.string().max(1024).nullish();
const comment = z.string().max(64 * 1024);
const tagIds = z.array(uuid).max(100);

export const newSecretFields = {
  secretValue,
  secretComment: comment.default(""),
  secretMetadata: secretMetadata.default([]),
  tagIds: tagIds.default([]),
  skipMultilineEncoding: z.boolean().nullish(),
  secretReminderNote: reminderNote,
  secretReminderRepeatDays: reminderDays,
};
export const changedSecretFields = {
  secretValue: secretValue.optional(),
  newSecretName: secretName.optional(),
  secretComment: comment.optional(),
  secretMetadata: secretMetadata.optional(),
  /** Metadata in the form of older clients. */
  metadata: z.record(z.string().min(1).max(255), z.string().max(1020)).optional(),
  tagIds: tagIds.optional(),
  skipMultilineEncoding: z.boolean().nullish(),
  secretReminderNote: reminderNote,
  secretReminderRepeatDays: reminderDays,
};

/** The project, environment and folder of a request. */
export const place = {
  projectId: projectRef,
  environment: environmentSlug,
  secretPath: folderPath.default(ROOT),
};
const named = z.object({ secretName });
const at = { projectId: "00000000-0000-4000-8000-000000000000", environment: "dev", secretPath: "/" };
const query = { projectId: at.projectId, environment: "dev" };

export const listQuery = z.object({
  ...place,
  viewSecretValue: queryBoolean(true),
  expandSecretReferences: queryBoolean(true),
  recursive: queryBoolean(false),
  includeImports: queryBoolean(true),
  includePersonalOverrides: queryBoolean(false),
  tagSlugs: z.string().max(2048).optional(),
  metadataFilter: z.string().max(4096).optional(),
});
export type ListQuery = z.output<typeof listQuery>;

export const listSecrets = endpoint({
  id: "listSecrets",
  method: "GET",
  path: "/api/v4/secrets",
  room,
  summary: "The secrets of a folder, with imports and references resolved",
  query: listQuery,
  reply: z.object({ secrets: z.array(secret), imports: z.array(importBlock) }),
  example: { query },
});

export const readQuery = z.object({
  ...place,
  type: secretType.default("shared"),
  version: z
    .string()
    .regex(/^[1-9]\d{0,8}$/, "must be a whole number from 1")
    .transform(Number)
    .optional(),
  viewSecretValue: queryBoolean(true),
  expandSecretReferences: queryBoolean(true),
  includeImports: queryBoolean(true),
});
export type ReadQuery = z.output<typeof readQuery>;

export const getSecret = endpoint({
  id: "getSecret",
  method: "GET",
  path: "/api/v4/secrets/{secretName}",
  room,
  summary: "One secret by name",
  params: named,
  query: readQuery,
  reply: z.object({ secret }),
  example: { query },
});

export const getSecretById = endpoint({
  id: "getSecretById",
  method: "GET",
  path: "/api/v4/secrets/id/{secretId}",
  aliases: ["/api/v3/secrets/raw/id/{secretId}"],
  room,
  summary: "One secret by id",
  params: z.object({ secretId: uuid }),
  query: z.object({ viewSecretValue: queryBoolean(true), expandSecretReferences: queryBoolean(false) }),
  reply: z.object({ secret }),
});

const newSecret = z.object({ ...place, ...newSecretFields, type: secretType.default("shared") });
export type NewSecret = z.output<typeof newSecret>;

export const createSecret = endpoint({
  id: "createSecret",
  method: "POST",
  path: "/api/v4/secrets/{secretName}",
  room,
  maxBodyBytes: LARGE_BODY,
  summary: "Create a secret",
  params: named,
  body: newSecret,
  reply: z.object({ secret }),
  example: { body: { ...at, secretValue: "s3cr3t" } },
});

const secretChange = z.object({ ...place, ...changedSecretFields, type: secretType.default("shared") });
export type SecretChange = z.output<typeof secretChange>;

export const updateSecret = endpoint({
  id: "updateSecret",
  method: "PATCH",
  path: "/api/v4/secrets/{secretName}",
  room,
  maxBodyBytes: LARGE_BODY,
  summary: "Change a secret; a field that is present is applied",
  params: named,
  body: secretChange,
  reply: z.object({ secret }),
  example: { body: { ...at, secretValue: "n3w" } },
});

const secretToDelete = z.object({ ...place, type: secretType.default("shared") });
export type SecretToDelete = z.output<typeof secretToDelete>;

export const deleteSecret = endpoint({
  id: "deleteSecret",
  method: "DELETE",
  path: "/api/v4/secrets/{secretName}",
  room,
  summary: "Delete a secret; its history stays",
  params: named,
  body: secretToDelete,
  reply: z.object({ secret }),
  example: { body: at },
});

export const newSecrets = z
  .array(
    z.object({
      secretKey: secretName,
      ...newSecretFields,
      metadata: changedSecretFields.metadata,
    }),
  )
  .min(1)
  .max(MAX_BATCH);

export const createSecrets = endpoint({
  id: "createSecrets",
  method: "POST",
  path: "/api/v4/secrets/batch",
  room,
  summary: "Create many secrets in one transaction",
  maxBodyBytes: BATCH_BYTES,
  body: z.object({ ...place, secrets: newSecrets }),
  reply: z.object({ secrets: z.array(secret) }),
  example: { body: { ...at, secrets: [{ secretKey: "API_KEY", secretValue: "s3cr3t" }] } },
});
export type NewSecrets = z.output<typeof createSecrets.body>;

export const changedSecrets = z
  .array(z.object({ secretKey: secretName, secretPath: folderPath.optional(), ...changedSecretFields }))
  .min(1)
  .max(MAX_BATCH);

export const updateSecrets = endpoint({
  id: "updateSecrets",
  method: "PATCH",
  path: "/api/v4/secrets/batch",
  room,
  summary: "Change many secrets in one transaction",
  maxBodyBytes: BATCH_BYTES,
  body: z.object({
    ...place,
    mode: z.enum(["failOnNotFound", "ignore", "upsert"]).default("failOnNotFound"),
    secrets: changedSecrets,
  }),
  reply: z.object({ secrets: z.array(secret) }),
  example: { body: { ...at, secrets: [{ secretKey: "API_KEY", secretValue: "n3w" }] } },
});
export type ChangedSecrets = z.output<typeof updateSecrets.body>;

export const secretsToDelete = z
  .array(z.object({ secretKey: secretName, type: secretType.default("shared") }))
  .min(1)
  .max(MAX_BATCH);

export const deleteSecrets = endpoint({
  id: "deleteSecrets",
  method: "DELETE",
  path: "/api/v4/secrets/batch",
  room,
  summary: "Delete many secrets in one transaction",
  maxBodyBytes: BATCH_BYTES,
  body: z.object({ ...place, secrets: secretsToDelete }),
  reply: z.object({ secrets: z.array(secret) }),
  example: { body: { ...at, secrets: [{ secretKey: "API_KEY" }] } },
});
export type SecretsToDelete = z.output<typeof deleteSecrets.body>;

export const transfer = z.object({
  projectId: projectRef,
  sourceEnvironment: environmentSlug,
  sourceSecretPath: folderPath.default(ROOT),
  destinationEnvironment: environmentSlug,
  destinationSecretPath: folderPath.default(ROOT),
  secretIds: z.array(uuid).min(1).max(MAX_BATCH),
  shouldOverwrite: z.boolean().default(false),
});
export type Transfer = z.output<typeof transfer>;
const transferExample = {
  body: {
    projectId: at.projectId,
    sourceEnvironment: "dev",
    destinationEnvironment: "staging",
    secretIds: [at.projectId],
  },
};
const transferred = z.object({ isSourceUpdated: z.boolean(), isDestinationUpdated: z.boolean() });

export const moveSecrets = endpoint({
  id: "moveSecrets",
  method: "POST",
  path: "/api/v4/secrets/move",
  room,
  maxBodyBytes: LARGE_BODY,
  summary: "Move secrets to another folder; they keep their ids and history",
  body: transfer,
  reply: transferred,
  example: transferExample,
});

export const copySecrets = endpoint({
  id: "copySecrets",
  method: "POST",
  path: "/api/v4/secrets/copy",
  room,
  maxBodyBytes: LARGE_BODY,
  summary: "Copy secrets to another folder",
  body: transfer,
  reply: transferred,
  example: transferExample,
});
