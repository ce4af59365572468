/** Versions of secrets: history, rollback of one secret or of a whole folder, retention. */
export { attributesThen, mayAll, type PlaceThen } from "./model.ts";
export { createForgetting } from "./retention.ts";
export { versionRoutes } from "./routes.ts";
export { createSecretHistory } from "./service.ts";
export { createVersions } from "./service/read-version.ts";
export { createRollbacks } from "./service/roll-back-folder.ts";
export { placesOfFolders, VERSION_COLUMNS, type VersionRow } from "./store.ts";
