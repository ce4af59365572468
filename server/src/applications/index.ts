export { applicationRoutes } from "./routes.ts";
export { createApplications, type Applications } from "./service.ts";
