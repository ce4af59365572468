/**
 * Folder paths have one canonical spelling. What a caller writes is normalised here, before anything is looked up or
 * authorised, so that the path that permissions check is the path that is opened. Names are plain ASCII, which
 * leaves no room for look-alikes, encoded slashes, dots, backslashes or invisible characters: they are refused
 * rather than interpreted. Pure, and safe in a browser.
 */
import { z } from "zod";

export const MAX_PATH_LENGTH = 512;
export const MAX_DEPTH = 32;
const MAX_FOLDER_NAME = 255;
export const ROOT = "/";

type CanonicalPath =
  { readonly ok: true; readonly path: string } | { readonly ok: false; readonly reason: string };

const isNameCode = (code: number): boolean =>
  (code >= 0x30 && code <= 0x39) ||
  (code >= 0x41 && code <= 0x5a) ||
  (code >= 0x61 && code <= 0x7a) ||
  code === 0x2d ||
  code === 0x5f;

/** Why a text is no folder name, or null if it is one. */
function folderNameFault(name: string): string | null {
  if (name.length === 0) return "must not be empty";
  if (name.length > MAX_FOLDER_NAME) return `must be at most ${MAX_FOLDER_NAME} characters long`;
  for (let at = 0; at < name.length; at += 1) {
    if (!isNameCode(name.charCodeAt(at))) return "must consist of the letters a-z and A-Z, digits, - and _";
  }
  return null;
}

/** A missing slash in front, doubled slashes and one or more behind are forgiven; everything else must be exact. */
export function canonicalPath(text: string): CanonicalPath {
  if (text === ROOT || text === "") return { ok: true, path: ROOT };
  if (text.length > MAX_PATH_LENGTH)
    return { ok: false, reason: `must be at most ${MAX_PATH_LENGTH} characters long` };
  const names = text.split("/").filter((name) => name !== "");
  if (names.length > MAX_DEPTH) return { ok: false, reason: `must be at most ${MAX_DEPTH} folders deep` };
  for (const name of names) {
    const fault = folderNameFault(name);
    if (fault !== null) return { ok: false, reason: `is not a folder path: each name ${fault}` };
  }
  return { ok: true, path: `/${names.join("/")}` };
}

/** The names of a canonical path, from the top. */
export const namesOf = (path: string): string[] => (path === ROOT ? [] : path.slice(1).split("/"));

export const joinPath = (parent: string, name: string): string =>
  parent === ROOT ? `/${name}` : `${parent}/${name}`;

/** Is `path` the folder itself or below it? Both canonical. */
export const isWithin = (path: string, folder: string): boolean =>
  folder === ROOT || path === folder || path.startsWith(`${folder}/`);

export const parentOf = (path: string): string => {
  const at = path.lastIndexOf("/");
  return at <= 0 ? ROOT : path.slice(0, at);
};

export const folderPath = z
  .string()
  .max(2048)
  .transform((text, context) => {
    const canonical = canonicalPath(text);
    if (canonical.ok) return canonical.path;
    context.addIssue({ code: "custom", message: canonical.reason });
    return z.NEVER;
  });

export const folderName = z
  .string()
  .trim()
  .superRefine((name, context) => {
    const fault = folderNameFault(name);
    if (fault !== null) context.addIssue({ code: "custom", message: fault });
  });

/** Control characters and the separators that end a line somewhere. */
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/;

const MAX_SECRET_NAME = 255;
const MAX_ENVIRONMENT_SLUG = 64;

/** Could a secret, or an environment, be called that? */
export const canBeSecret = (name: string): boolean =>
  name.length <= MAX_SECRET_NAME && !UNPRINTABLE.test(name);
export const canBeEnvironment = (slug: string): boolean =>
  slug.length <= MAX_ENVIRONMENT_SLUG && !UNPRINTABLE.test(slug);

export const secretName = z
  .string()
  .trim()
  .min(1)
  .max(MAX_SECRET_NAME)
  .refine((name) => !name.includes("/"), "must not contain a slash")
  .refine((name) => !UNPRINTABLE.test(name), "must not contain control characters");

export const environmentSlug = z.string().min(1).max(MAX_ENVIRONMENT_SLUG);
