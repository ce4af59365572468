import { z } from "zod";
import { endpoint, moment, queryBoolean, queryInteger, uuid } from "../platform/http/endpoint.ts";
import { projectRef } from "../projects/contract.ts";
import { secret } from "../secrets/contract.ts";
import { environmentSlug, folderPath, ROOT } from "../secrets/paths.contract.ts";

const room = "secrets";
const one = z.object({ secretId: uuid });

export const secretVersion = secret.extend({
  change: z.enum(["create", "update", "delete"]),
  isDeleted: z.boolean(),
});

export const listSecretVersions = endpoint({
  id: "listSecretVersions",
  method: "GET",
  path: "/api/v4/secrets/id/{secretId}/versions",
  room,
  summary: "The history of a secret, newest first; also of a deleted one",
  params: one,
  query: z.object({
    offset: queryInteger(0, 1e9, 0),
    limit: queryInteger(1, 100, 20),
    viewSecretValue: queryBoolean(true),
  }),
  reply: z.object({ versions: z.array(secretVersion) }),
});

export const rollbackSecret = endpoint({
  id: "rollbackSecret",
  method: "POST",
  path: "/api/v4/secrets/id/{secretId}/rollback",
  room,
  summary: "Bring back an earlier version as a new one; also of a deleted secret",
  params: one,
  body: z.object({ version: z.number().int().min(1).max(1e9) }),
  reply: z.object({ secret }),
  example: { body: { version: 1 } },
});

export const rollbackFolder = endpoint({
  id: "rollbackSecrets",
  method: "POST",
  path: "/api/v1/projects/{projectId}/secrets/rollback",
  room,
  summary: "Bring a folder, a tree of folders or an environment back to a point in time, as new versions",
  params: z.object({ projectId: projectRef }),
  body: z.object({
    environment: environmentSlug,
    secretPath: folderPath.default(ROOT),
    /** Folders below too; the root with this is the whole environment. */
    recursive: z.boolean().default(false),
    at: z.iso.datetime({ offset: true }).transform((text) => new Date(text)),
    dryRun: z.boolean().default(false),
  }),
  reply: z.object({
    changes: z.array(
      z.object({
        change: z.enum(["create", "update", "delete"]),
        secretKey: z.string(),
        secretPath: z.string(),
        secretId: uuid,
      }),
    ),
    at: moment,
    dryRun: z.boolean(),
  }),
  example: { body: { environment: "dev", at: "2026-01-01T00:00:00.000Z" } },
});
export type FolderRollback = z.output<typeof rollbackFolder.body>;
