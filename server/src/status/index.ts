export { statusRoutes } from "./routes.ts";
export { createStatus, VERSION, type Status } from "./service.ts";
