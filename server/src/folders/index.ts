export { folderRoutes } from "./routes.ts";
export { createFolders, type Folders } from "./service.ts";
export { announceDeletion, announceNewName, createDeletionAnnouncer } from "./service/announce-deletion.ts";
export { placeOf } from "./service/change-tree.ts";
export { findFoldersByPaths, folderTree } from "./store.ts";
