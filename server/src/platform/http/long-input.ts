/** Validates a long body by its contract in chunks: item by item where it has long lists. */
import { z } from "zod";
import { Pace } from "../pace.ts";
import type { Issue } from "../problem.ts";
import type { Endpoint } from "./endpoint.ts";
import { issuesOf } from "./envelope.ts";
import { findUnstorable, type ReadBody } from "./input.ts";

/** The first of them say enough. */
const MOST_ISSUES = 50;
const LENGTHS = new Set(["min_length", "max_length", "length_equals"]);

/** A list whose items can be asked about one by one: nothing but its length is said of it as a whole. */
function listOf(field: z.ZodType): z.ZodArray | undefined {
  if (field instanceof z.ZodOptional || field instanceof z.ZodNullable || field instanceof z.ZodDefault)
    return listOf(field.unwrap() as z.ZodType);
  if (!(field instanceof z.ZodArray)) return undefined;
  const checks = field._zod.def.checks ?? [];
  return checks.every((check) => LENGTHS.has(check._zod.def.check)) ? field : undefined;
}

interface LongSchema {
  /** With items of any kind. */
  readonly outline: z.ZodType;
  readonly items: ReadonlyMap<string, z.ZodType>;
}
const known = new WeakMap<z.ZodType, LongSchema>();

function longSchemaOf(schema: z.ZodType): LongSchema {
  const same = known.get(schema);
  if (same) return same;
  const items = new Map<string, z.ZodType>();
  let outline = schema;
  if (schema instanceof z.ZodObject && (schema._zod.def.checks ?? []).length === 0) {
    const open: Record<string, z.ZodType> = {};
    for (const [name, field] of Object.entries(schema.shape as Record<string, z.ZodType>)) {
      const list = listOf(field);
      if (!list) continue;
      items.set(name, list.element as z.ZodType);
      // The field as it is, default and all, if nothing was given; else a list of anything, as long as it may be.
      const anything = list.clone({ ...list._zod.def, element: z.unknown() }) as z.ZodType;
      open[name] = z.union([anything, field]);
    }
    outline = schema.extend(open);
  }
  const made = { outline, items };
  known.set(schema, made);
  return made;
}

async function findUnstorableInChunks(body: unknown, issues: Issue[]): Promise<void> {
  if (typeof body !== "object" || body === null) return findUnstorable(body, [], issues);
  const pace = new Pace();
  for (const [name, part] of Object.entries(body)) {
    findUnstorable(name, [name.slice(0, 300)], issues);
    if (!Array.isArray(part)) findUnstorable(part, [name.slice(0, 300)], issues);
    else
      for (const [at, item] of part.entries()) {
        findUnstorable(item, [name.slice(0, 300), at], issues);
        if (pace.isDue()) await pace.rest();
      }
  }
}

export async function readLongBody(
  schema: Endpoint["body"],
  raw: unknown,
  hasEscapes: boolean,
): Promise<ReadBody> {
  const issues: Issue[] = [];
  if (hasEscapes) await findUnstorableInChunks(raw, issues);
  const { outline, items } = longSchemaOf(schema);
  const body = outline.safeParse(raw ?? {});
  if (!body.success) return { data: undefined, issues: [...issues, ...issuesOf(body.error)] };
  const data = body.data as Record<string, unknown>;
  const pace = new Pace();
  for (const [name, element] of items) {
    const given = data[name];
    if (!Array.isArray(given)) continue;
    for (const [at, item] of given.entries()) {
      const read = element.safeParse(item);
      if (read.success) given[at] = read.data;
      else
        issues.push(...issuesOf(read.error).map((issue) => ({ ...issue, path: [name, at, ...issue.path] })));
      if (issues.length >= MOST_ISSUES) break;
      if (pace.isDue()) await pace.rest();
    }
  }
  return { data, issues: issues.slice(0, MOST_ISSUES) };
}
