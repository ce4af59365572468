export { rotationRoutes } from "./routes.ts";
export { createKeyRotations } from "./service.ts";
