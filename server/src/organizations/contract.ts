import { z } from "zod";
import { endpoint, moment, name, slug, uuid } from "../platform/http/endpoint.ts";

const room = "organizations";

export const organization = z.object({
  id: uuid,
  name: z.string(),
  slug: z.string(),
  createdAt: moment,
  updatedAt: moment,
});
export type OrganizationView = z.input<typeof organization>;

export const listOrganizations = endpoint({
  id: "listOrganizations",
  method: "GET",
  path: "/api/v1/organization",
  room,
  summary: "The organisations you belong to",
  reply: z.object({ organizations: z.array(organization) }),
});

export const listAccessibleOrganizations = endpoint({
  id: "listAccessibleOrganizations",
  method: "GET",
  path: "/api/v1/organization/accessible-with-sub-orgs",
  room,
  summary: "The same list, in the form that command lines pick from",
  reply: z.object({
    organizations: z.array(organization.extend({ subOrganizations: z.array(organization) })),
  }),
});

export const updateOrganization = endpoint({
  id: "updateOrganization",
  method: "PATCH",
  path: "/api/v1/organization",
  room,
  summary:
    "Change the name of your organisation; its slug, which is unique in the instance, is for instance admins",
  body: z.object({ name: name(64).optional(), slug: slug(1, 64).optional() }),
  reply: z.object({ organization }),
  example: { body: { name: "Example Ltd" } },
});
