export { importRoutes } from "./routes.ts";
export { createImports, type SecretImports } from "./service.ts";
export { importsOfFolder } from "./store.ts";
