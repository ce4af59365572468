export { adminRoutes } from "./routes.ts";
export { createAdmin, type Admin } from "./service.ts";
