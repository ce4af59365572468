/** From a request to a certificate: checked by its policy, signed, recorded, renewed before it expires. */
export { issuanceJobs } from "./jobs.ts";
export { createRenewal } from "./renewal.ts";
export { createCertificateRequests } from "./requests.ts";
export { issuanceRoutes } from "./routes.ts";
export { createIssuance } from "./service.ts";
