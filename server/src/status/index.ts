export { statusRoutes } from "./routes.ts";
export { createStatus, type StatusService } from "./service.ts";
