/**
 * From the published schemas to requests. Every endpoint's input schemas are read in the JSON Schema form that the
 * OpenAPI document shows; each becomes a fast-check arbitrary that mostly keeps to the schema and sometimes does not.
 * Names of things (ids, slugs) are left open as `Name` values and filled in just before sending, because what exists
 * is known only then.
 */
import fc from "fast-check";
import { z } from "zod";
import type { Endpoint } from "../../src/platform/http/index.ts";
import { EXTRA_FIELDS, HOSTILE_SEGMENTS, hostileQueries, HOSTILE_VALUES } from "./hostile.ts";

export interface Json {
  readonly [key: string]: unknown;
}

/** Stands for a thing that is chosen when the request is sent. */
export class Name {
  readonly field: string;
  readonly whose: "mine" | "seen" | "theirs" | "nobody";
  readonly index: number;

  constructor(field: string, whose: Name["whose"], index: number) {
    this.field = field;
    this.whose = whose;
    this.index = index;
  }
}

/** `raw` parts are sent as they are; the others are encoded. */
export interface Draft {
  readonly path: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly rawParams: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, unknown>>;
  readonly rawQuery: string | undefined;
  readonly body: unknown;
}

const NAMES_SOMETHING =
  /(^|[a-z])_?[iI]ds?$|Slug$|^slug$|^environment$|^role$|^secretName$|^path$|^secretPath$|^clientSecret$|^accessToken$|^token$/;

export const inputSchema = (schema: z.ZodType): Json =>
  z.toJSONSchema(schema, { io: "input", unrepresentable: "any" }) as unknown as Json;

const hostile = fc.constantFrom(...HOSTILE_VALUES);
const anything = fc.oneof(hostile, fc.jsonValue({ maxDepth: 3 }));

const nameOf = (field: string): fc.Arbitrary<unknown> =>
  fc.tuple(fc.nat({ max: 99 }), fc.nat({ max: 10_000 })).map(([luck, index]) => {
    const whose = luck < 60 ? "mine" : luck < 75 ? "seen" : luck < 90 ? "theirs" : "nobody";
    return new Name(field, whose, index);
  });

function textOf(schema: Json): fc.Arbitrary<unknown> {
  const minLength = (schema["minLength"] as number | undefined) ?? 0;
  const maxLength = (schema["maxLength"] as number | undefined) ?? 400;
  const format = schema["format"];
  if (format === "uuid") return fc.uuid();
  if (format === "date-time")
    return fc
      .date({ min: new Date("1990-01-01"), max: new Date("2100-01-01"), noInvalidDate: true })
      .map((date) => date.toISOString());
  if (format === "email") return fc.emailAddress();
  if (format === "uri") return fc.webUrl();
  const pattern = schema["pattern"];
  if (typeof pattern === "string") {
    try {
      const matching = fc.stringMatching(new RegExp(pattern), { maxLength: Math.min(maxLength, 100) });
      fc.sample(matching, 1);
      return matching;
    } catch {
      // A pattern that fast-check cannot turn round, such as one that looks ahead: any text then.
    }
  }
  const bounds = { minLength, maxLength: Math.min(maxLength, minLength + 300) };
  return fc.oneof(
    { weight: 4, arbitrary: fc.string({ ...bounds, unit: "grapheme-ascii" }) },
    { weight: 2, arbitrary: fc.string({ ...bounds, unit: "binary" }) },
    {
      weight: 1,
      arbitrary: fc
        .constantFrom(minLength, maxLength, maxLength + 1)
        .map((length) => "x".repeat(Math.min(length, 100_000))),
    },
  );
}

