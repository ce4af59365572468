import { Raw, serve, type Route, inProject, inProjectAnyOf } from "../platform/http/index.ts";
import { orgOf } from "../permissions/index.ts";
import * as contract from "./contract.ts";
import type { ProjectFiles } from "./service/carry-project.ts";
import type { SecretFiles } from "./service.ts";
import { lengthOf, streamOf, streamOfOne } from "../secrets/index.ts";

const TYPES = {
  dotenv: ["text/plain; charset=utf-8", "secrets.env"],
  json: ["application/json", "secrets.json"],
  yaml: ["application/yaml", "secrets.yaml"],
} as const;

const PUT_SECRETS = inProjectAnyOf(
  { action: "edit", subject: "secrets" },
  { action: "create", subject: "secrets" },
);
/** What a project's file can bring along. */
const PUT_ANYTHING = inProjectAnyOf(
  ...["secrets", "secret-folders", "secret-imports", "tags", "environments", "role"].flatMap((subject) => [
    { action: "create", subject },
    { action: "edit", subject },
  ]),
);

export const fileRoutes = (files: SecretFiles, projects: ProjectFiles): Route[] => [
  serve(contract.exportSecrets, async ({ actor, params, query, reply }) => {
    const chunks = await files.export(actor, params.projectId, query);
    const [type, name] = TYPES[query.format];
    reply.header("content-type", type);
    reply.header("content-disposition", `attachment; filename="${name}"`);
    reply.header("content-length", String(lengthOf(chunks)));
    return new Raw(streamOf(orgOf(actor), chunks));
  }),
  serve(
    contract.importSecrets,
    ({ actor, params, body }) => files.import(actor, params.projectId, body),
    PUT_SECRETS,
  ),
  serve(
    contract.exportProject,
    async ({ actor, params, body, reply }) => {
      const file = await projects.export(actor, params.projectId, body);
      reply.header("content-type", "application/octet-stream");
      reply.header("content-disposition", 'attachment; filename="project.keyward"');
      reply.header("content-length", String(file.length));
      return new Raw(streamOfOne(orgOf(actor), file));
    },
    inProject("readValue", "secrets"),
  ),
  serve(
    contract.importProject,
    ({ actor, params, body, confirm }) => projects.import(actor, params.projectId, body, confirm),
    PUT_ANYTHING,
  ),
];
