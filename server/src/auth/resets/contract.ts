import { z } from "zod";
import { endpoint, PASSWORD_COST } from "../../platform/http/endpoint.ts";
import { email, newPassword } from "../../users/contract.ts";

const room = "auth";
const PATH = "/api/v1/auth/password-reset";

export const requestPasswordReset = endpoint({
  id: "requestPasswordReset",
  method: "POST",
  path: PATH,
  room,
  summary: "Have a link mailed with which a forgotten password is replaced",
  description:
    "The answer is the same, and comes as fast, whether the address has an account or not. The link works once, for half an hour; at most three are open at a time. On an instance without a mail server (`KEYWARD_SMTP_URL`) the answer is 400.",
  access: "public",
  rate: "login",
  rateCost: PASSWORD_COST,
  body: z.object({ email }),
  reply: z.object({ message: z.string() }),
  example: { body: { email: "ada@example.com" } },
});

export const resetPassword = endpoint({
  id: "resetPassword",
  method: "POST",
  path: `${PATH}/confirm`,
  room,
  summary: "Replace a forgotten password with the token of a mailed link; every session of yours ends",
  access: "public",
  rate: "login",
  rateCost: PASSWORD_COST,
  // Any text: a malformed token is refused in the same words as an unknown one.
  body: z.object({ token: z.string().max(1024), newPassword }),
  reply: z.object({ message: z.string() }),
  example: { body: { token: "kwr_…", newPassword: "a longer pass phrase" } },
});

export const openPasswordResetLink = endpoint({
  id: "openPasswordResetLink",
  method: "GET",
  path: "/password-reset",
  room,
  summary: "The page behind a mailed link: it asks for the new password",
  access: "public",
  reply: z.unknown(),
  replyType: "text/html",
});
