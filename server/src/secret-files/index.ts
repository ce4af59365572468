/** Secrets into files and out of them: dotenv, JSON, YAML, and a whole project as one file. */
export { fileRoutes } from "./routes.ts";
export { createSecretFiles } from "./service.ts";
export { createProjectFiles } from "./service/carry-project.ts";
