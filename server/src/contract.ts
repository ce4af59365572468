/** The one path into the server's package for the web and the command line: what may be said, and nothing that does it. */
export * as admin from "./admin/contract.ts";
export * as audit from "./audit/contract.ts";
export * as accessTokens from "./auth/access-tokens/contract.ts";
export * as sessions from "./auth/sessions/contract.ts";
export * as tokenAuth from "./auth/token/contract.ts";
export * as universalAuth from "./auth/universal/contract.ts";
export * as identities from "./identities/contract.ts";
export * as identityMemberships from "./identities/memberships/contract.ts";
export * as licences from "./licences/contract.ts";
export * as organizations from "./organizations/contract.ts";
export type { Endpoint } from "./platform/http/endpoint.ts";
export * as projects from "./projects/contract.ts";
export * as environments from "./projects/environments/contract.ts";
export * as roles from "./roles/contract.ts";
export * as status from "./status/contract.ts";
