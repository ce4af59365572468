/** Revoked certificates, and how clients learn of it: CRLs and OCSP. */
export { createCrls } from "./crl.ts";
export { revocationJobs } from "./jobs.ts";
export { createOcsp } from "./ocsp.ts";
export { revocationRoutes } from "./routes.ts";
export { createRevocation } from "./service.ts";
