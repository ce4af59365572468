export { createAuthorityCertificates } from "./ca-certificates.ts";
export { authorityRoutes } from "./routes.ts";
export { createAuthorities, type Authorities } from "./service.ts";
