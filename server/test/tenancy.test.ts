/**
 * S-27, generated from the contract: for every route and every parameter that names something, another tenant's
 * thing and a thing that does not exist must be answered alike, word for word. What a parameter names stands in
 * things.ts; a route with a parameter that nobody described there fails, so that no future route escapes.
 */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Endpoint } from "../src/platform/http/index.ts";
import { newId } from "../src/platform/ids.ts";
import { unique } from "./builders.ts";
import { openTestHouse, type Answer, type Tenant, type TestHouse } from "./harness.ts";
import { ALTERNATIVES, BODIES, EXEMPT, FILTERS, PUBLIC, THINGS, World } from "./things.ts";

type Place = "path" | "query" | "body";
interface Parameter {
  readonly place: Place;
  /** Dotted where nested: `projects.0.projectId`. */
  readonly name: string;
}

interface SchemaNode {
  readonly shape?: Record<string, unknown>;
  readonly _zod: {
    readonly def: {
      readonly type: string;
      readonly innerType?: unknown;
      readonly element?: unknown;
      readonly in?: unknown;
      readonly options?: unknown[];
    };
  };
}

/** Every field that a schema can be given, nested ones with their path. */
function fieldsOf(schema: unknown, path: readonly string[] = []): string[] {
  const { def } = (schema as SchemaNode)._zod;
  if (def.type === "object") {
    return Object.entries((schema as SchemaNode).shape ?? {}).flatMap(([key, field]) => [
      [...path, key].join("."),
      ...fieldsOf(field, [...path, key]),
    ]);
  }
  if (def.type === "array") return [[...path, "0"].join("."), ...fieldsOf(def.element, [...path, "0"])];
  if (def.type === "union") return (def.options ?? []).flatMap((option) => fieldsOf(option, path));
  const inner = def.innerType ?? def.in;
  return inner === undefined ? [] : fieldsOf(inner, path);
}

/** `slug` and `name` in a body are what the new thing shall be called; these are what names another thing. */
const NAMES_SOMETHING = /(^|\.)_?id$|Ids?$|Ids\.0$|[a-z]Slug$/;

function parametersOf(endpoint: Endpoint): Parameter[] {
  const inPath = [endpoint.path, ...endpoint.aliases].flatMap((path) =>
    [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1] ?? ""),
  );
  const given = (place: Place, schema: unknown): Parameter[] =>
    [...new Set(fieldsOf(schema))]
      .filter((name) => NAMES_SOMETHING.test(name))
      .map((name) => ({ place, name }));
  const all = [
    ...[...new Set(inPath)].map((name): Parameter => ({ place: "path", name })),
    ...given("query", endpoint.query),
    ...given("body", endpoint.body),
  ];
  const isList = ({ place, name }: Parameter): boolean =>
    all.some((other) => other.place === place && other.name === `${name}.0`);
  return all.filter((one) => !isList(one));
}

const isExempt = (endpoint: Endpoint, { name }: Parameter): boolean =>
  endpoint.id in EXEMPT || `${endpoint.id}.${name}` in EXEMPT;

const lastPart = (name: string): string =>
  name
    .replace(/\.\d+$/, "")
    .split(".")
    .at(-1) ?? name;

function thingFor(endpoint: Endpoint, { name }: Parameter) {
  const last = lastPart(name);
  return (
    THINGS[`${endpoint.id}.${name}`] ??
    THINGS[`${endpoint.id}.${last}`] ??
    THINGS[`${endpoint.room}.${last}`] ??
    THINGS[last]
  );
}

const howToAdd = (endpoint: Endpoint, { place, name }: Parameter): string =>
  `${endpoint.method} ${endpoint.path}: nothing says what the ${place} parameter ${name} names. Add one line to THINGS in server/test/things.ts, ` +
  `"${endpoint.id}.${lastPart(name)}" or "${lastPart(name)}", that makes such a thing in a world and answers its id` +
  ` (or, if it names nothing of a tenant's, a line with the reason to EXEMPT).`;

const groupOf = (name: string): readonly string[] =>
  ALTERNATIVES.find((group) => group.includes(name)) ?? [name];
const PROJECT_NAMES = groupOf("projectId");
/** All but what the parameter itself, or another name of the same thing, says outside the path. */
const without = (values: Values, { name }: Parameter): Values =>
  new Map(
    [...values].filter(
      ([key]) => key.startsWith("path ") || !groupOf(name).includes(key.split(" ")[1] ?? ""),
    ),
  );

