export { adminRoutes } from "./routes.ts";
export { createAdmin } from "./service.ts";
