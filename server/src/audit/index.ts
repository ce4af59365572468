export { auditJobs } from "./jobs.ts";
export { auditRoutes } from "./routes.ts";
export { createRefusals, type Refusals } from "./refusals.ts";
export { createAuditGroups, noRoom } from "./groups.ts";
export { createAudit } from "./service.ts";
