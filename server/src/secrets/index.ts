import type { Clock } from "../platform/clock.ts";
import type { Keyring } from "../platform/crypto/index.ts";
import type { Db } from "../platform/db/index.ts";
import type { Route } from "../platform/http/index.ts";
import type { Job } from "../platform/jobs/index.ts";
import type { Log } from "../platform/log.ts";
import type { Tail } from "../platform/outbox/index.ts";
import type { Permissions } from "../permissions/index.ts";
import type { Environments, Projects } from "../projects/index.ts";
import type { Roles } from "../roles/index.ts";
import { createAccess } from "./access/service.ts";
import { explainRoutes } from "./explain/routes.ts";
import { createExplanations } from "./explain/service.ts";
import {
  createDeletionAnnouncer,
  announceDeletion,
  announceNewName,
} from "./folders/service/announce-deletion.ts";
import { folderRoutes } from "./folders/routes.ts";
import { createFolders } from "./folders/service.ts";
import { importRoutes } from "./imports/routes.ts";
import { createImports } from "./imports/service.ts";
import { createReadAudit, type ReadAuditMode } from "./read-audit/service.ts";
import { rotationRoutes } from "./key-rotation/routes.ts";
import { createKeyRotations } from "./key-rotation/service.ts";
import { secretRoutes } from "./routes.ts";
import { createSecretReads } from "./service/read-secrets.ts";
import { createSecretMoves } from "./service/move-secrets.ts";
import { createSecretWrites } from "./service/write-secrets.ts";
import { tagRoutes } from "./tags/routes.ts";
import { createTags } from "./tags/service.ts";
import { createProjectFiles } from "./files/service/carry-project.ts";
import { transferRoutes } from "./files/routes.ts";
import { createSecretFiles } from "./files/service.ts";
import { createForgetting } from "./versions/retention/service.ts";
import { createVersions } from "./versions/service/read-version.ts";
import { createRollbacks } from "./versions/service/roll-back-folder.ts";
import { versionRoutes } from "./versions/routes.ts";
import { createSecretHistory } from "./versions/service.ts";

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

export type Secrets = ReturnType<typeof createSecrets>;

export function createSecrets(needs: SecretsNeeds) {
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
    files: createSecretFiles({ reads, writes }),
    projectFiles: createProjectFiles({ ...shared, folders, imports, reads, writes }),
    transfers: createSecretMoves(shared),
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
  ...transferRoutes(secrets.files, secrets.projectFiles),
  ...rotationRoutes(secrets.rotations),
  ...explainRoutes(secrets.explanations),
];

export const secretsJobs = (secrets: Secrets): Job[] => [secrets.rotations.job, secrets.forgetting.job];
