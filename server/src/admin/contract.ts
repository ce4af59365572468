import { z } from "zod";
import { endpoint, PASSWORD_COST, name, slug, uuid } from "../platform/http/endpoint.ts";
import { organization } from "../organizations/contract.ts";
import { email, newPassword, user } from "../users/contract.ts";

const room = "admin";
const adminIdentity = z.object({ id: uuid, name: z.string(), credentials: z.object({ token: z.string() }) });

export const bootstrapInstance = endpoint({
  id: "bootstrapInstance",
  method: "POST",
  path: "/api/v1/admin/bootstrap",
  room,
  summary:
    "Set up an empty instance: first organisation, first user, first machine identity. Works exactly once",
  access: "public",
  rate: "login",
  rateCost: PASSWORD_COST,
  body: z.object({ email, password: newPassword, organization: name(64) }),
  reply: z.object({ message: z.string(), user, organization, identity: adminIdentity }),
  example: {
    body: { email: "ada@example.com", password: "correct horse battery staple", organization: "Example" },
  },
});

export const createOrganization = endpoint({
  id: "createOrganization",
  method: "POST",
  path: "/api/v1/admin/organizations",
  room,
  summary: "Create a further organisation (instance admins); answers an admin identity of it with a token",
  body: z.object({ name: name(64), slug: slug(1, 64).optional() }),
  reply: z.object({ organization, identity: adminIdentity }),
  example: { body: { name: "Second organisation" } },
});
