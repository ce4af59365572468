/** The rooms about secrets, opened from the bottom up; house.ts opens them with all others. */
import type { Clock } from "./platform/clock.ts";
import type { Keyring } from "./platform/crypto/index.ts";
import type { Db } from "./platform/db/index.ts";
import type { Route } from "./platform/http/index.ts";
import type { Job } from "./platform/jobs/index.ts";
import type { Log } from "./platform/log.ts";
import type { Tail } from "./platform/outbox/index.ts";
import type { Permissions } from "./permissions/index.ts";
import type { Environments, Projects } from "./projects/index.ts";
import type { Roles } from "./roles/index.ts";
import {
  createAccess,
  explainRoutes,
  createExplanations,
  createReadAudit,
  type ReadAuditMode,
  secretRoutes,
  createSecretReads,
  createSecretMoves,
  createSecretWrites,
  tagRoutes,
  createTags,
} from "./secrets/index.ts";
import {
  createDeletionAnnouncer,
  announceDeletion,
  announceNewName,
  folderRoutes,
  createFolders,
} from "./folders/index.ts";
import { importRoutes, createImports } from "./secret-imports/index.ts";
import { rotationRoutes, createKeyRotations } from "./key-rotation/index.ts";
import { createProjectFiles, fileRoutes, createSecretFiles } from "./secret-files/index.ts";
import {
  createForgetting,
  createVersions,
  createRollbacks,
  versionRoutes,
  createSecretHistory,
} from "./secret-versions/index.ts";

interface SecretsNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly log: Log;
  readonly tail: Tail;
  readonly keyring: Keyring;
  readonly permissions: Permissions;
  readonly projects: Projects;
  readonly environments: Environments;
  readonly roles: Roles;
  readonly auditReads: ReadAuditMode;
}

export type Secrets = ReturnType<typeof openSecretRooms>;

export function openSecretRooms(needs: SecretsNeeds) {
  const access = createAccess(needs);
  const tags = createTags({ ...needs, access });
  const versions = createVersions({ ...needs, tags });
  const audit = createReadAudit({ ...needs, mode: needs.auditReads });
  const shared = { ...needs, access, tags, versions, reads: audit };
  const folders = createFolders(shared);
  needs.environments.onDelete(createDeletionAnnouncer(shared));
  needs.environments.onRename(announceNewName);
  needs.projects.onDelete(announceDeletion);
  const imports = createImports(shared);
  const reads = createSecretReads(shared);
  const writes = createSecretWrites(shared);
  return {
    reads,
    writes,
    files: createSecretFiles({ access, reads, writes }),
    projectFiles: createProjectFiles({ ...shared, folders, imports, reads, writes }),
    moves: createSecretMoves(shared),
    history: createSecretHistory(shared),
    rollbacks: createRollbacks({ ...shared, folders }),
    explanations: createExplanations(shared),
    rotations: createKeyRotations(shared),
    forgetting: createForgetting(shared),
    folders,
    imports,
    tags,
    /** Readings that wait to be written down are written when this resolves. */
    flush: audit.flush,
    unwrittenReads: audit.unwritten,
  };
}

export const secretsRoutes = (secrets: Secrets): Route[] => [
  ...secretRoutes(secrets),
  ...folderRoutes(secrets.folders),
  ...importRoutes(secrets.imports),
  ...tagRoutes(secrets.tags),
  ...versionRoutes(secrets.history, secrets.rollbacks),
  ...fileRoutes(secrets.files, secrets.projectFiles),
  ...rotationRoutes(secrets.rotations),
  ...explainRoutes(secrets.explanations),
];

export const secretsJobs = (secrets: Secrets): Job[] => [secrets.rotations.job, secrets.forgetting.job];
