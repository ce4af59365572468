import { z } from "zod";
import { endpoint, idInOneSpelling, moment, queryBoolean, uuid } from "../platform/http/endpoint.ts";
import { projectRef } from "../projects/contract.ts";
import { environmentSlug, folderName, folderPath, ROOT } from "../secrets/paths.contract.ts";

const room = "secrets";
const id = "00000000-0000-4000-8000-000000000000";

export const folder = z.object({
  id: uuid,
  name: z.string(),
  version: z.number(),
  createdAt: moment,
  updatedAt: moment,
  envId: uuid,
  parentId: uuid.nullable(),
  isReserved: z.boolean(),
  description: z.string().nullable(),
  lastSecretModified: moment.nullable(),
  path: z.string(),
  relativePath: z.string().optional(),
  projectId: uuid,
  environment: z.object({ envId: uuid, envName: z.string(), envSlug: z.string() }),
});

const description = z.string().max(1024).nullish();
const place = { projectId: projectRef, environment: environmentSlug, path: folderPath.default(ROOT) };
const at = { projectId: id, environment: "dev" };

/** `path` is the folder that it is created in; what is missing of that is created too. */
export const newFolder = z.object({ ...place, name: folderName, description });
export type NewFolder = z.output<typeof newFolder>;
export const folderQuery = z.object({
  ...place,
  recursive: queryBoolean(false),
  lastSecretModified: z.iso
    .datetime({ offset: true })
    .transform((text) => new Date(text))
    .optional(),
});
export type FolderQuery = z.output<typeof folderQuery>;
export const folderChange = z.object({ ...place, name: folderName.optional(), description });
export type FolderChange = z.output<typeof folderChange>;
export const folderToDelete = z.object({ ...place, forceDelete: z.boolean().default(false) });
export type FolderToDelete = z.output<typeof folderToDelete>;

export const createFolder = endpoint({
  id: "createFolder",
  method: "POST",
  path: "/api/v2/folders",
  room,
  summary: "Create a folder, and those above it that are missing",
  body: newFolder,
  reply: z.object({ folder }),
  example: { body: { ...at, name: "api" } },
});
export const listFolders = endpoint({
  id: "listFolders",
  method: "GET",
  path: "/api/v2/folders",
  room,
  summary: "The folders in a folder",
  query: folderQuery,
  reply: z.object({ folders: z.array(folder) }),
  example: { query: at },
});
export const getFolder = endpoint({
  id: "getFolder",
  method: "GET",
  path: "/api/v2/folders/{folderId}",
  aliases: ["/api/v1/folders/{folderId}"],
  room,
  summary: "One folder by id",
  params: z.object({ folderId: uuid }),
  reply: z.object({ folder }),
});
/** By id or, inside `path`, by name. */
export const folderRef = z.object({ folderId: z.string().min(1).max(255).overwrite(idInOneSpelling) });
export const updateFolder = endpoint({
  id: "updateFolder",
  method: "PATCH",
  path: "/api/v2/folders/{folderId}",
  room,
  summary: "Rename or describe a folder; what is in it stays in it",
  params: folderRef,
  body: folderChange,
  reply: z.object({ folder }),
  example: { body: { ...at, name: "backend" } },
});
export const deleteFolder = endpoint({
  id: "deleteFolder",
  method: "DELETE",
  path: "/api/v2/folders/{folderId}",
  room,
  summary: "Delete a folder; with forceDelete also one that is not empty",
  params: folderRef,
  body: folderToDelete,
  reply: z.object({ folder }),
  example: { body: at },
});
export const moveFolder = endpoint({
  id: "moveFolder",
  method: "POST",
  path: "/api/v2/folders/{folderId}/move",
  room,
  summary: "Move a folder with everything in it into another folder",
  params: z.object({ folderId: uuid }),
  body: z.object({
    projectId: projectRef,
    destinationEnvironment: environmentSlug,
    destinationPath: folderPath.default(ROOT),
  }),
  reply: z.object({ folder }),
  example: { body: { projectId: id, destinationEnvironment: "dev", destinationPath: "/" } },
});
export type FolderMove = z.output<typeof moveFolder.body>;
