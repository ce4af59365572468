import { z } from "zod";
import { uuid } from "../platform/http/endpoint.ts";

export const user = z.object({
  id: uuid,
  email: z.string(),
  username: z.string(),
  firstName: z.string(),
  lastName: z.string(),
  superAdmin: z.boolean(),
});
export type UserView = z.input<typeof user>;

/** One account however its address is typed: spaces, case and look-alike code points do not make another. */
export const email = z
  .string()
  .max(320)
  .transform((text) => text.normalize("NFKC").trim().toLowerCase())
  .pipe(z.email("must be an e-mail address"));

/** Long is what makes a password strong; the upper bound only keeps hashing affordable. */
export const newPassword = z.string().min(8).max(1024);
