/**
 * The older shapes of the same endpoints, for existing clients. Each is translated here into what
 * the current ones say: `workspaceId`, `workspaceSlug` or `projectSlug` name the project, `include_imports` asks
 * for imports, and less is done unless it is asked for.
 */
import { z } from "zod";
import { endpoint, idInOneSpelling, queryBoolean, LARGE_BODY } from "../platform/http/endpoint.ts";
import { projectRef } from "../projects/contract.ts";
import * as v4 from "./contract.ts";
import { environmentSlug, folderPath, ROOT, secretName } from "./paths.contract.ts";

const room = "secrets";
const named = z.object({ secretName });

/** One of the ways to name a project; clients send several and leave some empty. */
const projectNames = {
  workspaceId: z.string().max(64).overwrite(idInOneSpelling).optional(),
  workspaceSlug: z.string().max(64).optional(),
  projectId: z.string().max(64).overwrite(idInOneSpelling).optional(),
  projectSlug: z.string().max(64).optional(),
};
type ProjectNames = { [K in keyof typeof projectNames]?: string | undefined };

function projectOf(input: ProjectNames, context: z.RefinementCtx): string {
  const ref = [input.workspaceId, input.projectId, input.workspaceSlug, input.projectSlug].find(
    (name) => name !== undefined && name !== "",
  );
  if (ref !== undefined) return ref;
  context.addIssue({
    code: "custom",
    path: ["workspaceId"],
    message: "name the project: workspaceId or workspaceSlug",
  });
  return z.NEVER;
}

const where = { ...projectNames, environment: environmentSlug, secretPath: folderPath.default(ROOT) };
const id = "00000000-0000-4000-8000-000000000000";
const at = { workspaceId: id, environment: "dev" };

export const listRawSecrets = endpoint({
  id: "listRawSecrets",
  method: "GET",
  path: "/api/v3/secrets/raw",
  room,
  summary: "The secrets of a folder, as older clients ask for them",
  query: z
    .object({
      ...where,
      viewSecretValue: queryBoolean(true),
      expandSecretReferences: queryBoolean(false),
      recursive: queryBoolean(false),
      include_imports: queryBoolean(false),
      includeImports: queryBoolean(false),
      tagSlugs: z.string().max(2048).optional(),
      metadataFilter: z.string().max(4096).optional(),
    })
    .transform((input, context): v4.ListQuery => ({
      ...input,
      projectId: projectOf(input, context),
      includeImports: input.include_imports || input.includeImports,
      includePersonalOverrides: false,
    })),
  reply: v4.listSecrets.reply,
  example: { query: at },
});

export const getRawSecret = endpoint({
  id: "getRawSecret",
  method: "GET",
  path: "/api/v3/secrets/raw/{secretName}",
  room,
  summary: "One secret by name, as older clients ask for it",
  params: named,
  query: z
    .object({
      ...where,
      type: v4.secretType.default("shared"),
      version: v4.readQuery.shape.version,
      viewSecretValue: queryBoolean(true),
      expandSecretReferences: queryBoolean(false),
      include_imports: queryBoolean(false),
      includeImports: queryBoolean(false),
    })
    .transform((input, context): v4.ReadQuery => ({
      ...input,
      projectId: projectOf(input, context),
      includeImports: input.include_imports || input.includeImports,
    })),
  reply: v4.getSecret.reply,
  example: { query: at },
});

export const createRawSecret = endpoint({
  id: "createRawSecret",
  method: "POST",
  path: "/api/v3/secrets/raw/{secretName}",
  room,
  maxBodyBytes: LARGE_BODY,
  summary: "Create a secret, as older clients send it",
  params: named,
  body: z
    .object({ ...where, ...v4.newSecretFields, type: v4.secretType.default("shared") })
    .transform((input, context): v4.NewSecret => ({ ...input, projectId: projectOf(input, context) })),
  reply: v4.createSecret.reply,
  example: { body: { ...at, secretValue: "s3cr3t" } },
});

export const updateRawSecret = endpoint({
  id: "updateRawSecret",
  method: "PATCH",
  path: "/api/v3/secrets/raw/{secretName}",
  room,
  maxBodyBytes: LARGE_BODY,
  summary: "Change a secret, as older clients send it",
  params: named,
  body: z
    .object({ ...where, ...v4.changedSecretFields, type: v4.secretType.default("shared") })
    .transform((input, context): v4.SecretChange => ({ ...input, projectId: projectOf(input, context) })),
  reply: v4.updateSecret.reply,
  example: { body: { ...at, secretValue: "n3w" } },
});

export const deleteRawSecret = endpoint({
  id: "deleteRawSecret",
  method: "DELETE",
  path: "/api/v3/secrets/raw/{secretName}",
  room,
  summary: "Delete a secret, as older clients ask for it",
  params: named,
  body: z
    .object({ ...where, type: v4.secretType.default("shared") })
    .transform((input, context): v4.SecretToDelete => ({ ...input, projectId: projectOf(input, context) })),
  reply: v4.deleteSecret.reply,
  example: { body: at },
});

const batch = {
  room,
  maxBodyBytes: v4.createSecrets.maxBodyBytes ?? 0,
  path: "/api/v3/secrets/batch/raw",
} as const;

export const createRawSecrets = endpoint({
  ...batch,
  id: "createRawSecrets",
  method: "POST",
  summary: "Create many secrets, as older clients send them",
  body: z
    .object({ ...where, secrets: v4.newSecrets })
    .transform((input, context): v4.NewSecrets => ({ ...input, projectId: projectOf(input, context) })),
  reply: v4.createSecrets.reply,
  example: { body: { ...at, secrets: [{ secretKey: "API_KEY", secretValue: "s3cr3t" }] } },
});

export const updateRawSecrets = endpoint({
  ...batch,
  id: "updateRawSecrets",
  method: "PATCH",
  summary: "Change many secrets, as older clients send them",
  body: z
    .object({ ...where, mode: v4.updateSecrets.body.shape.mode, secrets: v4.changedSecrets })
    .transform((input, context): v4.ChangedSecrets => ({ ...input, projectId: projectOf(input, context) })),
  reply: v4.updateSecrets.reply,
  example: { body: { ...at, secrets: [{ secretKey: "API_KEY", secretValue: "n3w" }] } },
});

export const deleteRawSecrets = endpoint({
  ...batch,
  id: "deleteRawSecrets",
  method: "DELETE",
  summary: "Delete many secrets, as older clients ask for it",
  body: z
    .object({ ...where, secrets: v4.secretsToDelete })
    .transform((input, context): v4.SecretsToDelete => ({ ...input, projectId: projectOf(input, context) })),
  reply: v4.deleteSecrets.reply,
  example: { body: { ...at, secrets: [{ secretKey: "API_KEY" }] } },
});

export const moveRawSecrets = endpoint({
  id: "moveRawSecrets",
  method: "POST",
  path: "/api/v3/secrets/move",
  room,
  maxBodyBytes: LARGE_BODY,
  summary: "Move secrets, as older clients ask for it",
  body: v4.transfer
    .omit({ projectId: true })
    .extend(projectNames)
    .transform((input, context): v4.Transfer => ({ ...input, projectId: projectOf(input, context) })),
  reply: v4.moveSecrets.reply,
  example: {
    body: { projectSlug: id, sourceEnvironment: "dev", destinationEnvironment: "staging", secretIds: [id] },
  },
});

/** What folders and imports of the first version share. */
export const oldPlace = { ...projectNames, projectOf };
export { projectNames, projectOf, projectRef };
