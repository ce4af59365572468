export { createEnvironments, type Environments } from "./environments/service.ts";
export { projectDeleted } from "./events.ts";
export { slugFrom } from "./model.ts";
export { createJudge } from "./gate.ts";
export { createProjectAccess } from "./access/service.ts";
export { projectRoutes } from "./routes.ts";
export { createProjects, type Projects } from "./service.ts";
export type { ProjectRow } from "./store.ts";
