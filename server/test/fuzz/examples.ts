/** From a draft to a request: open names get what they stand for, made on demand in a tenant's world. */
import type { Endpoint } from "../../src/platform/http/index.ts";
import { newId } from "../../src/platform/ids.ts";
import { BODIES, THINGS, type World } from "../things.ts";
import type { Wire } from "./door.ts";
import type { Recipe } from "./recipes.ts";
import { Name, openNames, parameterNames, type Draft } from "./requests.ts";

/** Where names lead. */
export interface Ground {
  readonly mine: World;
  readonly theirs: World;
  /** By field: what earlier answers called by that name. */
  readonly seen: ReadonlyMap<string, readonly string[]>;
}

/** Half a surrogate pair cannot be written in an address. */
const wellFormed = (text: string): string => Buffer.from(text).toString();

const thingFor = (endpoint: Endpoint, field: string) =>
  THINGS[`${endpoint.id}.${field}`] ?? THINGS[`${endpoint.room}.${field}`] ?? THINGS[field];

const PLAIN: Readonly<Record<string, string>> = {
  environment: "dev",
  secretPath: "/",
  path: "/",
  role: "viewer",
  secretName: "A_KEY",
};

async function called(endpoint: Endpoint, { field, whose, index }: Name, ground: Ground): Promise<string> {
  const { seen } = ground;
  if (whose === "nobody") return index % 2 === 0 ? newId() : `no-such-${index}`;
  if (whose === "seen") {
    const known = seen.get(field) ?? seen.get("id") ?? [];
    return known[index % Math.max(1, known.length)] ?? "dev";
  }
  // A thing that could not be made (a limit, a tenant that was just deleted) is simply unknown.
  const made = await thingFor(endpoint, field)?.(ground[whose]).catch(() => undefined);
  return made ?? PLAIN[field] ?? seen.get(field)?.at(-1) ?? newId();
}

async function fill(endpoint: Endpoint, value: unknown, ground: Ground): Promise<unknown> {
  if (value instanceof Name) return called(endpoint, value, ground);
  if (Array.isArray(value)) {
    const filled: unknown[] = [];
    for (const item of value) filled.push(await fill(endpoint, item, ground));
    return filled;
  }
  if (typeof value !== "object" || value === null) return value;
  const filled: [string, unknown][] = [];
  for (const [key, inner] of Object.entries(value)) filled.push([key, await fill(endpoint, inner, ground)]);
  return Object.fromEntries(filled);
}

export async function wireOf(
  endpoint: Endpoint,
  draft: Draft,
  ground: Ground,
  token: string | undefined,
): Promise<Wire> {
  const params = (await fill(endpoint, draft.params, ground)) as Record<string, unknown>;
  const text = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value)) ?? "";
  const encode = (value: unknown): string =>
    encodeURIComponent(wellFormed(text(value).slice(0, 2000))) || "%20";
  let path = draft.path;
  for (const name of parameterNames(path))
    path = path.replace(`{${name}}`, () => draft.rawParams[name] ?? encode(params[name]));
  const query = (await fill(endpoint, draft.query, ground)) as Record<string, unknown>;
  const pairs = Object.entries(query).map(([key, value]) => `${encode(key)}=${encode(value)}`);
  const search = draft.rawQuery ?? pairs.join("&").slice(0, 9000);
  const body =
    endpoint.method === "GET" ? undefined : JSON.stringify(await fill(endpoint, draft.body, ground));
  return { method: endpoint.method, path: search === "" ? path : `${path}?${search}`, token, body };
}

/** The request of the documentation, with one's own things in it: the way behind the door. */
export async function exampleOf(endpoint: Endpoint, world: World, recipe: Recipe = {}): Promise<Draft> {
  const mine = (names: readonly string[]) =>
    Object.fromEntries(names.map((name) => [name, new Name(name, "mine", 0)]));
  const body = recipe.body ?? openNames((await BODIES[endpoint.id]?.(world)) ?? endpoint.example.body ?? {});
  const query = openNames(endpoint.example.query ?? {}) as Record<string, unknown>;
  return {
    path: endpoint.path,
    params: { ...mine(parameterNames(endpoint.path)), ...recipe.params },
    rawParams: {},
    query: { ...query, ...recipe.query },
    rawQuery: undefined,
    body,
  };
}
