export { FREE_PLAN, LICENCE_FEATURES, type LicenceFeature } from "./contract.ts";
export { licenceChanged } from "./events.ts";
export { KEY_FILE } from "./issuer/service.ts";
export type { LicenceTerms } from "./model.ts";
export { licenceRoutes } from "./routes.ts";
export { createLicences, type Licences } from "./service.ts";
