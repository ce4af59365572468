export { eventRoutes } from "./routes.ts";
export { createEvents, type Events } from "./service.ts";
export { createStreamQuota } from "./stream-quota.ts";
