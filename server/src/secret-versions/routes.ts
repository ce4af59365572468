import { serve, type Route, inProject, toThing } from "../platform/http/index.ts";
import * as contract from "./contract.ts";
import type { Rollbacks } from "./service/roll-back-folder.ts";
import type { ReadVersion, SecretHistory } from "./service.ts";
import { toView } from "../secrets/index.ts";

const view = ({ secret, version }: ReadVersion) => ({
  ...toView(secret),
  change: version.change,
  isDeleted: version.change === "delete",
  actor: {
    actorId: version.actorId,
    actorType: version.actorType,
    name: version.actorName,
    membershipId: null,
    groupId: null,
  },
});

export const versionRoutes = (history: SecretHistory, rollbacks: Rollbacks): Route[] => [
  serve(contract.listSecretVersions, async ({ actor, params, query }) => ({
    versions: (await history.list(actor, params.secretId, query)).map(view),
  })),
  serve(
    contract.rollbackSecret,
    async ({ actor, params, body }) => ({
      secret: toView(await history.rollback(actor, params.secretId, body.version)),
    }),
    toThing((actor, { params }) => history.find(actor, params["secretId"] ?? "", "create")),
  ),
  serve(
    contract.rollbackFolder,
    ({ actor, params, body }) => rollbacks.rollback(actor, params.projectId, body),
    inProject("create", "secret-rollback"),
  ),
];
