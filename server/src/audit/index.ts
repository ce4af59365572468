export { auditJobs } from "./jobs.ts";
export { auditRoutes } from "./routes.ts";
export { createRefusals, type Refusals } from "./refusals/service.ts";
export { createAuditGroups, noRoom } from "./groups/service.ts";
export { createAudit } from "./service.ts";
