/** Schemas that organisation and project members share. */
import { z } from "zod";
import { queryInteger, uuid } from "../platform/http/endpoint.ts";

export const room = "members";

export const person = z.object({
  id: uuid,
  email: z.string(),
  username: z.string(),
  firstName: z.string(),
  lastName: z.string(),
});

export const page = { offset: queryInteger(0, 1e9, 0), limit: queryInteger(1, 1000, 100) };
export const searchablePage = z.object({ ...page, search: z.string().max(256).optional() });
export type SearchablePage = z.output<typeof searchablePage>;

export const personName = z.string().trim().max(255);
export const roleSlug = z.string().min(1).max(64);
