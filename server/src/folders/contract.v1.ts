/** The first version of the folder endpoints: the project is `workspaceId`, and `directory` may stand for `path`. */
import { z } from "zod";
import { endpoint, queryBoolean } from "../platform/http/endpoint.ts";
import { projectRef } from "../projects/contract.ts";
import { projectNames, projectOf } from "../secrets/contract.v3.ts";
import { environmentSlug, folderName, folderPath, ROOT } from "../secrets/paths.contract.ts";
import * as v2 from "./contract.ts";

const room = "secrets";
const where = {
  ...projectNames,
  environment: environmentSlug,
  path: folderPath.optional(),
  directory: folderPath.optional(),
};
const pathOf = (input: { path?: string | undefined; directory?: string | undefined }): string =>
  input.path ?? input.directory ?? ROOT;
const at = { workspaceId: "00000000-0000-4000-8000-000000000000", environment: "dev" };

export const createFolderV1 = endpoint({
  id: "createFolderV1",
  method: "POST",
  path: "/api/v1/folders",
  room,
  summary: "Create a folder, as older clients send it",
  body: z
    .object({ ...where, name: folderName, description: v2.newFolder.shape.description })
    .transform((input, context): v2.NewFolder => ({
      ...input,
      projectId: projectOf(input, context),
      path: pathOf(input),
    })),
  reply: v2.createFolder.reply,
  example: { body: { ...at, name: "api" } },
});
export const listFoldersV1 = endpoint({
  id: "listFoldersV1",
  method: "GET",
  path: "/api/v1/folders",
  room,
  summary: "The folders in a folder, as older clients ask for them",
  query: z
    .object({
      ...where,
      recursive: queryBoolean(false),
      lastSecretModified: v2.folderQuery.shape.lastSecretModified,
    })
    .transform((input, context): v2.FolderQuery => ({
      ...input,
      projectId: projectOf(input, context),
      path: pathOf(input),
    })),
  reply: v2.listFolders.reply,
  example: { query: at },
});
export const updateFolderV1 = endpoint({
  id: "updateFolderV1",
  method: "PATCH",
  path: "/api/v1/folders/{folderId}",
  room,
  summary: "Rename a folder, as older clients send it",
  params: v2.folderRef,
  body: z
    .object({ ...where, name: folderName.optional(), description: v2.newFolder.shape.description })
    .transform((input, context): v2.FolderChange => ({
      ...input,
      projectId: projectOf(input, context),
      path: pathOf(input),
    })),
  reply: v2.updateFolder.reply,
  example: { body: { ...at, name: "backend" } },
});
/** Always deleted with what is in it: these clients know no other way. */
export const deleteFolderV1 = endpoint({
  id: "deleteFolderV1",
  method: "DELETE",
  path: "/api/v1/folders/{folderId}",
  room,
  summary: "Delete a folder and what is in it, as older clients ask for it",
  params: v2.folderRef,
  body: z.object(where).transform((input, context): v2.FolderToDelete => ({
    ...input,
    projectId: projectOf(input, context),
    path: pathOf(input),
    forceDelete: true,
  })),
  reply: v2.deleteFolder.reply,
  example: { body: at },
});
export const getFolderByPath = endpoint({
  id: "getFolderByPath",
  method: "GET",
  path: "/api/v1/folders/{projectId}/{environment}/{path}",
  room,
  summary: "One folder by its path",
  params: z.object({ projectId: projectRef, environment: environmentSlug, path: folderPath }),
  reply: v2.getFolder.reply,
});
