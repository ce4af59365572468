export { LICENCE_FEATURES } from "./contract.ts";
export { licenceChanged } from "./events.ts";
export { KEY_FILE } from "./issuer.ts";
export { licenceRoutes } from "./routes.ts";
export { createLicences, type Licences } from "./service.ts";
