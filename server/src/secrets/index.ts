/**
 * Secrets, their changes and what they resolve to. The rooms above (folders, imports, versions, files, key rotation)
 * change secrets through what is named here: the same locks, the same versions, the same announcements.
 */
export {
  createAccess,
  requireNoGain,
  requireRight,
  type Access,
  type EnvironmentRef,
  type ProjectScope,
} from "./access.ts";
export {
  announceAffected,
  changeSetOf,
  MOST_REFERENCES,
  originsOf,
  requireFewReferences,
  writeChanges,
  writeChangeSets,
  writeChangesNow,
  type ChangeContext,
  type SecretChangeStep,
} from "./changes.ts";
export { bytesOf, findDependants, inPortions, type Dependant, type Origin } from "./changes.store.ts";
export { explainRoutes } from "./explain/routes.ts";
export { createExplanations } from "./explain/service.ts";
export {
  attributesOf,
  closeMetadata,
  decryptState,
  encryptState,
  folderUnknown,
  MAX_ANSWER_BYTES,
  MIN_WEIGHT,
  nothingToOverride,
  secretExists,
  secretUnknown,
  toView,
  versionUnknown,
  type FolderPlace,
  type ReadSecret,
  type SecretHead,
  type SecretRow,
  type SecretState,
  type StoredState,
  type TagRef,
} from "./model.ts";
export { createReadAudit, type ReadAudit, type ReadAuditMode } from "./read-audit.ts";
export { referencesIn } from "./resolution/model.ts";
export { secretsInFolders } from "./resolution/store.ts";
export { touchProject } from "./revisions.store.ts";
export { secretRoutes } from "./routes.ts";
export { auditOf, nextDraft, shown } from "./service/drafts.ts";
export { lengthOf, refuseUnread, streamOf, streamOfOne } from "./service/large-answers.ts";
export { createSecretMoves } from "./service/move-secrets.ts";
export { createSecretReads, type SecretList, type SecretReads } from "./service/read-secrets.ts";
export { createSecretWrites, type SecretWrites, type WriteNeeds } from "./service/write-secrets.ts";
export {
  chunkOf,
  findFolder,
  inChunk,
  likeBelow,
  lockByKeys,
  lockHeads,
  lockInFolders,
  lockTree,
  lockTreeAlone,
  nextChunk,
  NIL,
  SECRET_COLUMNS,
  weighFolders,
} from "./store.ts";
export { tagRoutes } from "./tags/routes.ts";
export { createTags, tagsFor, type Tags } from "./tags/service.ts";
