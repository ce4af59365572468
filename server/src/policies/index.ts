export { judgeInSteps } from "./model.ts";
export { policyRoutes } from "./routes.ts";
export { createPolicies } from "./service.ts";
