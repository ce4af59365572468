import { z } from "zod";
import { endpoint, queryBoolean } from "../platform/http/endpoint.ts";
import { projectRef } from "../projects/contract.ts";
import { environmentSlug, folderPath, ROOT } from "../secrets/paths.contract.ts";

const room = "secrets";
const MAX_FILE_BYTES = 8 * 1024 * 1024;
const MAX_PROJECT_BYTES = 64 * 1024 * 1024;
/** As much as an import accepts, which is sent as base64 in a small JSON body. */
export const MAX_PROJECT_FILE = (MAX_PROJECT_BYTES / 4) * 3 - 8 * 1024;
const inProject = z.object({ projectId: projectRef });
const place = { environment: environmentSlug, secretPath: folderPath.default(ROOT) };
const format = z.enum(["dotenv", "json", "yaml"]);
export type FileFormat = z.output<typeof format>;
const names = z.array(z.string());

export const exportSecrets = endpoint({
  id: "exportSecrets",
  method: "GET",
  path: "/api/v1/projects/{projectId}/secrets/export",
  room,
  summary: "A folder's secrets as a .env, JSON or YAML file",
  params: inProject,
  query: z.object({
    ...place,
    format: format.default("dotenv"),
    includeImports: queryBoolean(true),
    expandSecretReferences: queryBoolean(true),
  }),
  reply: z.unknown(),
  replyType: ["text/plain", "application/json", "application/yaml"],
  example: { query: { environment: "dev", format: "json" } },
});
export type ExportQuery = z.output<typeof exportSecrets.query>;

export const importSecrets = endpoint({
  id: "importSecrets",
  method: "POST",
  path: "/api/v1/projects/{projectId}/secrets/import",
  room,
  summary: "Take the secrets of a .env, JSON or YAML file into a folder, in one transaction",
  maxBodyBytes: MAX_FILE_BYTES,
  params: inProject,
  body: z.object({
    ...place,
    format: format.default("dotenv"),
    content: z.string().max(MAX_FILE_BYTES),
    dryRun: z.boolean().default(false),
  }),
  reply: z.object({ created: names, updated: names, unchanged: names, dryRun: z.boolean() }),
  example: { body: { environment: "dev", content: "API_KEY=s3cr3t\n" } },
});
export type FileToImport = z.output<typeof importSecrets.body>;

const passphrase = z.string().min(12).max(1024);

export const exportProject = endpoint({
  id: "exportProject",
  method: "POST",
  path: "/api/v1/projects/{projectId}/export",
  room,
  summary: "The whole project in one encrypted file; the body of the answer is the file",
  params: inProject,
  body: z.object({
    passphrase,
    /** Only these, by their slugs: for a project that is too large for one file. */
    environments: z.array(environmentSlug).min(1).max(1000).optional(),
    /** Older versions of each secret too; the file can become many times larger. */
    includeHistory: z.boolean().default(false),
    /** The project's custom roles too. */
    includeRoles: z.boolean().default(false),
  }),
  reply: z.unknown(),
  replyType: "application/octet-stream",
  example: { body: { passphrase: "correct horse battery" } },
});
export type ProjectToExport = z.output<typeof exportProject.body>;

const counted = z.object({ created: names, updated: names, unchanged: z.number() });
export const importProject = endpoint({
  id: "importProject",
  method: "POST",
  path: "/api/v1/projects/{projectId}/import",
  room,
  summary:
    "Take an exported project into this one: afterwards it has everything that is in the file as it is there; what it has besides stays",
  maxBodyBytes: MAX_PROJECT_BYTES,
  params: inProject,
  body: z.object({
    passphrase /** Base64; looked at on the thread that opens it. */,
    file: z.string().max(MAX_PROJECT_BYTES),
    dryRun: z.boolean().default(false),
  }),
  reply: z.object({
    environments: counted,
    folders: counted,
    tags: counted,
    secrets: counted,
    /** Unresolved: from other projects (or folders) that are not here or that you cannot read; they are left out. */
    imports: counted.extend({ unresolved: names }),
    roles: counted,
    /** How many older versions came along with the secrets that are new here. */
    versions: z.number(),
    dryRun: z.boolean(),
  }),
  example: { body: { passphrase: "correct horse battery", file: "S1c=" } },
});
export type ProjectToImport = z.output<typeof importProject.body>;
