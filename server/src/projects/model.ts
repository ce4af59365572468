import { badRequest, conflict } from "../platform/problem.ts";

export const projectProtected = () =>
  badRequest("This project is protected against deletion. Turn its delete protection off first.");
export const projectSlugTaken = (slug: string) =>
  conflict(`A project with the slug ${slug} exists in this organisation already.`);

/** A slug from a name people chose: plain letters and digits joined by hyphens, with a suffix that makes it unique. */
export function slugFrom(name: string, suffix: string): string {
  const base = name
    .normalize("NFKD")
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-+|-+$/g, "")
    .slice(0, 48)
    .replace(/-+$/, "");
  return base === "" ? suffix : `${base}-${suffix}`;
}
