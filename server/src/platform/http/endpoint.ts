/**
 * An endpoint is a value, not a registration. The server mounts it, the CLI and the web call it, the OpenAPI
 * document is printed from it, and the tenancy test walks over all of them. It runs in a browser: zod only.
 */
import { z } from "zod";

type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
const nothing = z.object({});
type Nothing = typeof nothing;

export interface Endpoint<
  P extends z.ZodType = z.ZodType,
  Q extends z.ZodType = z.ZodType,
  B extends z.ZodType = z.ZodType,
  R extends z.ZodType = z.ZodType,
> {
  readonly id: string;
  readonly method: Method;
  /** Parameters in braces: `/api/v1/projects/{projectId}`. */
  readonly path: string;
  /** Older or alternative addresses of the same endpoint. */
  readonly aliases: readonly string[];
  readonly room: string;
  readonly summary: string;
  /** What a summary cannot say, in Markdown. */
  readonly description: string | undefined;
  readonly params: P;
  readonly query: Q;
  readonly body: B;
  readonly reply: R;
  readonly access: "token" | "public";
  readonly rate: "read" | "write" | "login";
  /** How many ordinary requests one of these counts for: hashing a password costs a hundred times a read. 0 = none. */
  readonly rateCost: number;
  readonly acceptsForm: boolean;
  readonly maxBodyBytes: number | undefined;
  /** What a good answer is written in; several where the caller chooses. */
  readonly replyType: string | readonly string[];
  /** A request that is valid as it stands (ids apart): shown in the documentation, sent by the generated tests. */
  readonly example: { readonly query?: Record<string, unknown>; readonly body?: unknown };
}

interface EndpointSpec<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType, R extends z.ZodType> {
  readonly id: string;
  readonly method: Method;
  readonly path: string;
  readonly aliases?: readonly string[];
  readonly room: string;
  readonly summary: string;
  readonly description?: string;
  readonly params?: P;
  readonly query?: Q;
  readonly body?: B;
  readonly reply: R;
  readonly access?: "token" | "public";
  readonly rate?: "read" | "write" | "login";
  readonly rateCost?: number;
  readonly acceptsForm?: boolean;
  readonly maxBodyBytes?: number;
  readonly replyType?: string | readonly string[];
  readonly example?: { readonly query?: Record<string, unknown>; readonly body?: unknown };
}

export function endpoint<
  P extends z.ZodType = Nothing,
  Q extends z.ZodType = Nothing,
  B extends z.ZodType = Nothing,
  R extends z.ZodType = z.ZodType,
>(spec: EndpointSpec<P, Q, B, R>): Endpoint<P, Q, B, R> {
  return {
    aliases: [],
    description: undefined,
    params: nothing as unknown as P,
    query: nothing as unknown as Q,
    body: nothing as unknown as B,
    access: "token",
    rate: spec.method === "GET" ? "read" : "write",
    rateCost: 1,
    acceptsForm: false,
    maxBodyBytes: undefined,
    replyType: "application/json",
    example: {},
    ...spec,
  };
}

/** For bodies whose fields can hold more than the quarter of a megabyte that is usual: a large value, a long chain. */
export const LARGE_BODY = 1024 * 1024;

/** For endpoints that hash a password: thirty a minute where six hundred logins are allowed. */
export const PASSWORD_COST = 20;

/** A moment in a reply. Rows carry Date objects; on the wire it is ISO 8601 UTC with milliseconds. */
export const moment = z.date().meta({ type: "string", format: "date-time" });
/**
 * In one spelling from the door on: the database does not mind the case of an id, but rights, facts and caches compare
 * it as text.
 */
export const uuid = z.uuid().toLowerCase();
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
/** For a text that may be an id or something else, such as a slug. */
export const idInOneSpelling = (text: string): string => (UUID.test(text) ? text.toLowerCase() : text);
/** A name people type: spaces at both ends are never meant. */
export const name = (max: number) => z.string().trim().min(1).max(max);
export const slug = (min: number, max: number) =>
  z
    .string()
    .min(min)
    .max(max)
    .regex(
      /^[a-z0-9]+(?:[-_][a-z0-9]+)*$/,
      "must be lower-case letters and digits, in groups joined by single - or _",
    );

/** Booleans in queries come as true/false/True/False/1/0. */
export const queryBoolean = (fallback: boolean) =>
  z
    .string()
    .transform((text, context) => {
      if (/^(true|1)$/i.test(text)) return true;
      if (/^(false|0)$/i.test(text)) return false;
      context.addIssue({ code: "custom", message: "must be true or false" });
      return z.NEVER;
    })
    .default(fallback);

/** A whole number in a query: digits only, so that `1e3`, `NaN`, `0x10`, fractions and repeats are refused. */
export const queryInteger = (min: number, max: number, fallback: number) =>
  z
    .string()
    .regex(/^-?\d{1,15}$/, "must be a whole number")
    .transform(Number)
    .pipe(z.number().min(min).max(max))
    .default(fallback);
