export { statusRoutes } from "./routes.ts";
export { createStatus } from "./service.ts";