function numberOf(schema: Json): fc.Arbitrary<unknown> {
  const min = Math.max(
    (schema["minimum"] as number | undefined) ?? Number.MIN_SAFE_INTEGER,
    Number.MIN_SAFE_INTEGER,
  );
  const max = Math.min(
    (schema["maximum"] as number | undefined) ?? Number.MAX_SAFE_INTEGER,
    Number.MAX_SAFE_INTEGER,
  );
  const edges = fc.constantFrom(min, max, min - 1, max + 1, 0, 1, 2 ** 31, 2 ** 31 - 1, 2 ** 32, 1e15);
  const whole = fc.oneof(
    fc.integer({ min, max }),
    fc.integer({ min, max: Math.min(max, Math.max(min, 0) + 100) }),
    edges,
  );
  return schema["type"] === "integer"
    ? whole
    : fc.oneof(whole, fc.double({ noNaN: true, noDefaultInfinity: true }));
}

function objectOf(schema: Json, root: Json, depth: number): fc.Arbitrary<unknown> {
  const properties = Object.entries((schema["properties"] as Record<string, Json> | undefined) ?? {});
  const required = new Set((schema["required"] as string[] | undefined) ?? []);
  const fields = Object.fromEntries(
    properties.map(([key, inner]) => [key, valueOf(inner, root, key, depth + 1)]),
  );
  const known = fc.record(fields, { requiredKeys: [...required].filter((key) => key in fields) });
  const rest = schema["additionalProperties"];
  if (typeof rest !== "object" || rest === null || properties.length > 0) return known;
  const key = fc.oneof(
    fc.string({ maxLength: 30 }),
    fc.constantFrom("a", "KEY", "__proto__", "a\0b", "a\ud800", ""),
  );
  return fc.dictionary(key, valueOf(rest as Json, root, "", depth + 1), { maxKeys: 6 });
}

function plainOf(schema: Json, root: Json, field: string, depth: number): fc.Arbitrary<unknown> {
  if (depth > 8) return anything;
  const ref = schema["$ref"];
  if (typeof ref === "string") {
    const found = ref
      .replace(/^#\/?/, "")
      .split("/")
      .filter((part) => part !== "")
      .reduce<unknown>((at, part) => (at as Json)[part], root);
    return plainOf(found as Json, root, field, depth + 1);
  }
  if ("const" in schema) return fc.constant(schema["const"]);
  if (Array.isArray(schema["enum"])) return fc.constantFrom(...(schema["enum"] as unknown[]));
  const options = (schema["anyOf"] ?? schema["oneOf"]) as Json[] | undefined;
  if (options) return fc.oneof(...options.map((option) => valueOf(option, root, field, depth + 1)));
  const parts = schema["allOf"] as Json[] | undefined;
  if (parts)
    return plainOf(
      Object.assign({}, ...parts, { ...schema, allOf: undefined }) as Json,
      root,
      field,
      depth + 1,
    );
  if (schema["type"] === "string")
    return NAMES_SOMETHING.test(field)
      ? fc.oneof({ weight: 5, arbitrary: nameOf(field) }, { weight: 2, arbitrary: textOf(schema) })
      : textOf(schema);
  if (schema["type"] === "number" || schema["type"] === "integer") return numberOf(schema);
  if (schema["type"] === "boolean") return fc.boolean();
  if (schema["type"] === "null") return fc.constant(null);
  if (schema["type"] === "array") {
    const minLength = (schema["minItems"] as number | undefined) ?? 0;
    const maxLength = Math.min((schema["maxItems"] as number | undefined) ?? 6, minLength + 6);
    return fc.array(valueOf((schema["items"] as Json | undefined) ?? {}, root, field, depth + 1), {
      minLength,
      maxLength,
    });
  }
  if (schema["type"] === "object" || schema["properties"]) return objectOf(schema, root, depth);
  return anything;
}

/** Mostly what the schema asks for; now and then what belongs in no field. */
function valueOf(schema: Json, root: Json, field: string, depth = 0): fc.Arbitrary<unknown> {
  const known = [schema["default"], ...((schema["examples"] as unknown[] | undefined) ?? [])].filter(
    (value) => value !== undefined,
  );
  return fc.oneof(
    { weight: 40, arbitrary: plainOf(schema, root, field, depth) },
    ...(known.length > 0 ? [{ weight: 3, arbitrary: fc.constantFrom(...known) }] : []),
    { weight: 2, arbitrary: hostile },
  );
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Puts open names where an example names something: its ids are nobody's. */
export function openNames(value: unknown, field = ""): unknown {
  if (Array.isArray(value)) return value.map((item) => openNames(item, field));
  if (isObject(value))
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, openNames(inner, key)]));
  return typeof value === "string" &&
    /([a-z]|^)_?[iI]ds?$|[a-z]Slug$|^clientSecret$|^accessToken$|^token$/.test(field)
    ? new Name(field, "mine", 0)
    : value;
}

