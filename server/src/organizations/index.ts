export { organizationRoutes } from "./routes.ts";
export { createOrganizations, organizationSlugTaken } from "./service.ts";
export {
  claimBootstrap,
  findBootstrap,
  findOrganization,
  holdOrganization,
  insertOrganization,
  type OrganizationRow,
} from "./store.ts";
