import { z } from "zod";
import { endpoint } from "../../platform/http/endpoint.ts";

const room = "auth";

/** What every login answers. */
export const grantedToken = z.object({
  accessToken: z.string(),
  expiresIn: z.number(),
  accessTokenMaxTTL: z.number(),
  tokenType: z.literal("Bearer"),
});
export type GrantedToken = z.input<typeof grantedToken>;

const body = z.object({ accessToken: z.string().min(1).max(8192) });

export const renewToken = endpoint({
  id: "renewAccessToken",
  method: "POST",
  path: "/api/v1/auth/token/renew",
  room,
  summary: "Extend an access token, up to its maximum lifetime",
  access: "public",
  rate: "login",
  acceptsForm: true,
  body,
  reply: grantedToken,
});

export const revokeToken = endpoint({
  id: "revokeAccessToken",
  method: "POST",
  path: "/api/v1/auth/token/revoke",
  room,
  summary: "End an access token now, on every node",
  access: "public",
  rate: "login",
  acceptsForm: true,
  body,
  reply: z.object({ message: z.string() }),
});
