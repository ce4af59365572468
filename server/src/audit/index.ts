export { auditJobs } from "./jobs.ts";
export { createAuditPartitions, type AuditPartitions } from "./partitions/service.ts";
export { auditRoutes } from "./routes.ts";
export { createAudit, type Audit } from "./service.ts";
