/** The first version of the import endpoints: the project is `workspaceId`. */
import { z } from "zod";
import { endpoint, uuid } from "../platform/http/endpoint.ts";
import { projectNames, projectOf } from "../secrets/contract.v3.ts";
import { environmentSlug, folderPath, ROOT } from "../secrets/paths.contract.ts";
import * as v2 from "./contract.ts";

const room = "secrets";
const PATH = "/api/v1/secret-imports";
const where = { ...projectNames, environment: environmentSlug, path: folderPath.default(ROOT) };
const at = { workspaceId: "00000000-0000-4000-8000-000000000000", environment: "dev" };
const one = z.object({ secretImportId: uuid });

export const createImportV1 = endpoint({
  id: "createImportV1",
  method: "POST",
  path: PATH,
  room,
  summary: "Import a folder, as older clients send it",
  body: z
    .object({ ...where, import: v2.importSource, isReplication: z.boolean().default(false) })
    .transform((input, context): v2.NewImport => ({ ...input, projectId: projectOf(input, context) })),
  reply: v2.createImport.reply,
  example: { body: { ...at, import: { environment: "staging", path: "/" } } },
});
export const listImportsV1 = endpoint({
  id: "listImportsV1",
  method: "GET",
  path: PATH,
  room,
  summary: "The imports of a folder, as older clients ask for them",
  query: z
    .object(where)
    .transform((input, context): v2.ImportQuery => ({ ...input, projectId: projectOf(input, context) })),
  reply: v2.listImports.reply,
  example: { query: at },
});
export const updateImportV1 = endpoint({
  id: "updateImportV1",
  method: "PATCH",
  path: `${PATH}/{secretImportId}`,
  room,
  summary: "Change an import, as older clients send it",
  params: one,
  body: z
    .object({ ...where, import: v2.importPatch })
    .transform((input, context): v2.ImportChange => ({ ...input, projectId: projectOf(input, context) })),
  reply: v2.updateImport.reply,
  example: { body: { ...at, import: { position: 1 } } },
});
export const deleteImportV1 = endpoint({
  id: "deleteImportV1",
  method: "DELETE",
  path: `${PATH}/{secretImportId}`,
  room,
  summary: "Remove an import, as older clients ask for it",
  params: one,
  body: z
    .object(where)
    .transform((input, context): v2.ImportQuery => ({ ...input, projectId: projectOf(input, context) })),
  reply: v2.deleteImport.reply,
  example: { body: at },
});
