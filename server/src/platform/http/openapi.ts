/** Prints the contract as OpenAPI 3.1; the result is served at /api/docs/json and committed as docs/openapi.json. */
import { z } from "zod";
import { Pace } from "../pace.ts";
import type { Endpoint } from "./endpoint.ts";
import { envelopeSchema } from "./envelope.ts";

type Json = Record<string, unknown>;

const schemaOf = (schema: z.ZodType, io: "input" | "output"): Json => {
  const { $schema: _drop, ...json } = z.toJSONSchema(schema, {
    io,
    unrepresentable: "any",
    override: ({ zodSchema, jsonSchema }) => {
      if (zodSchema._zod.def.type === "date")
        Object.assign(jsonSchema, { type: "string", format: "date-time" });
    },
  });
  return json as Json;
};

function parametersOf(schema: z.ZodType, place: "path" | "query"): Json[] {
  const json = schemaOf(schema, "input");
  const required = new Set((json["required"] as string[] | undefined) ?? []);
  return Object.entries((json["properties"] as Record<string, Json> | undefined) ?? {}).map(
    ([name, described]) => ({
      name,
      in: place,
      required: place === "path" || required.has(name),
      schema: described,
    }),
  );
}

const problem = (description: string): Json => ({
  description,
  content: { "application/json": { schema: { $ref: "#/components/schemas/Problem" } } },
});

function operationOf(endpoint: Endpoint): Json {
  const body = schemaOf(endpoint.body, "input");
  const hasBody =
    Object.keys((body["properties"] as Json | undefined) ?? {}).length > 0 ||
    body["anyOf"] !== undefined ||
    body["oneOf"] !== undefined;
  const described =
    endpoint.example.body === undefined ? { schema: body } : { schema: body, example: endpoint.example.body };
  return {
    operationId: endpoint.id,
    tags: [endpoint.room],
    summary: endpoint.summary,
    ...(endpoint.description === undefined ? {} : { description: endpoint.description }),
    ...(endpoint.access === "public" ? { security: [] } : {}),
    parameters: [...parametersOf(endpoint.params, "path"), ...parametersOf(endpoint.query, "query")],
    ...(hasBody ? { requestBody: { content: { "application/json": described } } } : {}),
    responses: {
      "200": {
        description: "Done.",
        content: Object.fromEntries(
          [endpoint.replyType].flat().map((type) => [type, { schema: schemaOf(endpoint.reply, "output") }]),
        ),
      },
      "400": problem("Malformed, or against a rule of the domain."),
      // A public address that takes something is how a caller comes to be known, and may be refused.
      ...(endpoint.access === "public" && endpoint.method === "GET"
        ? {}
        : { "401": problem("No valid token."), "403": problem("The caller lacks a right.") }),
      "404": problem("Unknown, or not yours."),
      ...(endpoint.method === "GET"
        ? {}
        : {
            "409": problem("Against what is there: a name that is taken, a thing in use."),
            "413": problem("The body is too large."),
            "415": problem("The body is not of a type that is read here."),
          }),
      "422": problem("A field is invalid; `message` lists all issues."),
      "429": problem("Too many requests; see retry-after."),
      "500": problem("A bug on our side."),
      "503": problem("The database cannot be reached."),
    },
  };
}

/** One endpoint after the other: all of them together are a tenth of a second of work. */
function* pathsOf(endpoints: readonly Endpoint[]): Generator<undefined, Record<string, Json>> {
  const paths: Record<string, Json> = {};
  for (const endpoint of endpoints) {
    for (const [index, path] of [endpoint.path, ...endpoint.aliases].entries()) {
      const operation = operationOf(endpoint);
      if (index > 0)
        Object.assign(operation, { operationId: `${endpoint.id}Alias${index}`, deprecated: true });
      paths[path] = { ...paths[path], [endpoint.method.toLowerCase()]: operation };
      yield undefined;
    }
  }
  return paths;
}

const documentOf = (paths: Record<string, Json>, publicUrl: string, version: string): Json => ({
  openapi: "3.1.0",
  info: {
    title: "Keyward",
    version,
    description: "Secrets, certificates, machine identities, alerts and real-time events.",
  },
  servers: [{ url: publicUrl }],
  security: [{ bearer: [] }],
  paths,
  components: {
    securitySchemes: { bearer: { type: "http", scheme: "bearer" } },
    schemas: { Problem: schemaOf(envelopeSchema, "output") },
  },
});

export function toOpenApi(endpoints: readonly Endpoint[], publicUrl: string, version: string): Json {
  const reading = pathsOf(endpoints);
  let step = reading.next();
  while (!step.done) step = reading.next();
  return documentOf(step.value, publicUrl, version);
}

/** The same as text, for a server that has others to serve meanwhile. */
export async function printOpenApi(
  endpoints: readonly Endpoint[],
  publicUrl: string,
  version: string,
): Promise<string> {
  const pace = new Pace();
  const reading = pathsOf(endpoints);
  let step = reading.next();
  while (!step.done) {
    if (pace.isDue()) await pace.rest();
    step = reading.next();
  }
  const outline = JSON.stringify(documentOf({ [PATHS]: {} }, publicUrl, version));
  const parts: string[] = [];
  for (const [path, operations] of Object.entries(step.value)) {
    parts.push(`${JSON.stringify(path)}:${JSON.stringify(operations)}`);
    if (pace.isDue()) await pace.rest();
  }
  return outline.replace(`"${PATHS}":{}`, () => parts.join(","));
}

/** Where the paths will be in the text. */
const PATHS = "/";
