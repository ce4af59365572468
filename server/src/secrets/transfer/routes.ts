import { Raw, serve, type Route } from "../../platform/http/index.ts";
import * as contract from "./contract.ts";
import type { ProjectFiles } from "./service/carry-project.ts";
import type { SecretFiles } from "./service.ts";

const TYPES = {
  dotenv: ["text/plain; charset=utf-8", "secrets.env"],
  json: ["application/json", "secrets.json"],
  yaml: ["application/yaml", "secrets.yaml"],
} as const;

export const transferRoutes = (files: SecretFiles, projects: ProjectFiles): Route[] => [
  serve(contract.exportSecrets, async ({ actor, params, query, reply }) => {
    const text = await files.export(actor, params.projectId, query);
    const [type, name] = TYPES[query.format];
    reply.header("content-type", type);
    reply.header("content-disposition", `attachment; filename="${name}"`);
    return new Raw(text);
  }),
  serve(contract.importSecrets, ({ actor, params, body }) => files.import(actor, params.projectId, body)),
  serve(contract.exportProject, async ({ actor, params, body, reply }) => {
    const file = await projects.export(actor, params.projectId, body);
    reply.header("content-type", "application/octet-stream");
    reply.header("content-disposition", 'attachment; filename="project.keyward"');
    return new Raw(file);
  }),
  serve(contract.importProject, ({ actor, params, body }) => projects.import(actor, params.projectId, body)),
];
