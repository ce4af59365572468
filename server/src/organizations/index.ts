export { organization } from "./contract.ts";
export { organizationRoutes } from "./routes.ts";
export { createOrganizations, organizationSlugTaken, type Organizations } from "./service.ts";
export {
  claimBootstrap,
  findBootstrap,
  findOrganization,
  holdOrganization,
  insertOrganization,
  type OrganizationRow,
} from "./store.ts";
