export { createAcceptances } from "./invitations/acceptance.ts";
export { createInvitationGrants } from "./invitations/grants.ts";
export { createInvitations } from "./invitations/service.ts";
export { memberJobs } from "./jobs.ts";
export { createOrgMembers } from "./organization/service.ts";
export { createProjectMembers } from "./projects/service.ts";
export { memberRoutes } from "./routes.ts";
