import { serve, type Finder, type Route, inProject } from "../platform/http/index.ts";
import type { SecretImportView } from "./contract.ts";
import * as contract from "./contract.ts";
import * as v1 from "./contract.v1.ts";
import type { ImportRow, SecretImports } from "./service.ts";

const view = (row: ImportRow): SecretImportView => ({
  id: row.id,
  version: row.version,
  position: row.position,
  folderId: row.folderId,
  projectId: row.projectId,
  importPath: row.sourcePath,
  secretPath: row.path,
  sourceProjectName: row.sourceProjectName,
  importEnv: {
    id: row.sourceEnvironmentId,
    name: row.sourceEnvironmentName,
    slug: row.sourceEnvironment,
    projectId: row.sourceProjectId,
  },
  environment: { id: row.environmentId, name: row.environmentName, slug: row.environment },
  isReplication: row.isReplication,
  isReplicationSuccess: null,
  replicationStatus: null,
  lastReplicated: null,
  isReserved: false,
  createdAt: row.createdAt,
  updatedAt: row.updatedAt,
});
const said = (message: string, row: ImportRow) => ({ message, secretImport: view(row) });
const listed = (rows: readonly ImportRow[]) => ({
  message: "These are the imports of the folder.",
  secretImports: rows.map(view),
});

export const importRoutes = (imports: SecretImports): Route[] => {
  const findFor =
    (action: string): Finder =>
    (actor, { params }) =>
      imports.findForChange(actor, params["secretImportId"] ?? "", action);
  return [
    serve(
      contract.createImport,
      async ({ actor, body }) => said("The import was created.", await imports.create(actor, body)),
      inProject("create", "secret-imports"),
    ),
    serve(contract.listImports, async ({ actor, query }) => listed(await imports.list(actor, query))),
    serve(contract.getImport, async ({ actor, params }) => ({
      secretImport: view(await imports.get(actor, params.secretImportId)),
    })),
    serve(
      contract.updateImport,
      async ({ actor, params, body }) =>
        said("The import was changed.", await imports.update(actor, params.secretImportId, body)),
      inProject("edit", "secret-imports", findFor("edit")),
    ),
    serve(
      contract.deleteImport,
      async ({ actor, params, body }) =>
        said("The import was removed.", await imports.delete(actor, params.secretImportId, body)),
      inProject("delete", "secret-imports", findFor("delete")),
    ),
    serve(
      v1.createImportV1,
      async ({ actor, body }) => said("The import was created.", await imports.create(actor, body)),
      inProject("create", "secret-imports"),
    ),
    serve(v1.listImportsV1, async ({ actor, query }) => listed(await imports.list(actor, query))),
    serve(
      v1.updateImportV1,
      async ({ actor, params, body }) =>
        said("The import was changed.", await imports.update(actor, params.secretImportId, body)),
      inProject("edit", "secret-imports", findFor("edit")),
    ),
    serve(
      v1.deleteImportV1,
      async ({ actor, params, body }) =>
        said("The import was removed.", await imports.delete(actor, params.secretImportId, body)),
      inProject("delete", "secret-imports", findFor("delete")),
    ),
  ];
};
