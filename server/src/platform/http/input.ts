/** Parses a request by its contract, or answers one 422 that lists everything wrong with it. */
import { issuesOf } from "./envelope.ts";
import type { Endpoint } from "./endpoint.ts";
import type { Route } from "./serve.ts";
import { hasMoreParts } from "../json-parts.ts";
import { isWellFormed } from "../text.ts";
import { invalid, type Issue } from "../problem.ts";

export interface Input {
  readonly params: unknown;
  readonly query: unknown;
  readonly body: unknown;
}

/** What is so large that it is read on a thread of its own is a file in one field. */
const MOST_PARTS = 1000;
export const hasTooManyParts = (text: string): boolean => hasMoreParts(text, MOST_PARTS);

const MOST_ISSUES = 50;

/** What can be in a JSON string and in no database: NUL, and one half of a surrogate pair (RFC 8259, 8.2). */
export const UNSTORABLE_ESCAPES = /\\u(?:0000|d[89a-f])/i;

/**
 * PostgreSQL cannot store these in text or in jsonb, UTF-8 would quietly turn the second into another character, and
 * nobody means to send one: refused here, with its position.
 */
export function findUnstorable(value: unknown, path: (string | number)[], issues: Issue[]): void {
  if (issues.length >= MOST_ISSUES) return;
  if (typeof value === "string") {
    // The path is one for the whole walk, and copied only for a complaint: copies for each part cost more than all the rest.
    if (value.includes("\0"))
      issues.push({ code: "custom", path: [...path], message: "must not contain the NUL character" });
    else if (!isWellFormed(value))
      issues.push({
        code: "custom",
        path: [...path],
        message: "must be well-formed Unicode, without lone surrogates",
      });
  } else if (typeof value === "object" && value !== null && path.length < 64) {
    const isList = Array.isArray(value);
    for (const key in value) {
      path.push(isList ? Number(key) : key.slice(0, 300));
      if (!isList) findUnstorable(key, path, issues);
      findUnstorable((value as Record<string, unknown>)[key], path, issues);
      path.pop();
      if (issues.length >= MOST_ISSUES) return;
    }
  }
}

/** An empty query value equals an absent one: clients send `workspaceSlug=` when they mean nothing. */
function withoutEmpty(query: unknown): Record<string, unknown> {
  const kept: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(query as Record<string, unknown>))
    if (value !== "") kept[key] = value;
  return kept;
}

/** Of the address alone, for what must be known before the body is read. */
export function parseParams(endpoint: Endpoint, raw: unknown): unknown {
  const issues: Issue[] = [];
  findUnstorable(raw, [], issues);
  const params = endpoint.params.safeParse(raw);
  if (!params.success) issues.push(...issuesOf(params.error));
  if (issues.length > 0 || !params.success) throw invalid(issues);
  return params.data;
}

/** A body as the contract wants it, or what is wrong with it. */
export interface ReadBody {
  readonly data: unknown;
  readonly issues: readonly Issue[];
}

function readBody(schema: Endpoint["body"], raw: unknown, hasEscapes: boolean): ReadBody {
  const issues: Issue[] = [];
  if (hasEscapes) findUnstorable(raw, [], issues);
  const body = schema.safeParse(raw ?? {});
  if (!body.success) issues.push(...issuesOf(body.error));
  return { data: body.data, issues };
}

export function parseInput(
  { endpoint, faultsOf }: Pick<Route, "endpoint" | "faultsOf">,
  raw: Input,
  bodyHasEscapes: boolean,
  body: ReadBody = readBody(endpoint.body, raw.body, bodyHasEscapes),
): Input {
  const issues: Issue[] = [];
  const query = withoutEmpty(raw.query);
  findUnstorable(raw.params, [], issues);
  findUnstorable(query, [], issues);
  const params = endpoint.params.safeParse(raw.params);
  const looked = endpoint.query.safeParse(query);
  for (const part of [params, looked]) if (!part.success) issues.push(...issuesOf(part.error));
  issues.push(...body.issues);
  if (faultsOf) issues.push(...faultsOf(raw.body));
  if (issues.length > 0 || !params.success || !looked.success) throw invalid(issues);
  return { params: params.data, query: looked.data, body: body.data };
}
