export { identityChanged, identityDeleted } from "./events.ts";
export { createIdentityMemberships } from "./memberships/service.ts";
export { createOrgIdentities } from "./organization.ts";
export { identityRoutes } from "./routes.ts";
export { createProjectIdentities } from "./service.ts";
export { createIdentity } from "./store.ts";
export { createImpersonationGuard, type ImpersonationGuard } from "./impersonation.ts";
