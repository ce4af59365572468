import { z } from "zod";
import { endpoint, moment, uuid } from "../platform/http/endpoint.ts";
import { projectRef } from "../projects/contract.ts";
import { environmentSlug, folderPath, ROOT } from "../secrets/paths.contract.ts";

const room = "secrets";
const id = "00000000-0000-4000-8000-000000000000";

export const secretImport = z.object({
  id: uuid,
  version: z.number(),
  importPath: z.string(),
  position: z.number(),
  createdAt: moment,
  updatedAt: moment,
  folderId: uuid,
  isReplication: z.boolean(),
  isReplicationSuccess: z.boolean().nullable(),
  replicationStatus: z.string().nullable(),
  lastReplicated: moment.nullable(),
  isReserved: z.boolean(),
  importEnv: z.object({ id: uuid, name: z.string(), slug: z.string(), projectId: uuid }),
  environment: z.object({ id: uuid, name: z.string(), slug: z.string() }),
  projectId: uuid,
  secretPath: z.string(),
  sourceProjectName: z.string(),
});
export type SecretImportView = z.input<typeof secretImport>;

const place = { projectId: projectRef, environment: environmentSlug, path: folderPath.default(ROOT) };
const at = { projectId: id, environment: "dev" };
const changed = z.object({ message: z.string(), secretImport });
const one = z.object({ secretImportId: uuid });

export const importSource = z.object({
  sourceProjectId: projectRef.optional(),
  environment: environmentSlug,
  path: folderPath,
});
export const newImport = z.object({
  ...place,
  import: importSource,
  isReplication: z.boolean().default(false),
});
export type NewImport = z.output<typeof newImport>;
export const importQuery = z.object(place);
export type ImportQuery = z.output<typeof importQuery>;
export const importPatch = z.object({
  environment: environmentSlug.optional(),
  path: folderPath.optional(),
  position: z.number().int().min(1).max(10_000).optional(),
});
export const importChange = z.object({ ...place, import: importPatch });
export type ImportChange = z.output<typeof importChange>;

const PATH = "/api/v2/secret-imports";
export const createImport = endpoint({
  id: "createImport",
  method: "POST",
  path: PATH,
  room,
  summary: "Import another folder's secrets into a folder",
  body: newImport,
  reply: changed,
  example: { body: { ...at, import: { environment: "staging", path: "/" } } },
});
export const listImports = endpoint({
  id: "listImports",
  method: "GET",
  path: PATH,
  room,
  summary: "The imports of a folder, first one first",
  query: importQuery,
  reply: z.object({ message: z.string(), secretImports: z.array(secretImport) }),
  example: { query: at },
});
export const getImport = endpoint({
  id: "getImport",
  method: "GET",
  path: `${PATH}/{secretImportId}`,
  aliases: ["/api/v1/secret-imports/{secretImportId}"],
  room,
  summary: "One import by id",
  params: one,
  reply: z.object({ secretImport }),
});
export const updateImport = endpoint({
  id: "updateImport",
  method: "PATCH",
  path: `${PATH}/{secretImportId}`,
  room,
  summary: "Point an import elsewhere or move it up or down",
  params: one,
  body: importChange,
  reply: changed,
  example: { body: { ...at, import: { position: 1 } } },
});
export const deleteImport = endpoint({
  id: "deleteImport",
  method: "DELETE",
  path: `${PATH}/{secretImportId}`,
  room,
  summary: "Remove an import",
  params: one,
  body: importQuery,
  reply: changed,
  example: { body: at },
});
