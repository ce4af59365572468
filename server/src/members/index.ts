export { createAcceptances, type Acceptances } from "./invitations/acceptance/service.ts";
export { createInvitationGrants } from "./invitations/grants/service.ts";
export { createInvitations, type Invitations } from "./invitations/service.ts";
export { memberJobs } from "./jobs.ts";
export { createOrgMembers, type OrgMembers } from "./organization/service.ts";
export { createProjectMembers, type ProjectMembers } from "./projects/service.ts";
export { memberRoutes, type MemberServices } from "./routes.ts";
