import { z } from "zod";
import { endpoint, moment, uuid } from "../../platform/http/endpoint.ts";
import { person, roleSlug, room, searchablePage } from "../contract.ts";

export const orgMember = z.object({
  id: uuid,
  role: z.string(),
  customRole: z.object({ id: uuid, name: z.string(), slug: z.string() }).optional(),
  createdAt: moment,
  user: person,
});
export type OrgMemberView = z.input<typeof orgMember>;

const PATH = "/api/v1/organization/members";
const one = z.object({ membershipId: uuid });

export const listOrgMembers = endpoint({
  id: "listOrganizationMembers",
  method: "GET",
  path: PATH,
  room,
  summary: "The people of your organisation",
  query: searchablePage,
  reply: z.object({ members: z.array(orgMember), totalCount: z.number() }),
});

export const updateOrgMember = endpoint({
  id: "updateOrganizationMember",
  method: "PATCH",
  path: `${PATH}/{membershipId}`,
  room,
  summary: "Give a person another role in the organisation",
  params: one,
  body: z.object({ role: roleSlug }),
  reply: z.object({ member: orgMember }),
  example: { body: { role: "member" } },
});

export const removeOrgMember = endpoint({
  id: "removeOrganizationMember",
  method: "DELETE",
  path: `${PATH}/{membershipId}`,
  room,
  summary: "Take a person out of the organisation and all its projects; their sessions there end at once",
  params: one,
  reply: z.object({ member: orgMember }),
});