/** The example with up to three of its fields exchanged, left out or added. */
function nearTo(example: unknown, schema: Json): fc.Arbitrary<unknown> {
  if (!isObject(example)) return fc.constant(example ?? {});
  const properties = (schema["properties"] as Record<string, Json> | undefined) ?? {};
  const keys = [...new Set([...Object.keys(properties), ...Object.keys(example)])];
  if (keys.length === 0) return fc.constant(example);
  const change = fc.constantFrom(...keys).chain((key) =>
    fc.oneof(
      {
        weight: 6,
        arbitrary: valueOf(properties[key] ?? {}, schema, key).map((value) => ({ key, value })),
      },
      { weight: 1, arbitrary: fc.constant({ key, value: undefined }) },
    ),
  );
  return fc.array(change, { maxLength: 3 }).map((changes) => {
    const next: Record<string, unknown> = { ...(openNames(example) as Record<string, unknown>) };
    for (const { key, value } of changes) {
      if (value === undefined) delete next[key];
      else next[key] = value;
    }
    return next;
  });
}

const withExtras = (body: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc
    .tuple(body, fc.nat({ max: 19 }))
    .map(([value, luck]) => (luck === 0 && isObject(value) ? { ...value, ...EXTRA_FIELDS } : value));

export const parameterNames = (path: string): string[] =>
  [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1] ?? "");

/** Requests to one endpoint: near its example, from its schema, and beside it. */
export function draftsOf(endpoint: Endpoint): fc.Arbitrary<Draft> {
  const [params, query, body] = [endpoint.params, endpoint.query, endpoint.body].map(inputSchema) as [
    Json,
    Json,
    Json,
  ];
  const names = [...new Set([endpoint.path, ...endpoint.aliases].flatMap(parameterNames))];
  const shapes = (params["properties"] as Record<string, Json> | undefined) ?? {};
  const oneParam = (name: string) =>
    fc.oneof(
      { weight: 8, arbitrary: nameOf(name) },
      { weight: 1, arbitrary: plainOf(shapes[name] ?? { type: "string" }, params, "", 0) },
    );
  const firstQuery = Object.keys((query["properties"] as Json | undefined) ?? {})[0] ?? "limit";
  const rare = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
    fc.option(arbitrary, { nil: undefined, freq: 20 });
  const asked = fc.oneof(
    { weight: 2, arbitrary: nearTo(endpoint.example.query ?? {}, query) },
    { weight: 2, arbitrary: valueOf(query, query, "") },
  );
  const sent = fc.oneof(
    { weight: 4, arbitrary: nearTo(endpoint.example.body ?? {}, body) },
    { weight: 4, arbitrary: plainOf(body, body, "", 0) },
    { weight: 1, arbitrary: anything },
  );
  return fc
    .record({
      path: fc.constantFrom(endpoint.path, endpoint.path, ...endpoint.aliases),
      params: fc.record(Object.fromEntries(names.map((name) => [name, oneParam(name)]))),
      rawParam: rare(fc.tuple(fc.constantFrom("", ...names), fc.constantFrom(...HOSTILE_SEGMENTS))),
      query: asked,
      rawQuery: rare(fc.constantFrom(...hostileQueries(firstQuery))),
      body: withExtras(sent),
    })
    .map(({ rawParam, ...draft }) => ({
      ...draft,
      query: isObject(draft.query) ? draft.query : {},
      rawParams: rawParam ? { [rawParam[0]]: rawParam[1] } : {},
    }));
}
