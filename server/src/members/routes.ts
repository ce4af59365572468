import {
  formPage,
  formPageCsp,
  Raw,
  serve,
  servePublic,
  type Route,
  inOrganization,
  inProject,
} from "../platform/http/index.ts";
import { redact } from "../platform/redacted.ts";
import type { Acceptances } from "./invitations/acceptance.ts";
import * as invitation from "./invitations/contract.ts";
import type { Invitations } from "./invitations/service.ts";
import * as organization from "./organization/contract.ts";
import type { OrgMembers } from "./organization/service.ts";
import * as project from "./projects/contract.ts";
import type { ProjectMembers } from "./projects/service.ts";

interface MemberServices {
  readonly ofOrganization: OrgMembers;
  readonly ofProject: ProjectMembers;
  readonly invitations: Invitations;
  readonly acceptances: Acceptances;
}

export const memberRoutes = (services: MemberServices): Route[] => [
  ...organizationRoutes(services.ofOrganization),
  ...invitationRoutes(services),
  ...projectRoutes(services.ofProject),
];

const organizationRoutes = (members: OrgMembers): Route[] => [
  serve(organization.listOrgMembers, ({ actor, query }) => members.list(actor, query)),
  serve(
    organization.updateOrgMember,
    async ({ actor, params, body }) => ({
      member: await members.update(actor, params.membershipId, body.role),
    }),
    inOrganization("edit", "member"),
  ),
  serve(
    organization.removeOrgMember,
    async ({ actor, params }) => ({
      member: await members.remove(actor, params.membershipId),
    }),
    inOrganization("delete", "member"),
  ),
];

const INVITATION_PAGE = formPage({
  title: "Accept the invitation",
  words:
    "If you have an account here, give its password. Otherwise choose one of at least eight characters: the account is made with it.",
  fields: [
    {
      name: "password",
      label: "Password",
      type: "password",
      autocomplete: "current-password",
      isRequired: true,
    },
    {
      name: "firstName",
      label: "First name (new accounts)",
      type: "text",
      autocomplete: "given-name",
      isRequired: false,
    },
    {
      name: "lastName",
      label: "Last name (new accounts)",
      type: "text",
      autocomplete: "family-name",
      isRequired: false,
    },
  ],
  button: "Accept",
  post: invitation.acceptInvitation.path.slice(1),
  done: "You are a member now. You can log in.",
});

const invitationRoutes = ({ invitations, acceptances }: MemberServices): Route[] => [
  serve(
    invitation.createInvitation,
    ({ actor, body }) => invitations.create(actor, body),
    inOrganization("create", "member"),
  ),
  serve(invitation.listInvitations, ({ actor, query }) => invitations.list(actor, query)),
  serve(
    invitation.deleteInvitation,
    async ({ actor, params }) => ({
      invitation: await invitations.delete(actor, params.invitationId),
    }),
    inOrganization("delete", "member"),
  ),
  servePublic(invitation.openInvitationLink, async ({ reply }) => {
    reply.header("content-type", "text/html; charset=utf-8");
    reply.header("content-security-policy", formPageCsp);
    return new Raw(INVITATION_PAGE);
  }),
  servePublic(invitation.acceptInvitation, ({ body, caller }) =>
    acceptances.accept({ ...body, token: redact(body.token), password: redact(body.password) }, caller),
  ),
];

const projectRoutes = (members: ProjectMembers): Route[] => [
  serve(
    project.addProjectMembers,
    async ({ actor, params, body }) => ({
      memberships: await members.add(actor, params.projectId, {
        emails: [...body.emails, ...body.usernames],
        roleSlugs: body.roleSlugs,
      }),
    }),
    inProject("create", "member"),
  ),
  serve(project.listProjectMembers, ({ actor, params, query }) =>
    members.list(actor, params.projectId, query),
  ),
  serve(project.getProjectMember, async ({ actor, params }) => ({
    membership: await members.get(actor, params.projectId, params.membershipId),
  })),
  serve(
    project.updateProjectMember,
    async ({ actor, params, body }) => {
      const membership = await members.update(actor, params.projectId, params.membershipId, body.roles);
      return { membership, roles: membership.roles };
    },
    inProject("edit", "member"),
  ),
  serve(
    project.removeProjectMember,
    async ({ actor, params }) => ({
      membership: await members.remove(actor, params.projectId, params.membershipId),
    }),
    inProject("delete", "member"),
  ),
];
