import { serve, type Route, inProject } from "../platform/http/index.ts";
import * as v1 from "./contract.v1.ts";
import * as contract from "./contract.ts";
import type { FolderRow, Folders } from "./service.ts";

const view = ({
  environmentId,
  environment,
  environmentName,
  ...row
}: FolderRow & { readonly relativePath?: string }) => ({
  ...row,
  envId: environmentId,
  environment: { envId: environmentId, envName: environmentName, envSlug: environment },
  name: row.parentId === null ? "root" : row.name,
  isReserved: false,
  lastSecretModified: null,
});

export const folderRoutes = (folders: Folders): Route[] => [
  serve(
    contract.createFolder,
    async ({ actor, body }) => ({
      folder: view(await folders.create(actor, body)),
    }),
    inProject("create", "secret-folders"),
  ),
  serve(contract.listFolders, async ({ actor, query }) => ({
    folders: (await folders.list(actor, query)).map(view),
  })),
  serve(contract.getFolder, async ({ actor, params }) => ({
    folder: view(await folders.get(actor, params.folderId)),
  })),
  serve(
    contract.updateFolder,
    async ({ actor, params, body }) => ({
      folder: view(await folders.update(actor, params.folderId, body)),
    }),
    inProject("edit", "secret-folders"),
  ),
  serve(
    contract.deleteFolder,
    async ({ actor, params, body }) => ({
      folder: view(await folders.delete(actor, params.folderId, body)),
    }),
    inProject("delete", "secret-folders"),
  ),
  serve(
    contract.moveFolder,
    async ({ actor, params, body }) => ({
      folder: view(await folders.move(actor, params.folderId, body)),
    }),
    inProject("edit", "secret-folders"),
  ),
  serve(
    v1.createFolderV1,
    async ({ actor, body }) => ({ folder: view(await folders.create(actor, body)) }),
    inProject("create", "secret-folders"),
  ),
  serve(v1.listFoldersV1, async ({ actor, query }) => ({
    folders: (await folders.list(actor, query)).map(view),
  })),
  serve(
    v1.updateFolderV1,
    async ({ actor, params, body }) => ({
      folder: view(await folders.update(actor, params.folderId, body)),
    }),
    inProject("edit", "secret-folders"),
  ),
  serve(
    v1.deleteFolderV1,
    async ({ actor, params, body }) => ({
      folder: view(await folders.delete(actor, params.folderId, body)),
    }),
    inProject("delete", "secret-folders"),
  ),
  serve(v1.getFolderByPath, async ({ actor, params }) => ({
    folder: view(await folders.getByPath(actor, params)),
  })),
];
