export { identityChanged, identityDeleted } from "./events.ts";
export { createIdentityMemberships } from "./memberships/service.ts";
export { createOrgIdentities } from "./organization/service.ts";
export { identityRoutes, type IdentityServices } from "./routes.ts";
export { createProjectIdentities } from "./service.ts";
export {
  createIdentity,
  findIdentity,
  type IdentityRow,
  type NewIdentityRow,
  type NewPlace,
} from "./store.ts";
export { createImpersonationGuard, type ImpersonationGuard } from "./impersonation/service.ts";
