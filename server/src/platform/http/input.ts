/** From what arrived to what the contract promises, or to one 422 that lists everything wrong with it. */
import type { Endpoint } from "./endpoint.ts";
import { issuesOf } from "./envelope.ts";
import { invalid, type Issue } from "../problem.ts";

export interface Input {
  readonly params: unknown;
  readonly query: unknown;
  readonly body: unknown;
}

/** PostgreSQL cannot store NUL in text, and nobody means to send one: refused at the door, with its place. */
function findNul(value: unknown, path: (string | number)[], issues: Issue[]): void {
  if (typeof value === "string") {
    if (value.includes("\0"))
      issues.push({ code: "custom", path, message: "must not contain the NUL character" });
  } else if (typeof value === "object" && value !== null && issues.length < 50 && path.length < 64) {
    for (const [key, part] of Object.entries(value))
      findNul(part, [...path, Array.isArray(value) ? Number(key) : key], issues);
  }
}

/** An empty query value equals an absent one: clients send `workspaceSlug=` when they mean nothing. */
function withoutEmpty(query: unknown): Record<string, unknown> {
  const kept: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(query as Record<string, unknown>))
    if (value !== "") kept[key] = value;
  return kept;
}

export function parseInput(endpoint: Endpoint, raw: Input, bodyHasEscapes: boolean): Input {
  const issues: Issue[] = [];
  const query = withoutEmpty(raw.query);
  findNul(raw.params, [], issues);
  findNul(query, [], issues);
  if (bodyHasEscapes) findNul(raw.body, [], issues);
  const params = endpoint.params.safeParse(raw.params);
  const looked = endpoint.query.safeParse(query);
  const body = endpoint.body.safeParse(raw.body ?? {});
  for (const part of [params, looked, body]) if (!part.success) issues.push(...issuesOf(part.error));
  if (issues.length > 0 || !params.success || !looked.success || !body.success) throw invalid(issues);
  return { params: params.data, query: looked.data, body: body.data };
}
