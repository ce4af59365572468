import { z } from "zod";
import { endpoint, PASSWORD_COST, uuid } from "../../platform/http/endpoint.ts";
import { email, newPassword, user } from "../../users/contract.ts";

const room = "auth";

export const passwordLogin = endpoint({
  id: "passwordLogin",
  method: "POST",
  path: "/api/v3/auth/login",
  room,
  summary: "Log a person in with e-mail address and password",
  access: "public",
  rate: "login",
  rateCost: PASSWORD_COST,
  acceptsForm: true,
  body: z.object({ email, password: z.string().min(1).max(1024) }),
  reply: z.object({ accessToken: z.string(), expiresIn: z.number(), tokenType: z.literal("Bearer") }),
  example: { body: { email: "ada@example.com", password: "…" } },
});

export const selectOrganization = endpoint({
  id: "selectOrganization",
  method: "POST",
  path: "/api/v3/auth/select-organization",
  room,
  summary: "Get a session for one of your organisations",
  body: z.object({ organizationId: uuid }),
  reply: z.object({ token: z.string(), isMfaEnabled: z.boolean() }),
  example: { body: { organizationId: "00000000-0000-7000-8000-000000000000" } },
});

export const checkAuth = endpoint({
  id: "checkAuth",
  method: "POST",
  path: "/api/v1/auth/checkAuth",
  room,
  rate: "read",
  summary: "Is this session still good?",
  reply: z.object({ message: z.string() }),
});

export const logout = endpoint({
  id: "logout",
  method: "POST",
  path: "/api/v1/auth/logout",
  room,
  summary: "End this session on every node",
  reply: z.object({ message: z.string() }),
});

export const changePassword = endpoint({
  id: "changePassword",
  method: "POST",
  path: "/api/v1/auth/password",
  room,
  rate: "login",
  rateCost: PASSWORD_COST,
  summary: "Change your password; every session of yours ends",
  body: z.object({ currentPassword: z.string().min(1).max(1024), newPassword }),
  reply: z.object({ message: z.string() }),
  example: { body: { currentPassword: "…", newPassword: "a longer pass phrase" } },
});

export const whoAmI = endpoint({
  id: "whoAmI",
  method: "GET",
  path: "/api/v1/user",
  room,
  summary: "The person behind this session",
  reply: z.object({ user }),
});
