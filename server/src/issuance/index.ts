/** From what somebody asks for to a certificate: judged by its policy, signed, recorded, renewed before it ends. */
export { issuanceJobs } from "./jobs.ts";
export { createRenewal } from "./renewal.ts";
export { createCertificateRequests } from "./requests.ts";
export { issuanceRoutes } from "./routes.ts";
export { createIssuance } from "./service.ts";