const keyOf = ({ place, name }: Parameter): string => `${place} ${name}`;
type Values = ReadonlyMap<string, string>;

function put(target: unknown, path: readonly string[], value: string): boolean {
  let node = target as Record<string, unknown>;
  for (const [at, part] of path.slice(0, -1).entries()) {
    node[part] ??= /^\d+$/.test(path[at + 1] ?? "") ? [] : {};
    if (typeof node[part] !== "object" || node[part] === null) return false;
    node = node[part] as Record<string, unknown>;
  }
  node[path.at(-1) ?? ""] = value;
  return true;
}

const has = (target: unknown, path: readonly string[]): boolean =>
  path.reduce<unknown>(
    (node, part) =>
      typeof node === "object" && node !== null ? (node as Record<string, unknown>)[part] : undefined,
    target,
  ) !== undefined;

/** Names and texts, not ids. */
const SPELLED_AS_SENT = new Set(["roleSlug", "slug", "secretName", "environment", "path", "tagSlug", "name"]);

describe("S-27 another tenant's thing is answered exactly like one that does not exist", async () => {
  let house: TestHouse;
  let mine: Tenant;
  let theirs: Tenant;
  let examples: Map<string, unknown>;
  let [myWorld, theirWorld]: World[] = [];
  // Tests are declared from the routes, so the house has to stand before the first of them.
  house = await openTestHouse({ env: { KEYWARD_ALLOW_PRIVATE_TARGETS: "127.0.0.0/8" } });
  const routes = house.house.routes.map(({ endpoint }) => endpoint);
  before(async () => {
    mine = await house.newTenant();
    theirs = await house.newTenant();
    examples = new Map(routes.map((endpoint) => [endpoint.id, endpoint.example.body]));
    myWorld = new World(mine, examples);
    theirWorld = new World(theirs, examples);
  });
  after(() => house.close());

  const call = async (endpoint: Endpoint, path: string, values: Values, world: World): Promise<Answer> => {
    const filled = path.replace(/\{(\w+)\}/g, (_, name: string) =>
      encodeURIComponent(values.get(`path ${name}`) ?? "missing"),
    );
    const query = new URLSearchParams(endpoint.example.query as Record<string, string> | undefined);
    const body = ((await BODIES[endpoint.id]?.(world)) ?? world.example(endpoint.id)) as Record<
      string,
      unknown
    >;
    for (const name of ALTERNATIVES.flat()) {
      query.delete(name);
      delete body[name];
    }
    for (const [key, value] of values) {
      const [place, name = ""] = key.split(" ");
      if (place === "query") query.set(name, value);
      if (place === "body")
        assert.ok(
          put(body, name.split("."), value),
          `the example body of ${endpoint.id} has no place for ${name}: give one in BODIES of server/test/things.ts`,
        );
    }
    const search = query.size === 0 ? "" : `?${query}`;
    return mine.call(endpoint.method, `${filled}${search}`, endpoint.method === "GET" ? {} : { body });
  };

  /**
   * Everything that the route needs besides the parameter in question: path parameters, ids that the example names,
   * and the project wherever one can be named.
   */
  const ownValues = async (endpoint: Endpoint, world: World): Promise<Map<string, string>> => {
    const values = new Map<string, string>();
    const body = (await BODIES[endpoint.id]?.(world)) ?? endpoint.example.body;
    const all = parametersOf(endpoint);
    const project = PROJECT_NAMES.find((name) =>
      all.some((one) => one.place !== "path" && one.name === name),
    );
    for (const parameter of all) {
      const { place, name } = parameter;
      const isNamed =
        place === "path" ||
        name === project ||
        (!PROJECT_NAMES.includes(name) &&
          has(place === "query" ? endpoint.example.query : body, name.split(".")));
      const value = isNamed ? await thingFor(endpoint, parameter)?.(world) : undefined;
      if (value !== undefined) values.set(keyOf(parameter), value);
    }
    return values;
  };

  /** The answer without what must differ: the request's id and the id that was asked for. */
  const comparable = ({ status, body }: Answer, asked: readonly string[]): string => {
    const text = JSON.stringify({ status, body: { ...body, reqId: "" } });
    return asked.reduce((kept, id) => kept.replaceAll(id, "ID"), text);
  };

  const unknownLike = (value: string): string =>
    /^[0-9a-f-]{36}$/.test(value) ? newId() : unique("unknown");

  for (const endpoint of routes.filter(({ access }) => access === "token")) {
    const parameters = parametersOf(endpoint).filter((parameter) => !isExempt(endpoint, parameter));
    if (parameters.length === 0) continue;

    it(`${endpoint.id}: ${parameters.map(({ name }) => name).join(", ")}`, async () => {
      for (const parameter of parameters)
        assert.ok(thingFor(endpoint, parameter), howToAdd(endpoint, parameter));
      const own = await ownValues(endpoint, myWorld as World);
      for (const path of [endpoint.path, ...endpoint.aliases]) {
        const used = parameters.filter(({ place, name }) => place !== "path" || path.includes(`{${name}}`));
        for (const parameter of used) {
          const foreign = (await thingFor(endpoint, parameter)?.(theirWorld as World)) ?? "";
          const unknown = unknownLike(foreign);
          const [there, nowhere] = [
            await call(
              endpoint,
              path,
              new Map([...without(own, parameter), [keyOf(parameter), foreign]]),
              myWorld as World,
            ),
            await call(
              endpoint,
              path,
              new Map([...without(own, parameter), [keyOf(parameter), unknown]]),
              myWorld as World,
            ),
          ];
          const where = `${endpoint.method} ${path} with a foreign ${parameter.name}`;
          assert.equal(comparable(there, [foreign]), comparable(nowhere, [unknown]), where);
          assert.equal(
            nowhere.status,
            FILTERS.has(`${endpoint.id}.${parameter.name}`) ? 200 : 404,
            `${where}: ${JSON.stringify(nowhere.body)}`,
          );
        }
        if (used.length > 1) {
          const foreign = new Map(own);
          const unknown = new Map(own);
          for (const parameter of used.filter((one) => own.has(keyOf(one)))) {
            const value = (await thingFor(endpoint, parameter)?.(theirWorld as World)) ?? "";
            foreign.set(keyOf(parameter), value);
            unknown.set(keyOf(parameter), unknownLike(value));
          }
          const [there, nowhere] = [
            await call(endpoint, path, foreign, myWorld as World),
            await call(endpoint, path, unknown, myWorld as World),
          ];
          assert.equal(
            comparable(there, [...foreign.values()]),
            comparable(nowhere, [...unknown.values()]),
            `${endpoint.method} ${path} with all of it foreign`,
          );
        }
      }
    });

    it(`${endpoint.id} does reach one's own`, async () => {
      // A world of its own: the call may well delete what it is about.
      const world = new World(mine, examples);
      const { status, body } = await call(endpoint, endpoint.path, await ownValues(endpoint, world), world);
      assert.ok(
        status !== 404 && status !== 422 && status < 500,
        `${endpoint.method} ${endpoint.path} answered ${status}: ${JSON.stringify(body)}`,
      );
    });
  }

  it("the routes without a token are those that are meant to be", () => {
    const found = routes.filter(({ access }) => access === "public").map(({ id }) => id);
    for (const id of found)
      assert.ok(
        id in PUBLIC,
        `${id} needs no token: if that is right, say why in PUBLIC of server/test/things.ts`,
      );
  });

  it("every other route refuses a caller without a token before anything else", async () => {
    for (const endpoint of routes.filter(({ access }) => access === "token")) {
      const path = endpoint.path.replace(/\{(\w+)\}/g, "x");
      const { status, body } = await house.anonymous.call(
        endpoint.method,
        path,
        endpoint.method === "GET" ? {} : { body: [] },
      );
      assert.deepEqual([status, body.error], [401, "UnauthorizedError"], `${endpoint.method} ${path}`);
    }
  });

  it("an id in capitals is the same id from the door on, in the path of every route", () => {
    const id = "0194D1A0-ABCD-7000-8000-00000000ABCD";
    for (const endpoint of routes) {
      const names = [...endpoint.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name ?? "");
      for (const name of names) {
        const parsed = endpoint.params.safeParse(Object.fromEntries(names.map((each) => [each, id])));
        const value = parsed.success ? (parsed.data as Record<string, unknown>)[name] : undefined;
        assert.ok(
          value === undefined || value === id.toLowerCase() || SPELLED_AS_SENT.has(name),
          `${endpoint.id}: ${name} stays ${String(value)}`,
        );
      }
    }
  });

  it("an id of one's own in another case or with spaces around it reaches no further", async () => {
    const project = await THINGS["projectId"]?.(theirWorld as World);
    for (const spelling of [project?.toUpperCase(), ` ${project}`, `${project} `, `${project}%00`]) {
      const { status } = await mine.get(`/api/v1/projects/${encodeURIComponent(spelling ?? "")}`);
      assert.ok([404, 422].includes(status), `${spelling} answered ${status}`);
    }
  });
});
