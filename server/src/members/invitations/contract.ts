import { z } from "zod";
import { endpoint, PASSWORD_COST, moment, uuid } from "../../platform/http/endpoint.ts";
import { assignments } from "../../memberships/contract.ts";
import { projectRef } from "../../projects/contract.ts";
import { email, newPassword } from "../../users/contract.ts";
import { page, person, personName, roleSlug, room } from "../contract.ts";

export const invitation = z.object({
  id: uuid,
  email: z.string(),
  role: z.string(),
  expiresAt: moment,
  createdAt: moment,
});
export type InvitationView = z.input<typeof invitation>;

const PATH = "/api/v1/organization/invitations";

const newInvitation = z.object({
  email,
  role: roleSlug.default("member"),
  firstName: personName.default(""),
  lastName: personName.default(""),
  projects: z
    .array(z.object({ projectId: projectRef, roles: assignments.min(1) }))
    .max(50)
    .default([]),
});
export type NewInvitation = z.output<typeof newInvitation>;

export const createInvitation = endpoint({
  id: "createInvitation",
  method: "POST",
  path: PATH,
  room,
  summary:
    "Invite a person by mail, or with a token that is shown this once; inviting the same address again replaces",
  description:
    "On an instance with a mail server (`KEYWARD_SMTP_URL`) the invitation is mailed, so that accepting it proves the address, and the answer holds no `inviteToken`; nobody is invited if the mail server does not take the mail (503, or 400 if it never will). Without one the token is answered: send it over a channel that proves the address.",
  rateCost: 10,
  body: newInvitation,
  reply: z.object({ invitation, inviteToken: z.string().optional() }),
  example: { body: { email: "grace@example.com", role: "member" } },
});

export const listInvitations = endpoint({
  id: "listInvitations",
  method: "GET",
  path: PATH,
  room,
  summary: "Invitations that can still be accepted",
  query: z.object(page),
  reply: z.object({ invitations: z.array(invitation), totalCount: z.number() }),
});

export const deleteInvitation = endpoint({
  id: "deleteInvitation",
  method: "DELETE",
  path: `${PATH}/{invitationId}`,
  room,
  summary: "Withdraw an invitation; its token is worth nothing from then on",
  params: z.object({ invitationId: uuid }),
  reply: z.object({ invitation }),
});

export const openInvitationLink = endpoint({
  id: "openInvitationLink",
  method: "GET",
  path: "/accept-invitation",
  room,
  summary: "The page behind a mailed invitation: it asks for a password, and accepts",
  access: "public",
  reply: z.unknown(),
  replyType: "text/html",
});

export const acceptInvitation = endpoint({
  id: "acceptInvitation",
  method: "POST",
  path: "/api/v1/auth/accept-invitation",
  room,
  summary:
    "Accept an invitation: a new address gets an account with this password, a known one proves its own",
  access: "public",
  rate: "login",
  rateCost: PASSWORD_COST,
  body: z.object({
    // Any text: a malformed token is refused in the same words as an unknown one.
    token: z.string().max(1024),
    password: newPassword,
    firstName: personName.optional(),
    lastName: personName.optional(),
  }),
  reply: z.object({
    organizationId: uuid,
    user: person,
    accessToken: z.string(),
    expiresIn: z.number(),
    tokenType: z.literal("Bearer"),
  }),
  example: { body: { token: "kwi_…", password: "a longer pass phrase" } },
});
export type Acceptance = z.output<typeof acceptInvitation.body>;
export type AcceptedView = z.input<typeof acceptInvitation.reply>;
