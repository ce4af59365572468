/** Every certificate there is, issued here or imported: what is recorded, listed, searched, and who sees it. */
export { createImports, requireStorable } from "./imports.ts";
export { inventoryJobs } from "./jobs.ts";
export { createMaintenance } from "./maintenance.ts";
export { attributesOf, type CertificateRow } from "./model.ts";
export { inventoryRoutes } from "./routes.ts";
export { createCertificateSearch } from "./search.ts";
export { createInventory, type Inventory } from "./service.ts";
export { seenOf, seesAll, sightOf } from "./sight.ts";
export { findCertificate, findCertificateById } from "./store/certificates.ts";
