export { auditJobs } from "./jobs.ts";
export { auditRoutes } from "./routes.ts";
export { createAudit, type Audit } from "./service.ts";
