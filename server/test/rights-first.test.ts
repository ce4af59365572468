// A process of its own: it starts others and runs long.
/**
 * H1, H2, generated from the contract: somebody without rights sends every route that takes a body its largest legal
 * one. The answer is that they may not, never what is wrong with the content; and it costs next to nothing, in a
 * server of its own whose processor time is read from the kernel. A small one tells them nothing either: the answer is
 * the same whether what it names exists or not.
 */
import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { request as httpRequest } from "node:http";
import { after, before, describe, it } from "node:test";
import * as contract from "../src/contract.ts";
import type { Endpoint } from "../src/platform/http/index.ts";
import { aProject, credentials, login, unique } from "./builders.ts";
import { exampleOf, wireOf } from "./fuzz/examples.ts";
import { inputSchema, type Json } from "./fuzz/requests.ts";
import { clientOf, OWNER, type Tenant } from "./harness.ts";
import { createTestDatabase, stopOwnPostgres, type TestDatabase } from "./postgres.ts";
import { startServer, type ServerProcess } from "./process.ts";
import { THINGS, World } from "./things.ts";
import { sized } from "./full-size.ts";

/** Nobody needs a right for these: what they do concerns the caller alone. */
const ONESELF: Readonly<Record<string, string>> = {
  selectOrganization: "one's own session; for people",
  checkAuth: "says only that the token is good",
  logout: "one's own session; for people",
  changePassword: "one's own password; for people",
};

const USUAL_BODY = 256 * 1024;
const isNamedByAddress = ({ path, id }: Endpoint): boolean =>
  path.includes("{projectId}") || /^(create|update|delete)Organization|Licence$|^createProject$/.test(id);
/** Milliseconds of processor time per request. */
const BAR_AT_HEAD = 5;
const BAR_AFTER_BODY = 20;

const isEndpoint = (value: unknown): value is Endpoint =>
  typeof value === "object" && value !== null && "path" in value && "reply" in value;
const endpoints = [
  ...new Map(
    Object.values(contract)
      .flatMap((room) => Object.values(room))
      .filter(isEndpoint)
      .map((endpoint) => [endpoint.id, endpoint]),
  ).values(),
].filter(({ access, method, id }) => access === "token" && method !== "GET" && !(id in ONESELF));

let database: TestDatabase;
let server: ServerProcess;
let world: World;
let owner: Tenant;
/** Member of every project with a role that allows nothing, and member of none. */
const nobodies: { name: string; token: string }[] = [];

before(async () => {
  database = await createTestDatabase();
  const { host, port, user } = database.server;
  server = await startServer({
    DATABASE_URL: `postgres://${user}@localhost:${port}/${database.connection.database}?host=${encodeURIComponent(host)}&sslmode=disable`,
    KEYWARD_ROOT_KEY: randomBytes(32).toString("base64"),
    KEYWARD_RATE_LIMIT_READ: "0",
    KEYWARD_RATE_LIMIT_WRITE: "0",
    KEYWARD_RATE_LIMIT_LOGIN: "0",
    KEYWARD_LOG_LEVEL: "info",
  });
  const booted = await clientOf(server.base).post("/api/v1/admin/bootstrap", { ...OWNER, organization: "A" });
  const token = booted.body.identity.credentials.token as string;
  const { id: orgId, slug: orgSlug } = booted.body.organization as { id: string; slug: string };
  owner = { ...clientOf(server.base, token), token, orgId, orgSlug, identityId: booted.body.identity.id };
  world = new World(owner, new Map(endpoints.map(({ id, example }) => [id, example.body])));
  const places = [
    await THINGS["projectId"]?.(world),
    (await aProject(owner, { type: "cert-manager" })).id,
    await THINGS["certificates.projectId"]?.(world),
  ];
  for (const name of ["a member without rights", "no member"]) {
    const { identity } = (await owner.post("/api/v1/identities", { name: unique("nobody") })).body;
    for (const projectId of name === "no member" ? [] : new Set(places.filter((id) => id !== undefined)))
      await owner.post(`/api/v1/projects/${projectId}/memberships/identities/${identity.id}`, {
        role: "no-access",
      });
    const { clientId, clientSecret } = await credentials(owner, identity.id as string);
    nobodies.push({ name, token: await login(server.base, clientId, clientSecret) });
  }
});
after(async () => {
  await server.stop();
  await database.drop();
  await stopOwnPostgres();
});

/** Nanoseconds that the server's threads have run, by the kernel's own count. */
const schedstats = (): string => `/proc/${server.child.pid}/task`;
const canMeasure = (): boolean => existsSync(`${schedstats()}/${server.child.pid}/schedstat`);
const processorTime = (): number =>
  readdirSync(schedstats())
    .map((task) => Number(readFileSync(`${schedstats()}/${task}/schedstat`, "utf8").split(" ")[0]))
    .reduce((sum, one) => sum + one, 0) / 1e6;

/** The example, filled up to the last byte: in the field that is meant for it, or in one that nobody reads. */
async function largest(endpoint: Endpoint): Promise<{ method: string; path: string; body: Buffer }> {
  const draft = await exampleOf(endpoint, world);
  const wire = await wireOf(endpoint, draft, { mine: world, theirs: world, seen: new Map() }, undefined);
  const body = JSON.parse(String(wire.body ?? "{}")) as Record<string, unknown>;
  const { properties = {} } = inputSchema(endpoint.body) as { properties?: Record<string, Json> };
  const roomy = Object.entries(properties).find(
    ([, schema]) => Number(schema["maxLength"] ?? 0) >= USUAL_BODY && schema["type"] === "string",
  )?.[0];
  const limit = endpoint.maxBodyBytes ?? USUAL_BODY;
  const filled = (letters: number) =>
    JSON.stringify({ ...body, [roomy ?? "padding"]: "QUJD".repeat(Math.floor(letters / 4)) });
  return { ...wire, body: Buffer.from(filled(limit - Buffer.byteLength(filled(0)))) };
}

/** Says what it is about and otherwise nothing that anybody could use. */
function hopeless(endpoint: Endpoint, body: Buffer): Buffer {
  const fields = JSON.parse(body.toString()) as Record<string, unknown>;
  const { properties = {} } = inputSchema(endpoint.body) as { properties?: Record<string, Json> };
  const wrong = Object.keys(properties).map((name) => {
    const isName = /(Id|Slug)$/.test(name) && typeof fields[name] === "string";
    return [name, isName ? fields[name] : { never: ["this"] }];
  });
  return Buffer.from(JSON.stringify(Object.fromEntries(wrong)));
}

const PROJECT_FIELDS = ["workspaceId", "projectId", "workspaceSlug", "projectSlug"];
const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;
/** The same request about things that do not exist, in a project that does. */
function aboutNothing(key: string, value: unknown): unknown {
  if (Array.isArray(value)) return value.map((item) => aboutNothing(key, item));
  if (typeof value === "object" && value !== null)
    return Object.fromEntries(
      Object.entries(value).map(([name, part]) => [
        name,
        PROJECT_FIELDS.includes(name) ? part : aboutNothing(name, part),
      ]),
    );
  if (key === "mode") return "ignore";
  if (typeof value !== "string") return value;
  if (/path$/i.test(key)) return "/nobody/made/this";
  return /^secret(Key|Name)$/.test(key) ? "NOBODY_MADE_THIS" : value.replace(UUID, () => randomUUID());
}

/** As the example says, and the same about nothing that exists; of routes whose project the body names. */
async function smallOf(endpoint: Endpoint): Promise<{ method: string; path: string; body: Buffer }[]> {
  const { properties = {} } = inputSchema(endpoint.body) as { properties?: Record<string, Json> };
  if (!PROJECT_FIELDS.some((name) => name in properties)) return [];
  const draft = await exampleOf(endpoint, world);
  const wire = await wireOf(endpoint, draft, { mine: world, theirs: world, seen: new Map() }, undefined);
  const body = JSON.parse(String(wire.body ?? "{}")) as Record<string, unknown>;
  const path = wire.path.replace(UUID, () => randomUUID());
  return [
    { ...wire, body: Buffer.from(JSON.stringify(body)) },
    { ...wire, body: Buffer.from(JSON.stringify({ ...body, mode: "ignore" })) },
    { ...wire, path, body: Buffer.from(JSON.stringify(aboutNothing("", { ...body, mode: "ignore" }))) },
  ];
}

interface Heard {
  readonly status: number;
  readonly text: string;
}

/** As a client that sends everything and listens meanwhile. */
const send = (token: string, { method, path, body }: { method: string; path: string; body: Buffer }) =>
  new Promise<Heard>((resolve, reject) => {
    const headers = {
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
      "content-length": body.length,
    };
    const sending = httpRequest(`${server.base}${path}`, { method, headers, agent: false }, (answer) => {
      const chunks: Buffer[] = [];
      answer.on("data", (chunk: Buffer) => chunks.push(chunk));
      answer.on("error", reject);
      answer.on("end", () => {
        sending.destroy();
        resolve({ status: answer.statusCode ?? 0, text: Buffer.concat(chunks).toString() });
      });
    });
    sending.on("error", reject);
    sending.end(body);
  });

describe("H1, H2 rights before work", () => {
  for (const endpoint of endpoints) {
    it(`${endpoint.id}: ${endpoint.method} ${endpoint.path}`, async (t) => {
      const wire = await largest(endpoint);
      for (const { name, token } of nobodies) {
        const heard = await send(token, wire);
        assert.ok(
          [403, 404].includes(heard.status),
          `${name} was answered ${heard.status}: ${heard.text.slice(0, 300)}`,
        );
        const other = await send(token, { ...wire, body: hopeless(endpoint, wire.body) });
        assert.ok(
          [403, 404].includes(other.status),
          `${name} was told what is wrong: ${other.status} ${other.text.slice(0, 300)}`,
        );
        const answers = new Set<string>();
        for (const small of await smallOf(endpoint)) {
          const { status, text } = await send(token, small);
          answers.add(`${status} ${(JSON.parse(text) as { message: string }).message}`);
        }
        assert.ok(answers.size <= 1, `${name} can tell what exists: ${[...answers].join(" or ")}`);
        assert.match([...answers].join(""), /^(|40[34] .*)$/);
        if (!canMeasure()) continue;
        const bar = isNamedByAddress(endpoint) ? BAR_AT_HEAD : BAR_AFTER_BODY;
        // The least of several rounds: what a busy machine adds is not the request's.
        let cost = Number.POSITIVE_INFINITY;
        const times = sized(1, 2);
        for (let round = 0; round < sized(1, 3) || (cost >= bar && round < 40); round += 1) {
          const start = processorTime();
          for (let n = 0; n < times; n += 1) await send(token, wire);
          cost = Math.min(cost, (processorTime() - start) / times);
        }
        t.diagnostic(`${name}: ${cost.toFixed(2)} ms`);
        assert.ok(cost < bar, `${name} costs ${cost.toFixed(1)} ms of processor time, and may ${bar}`);
      }
    });
  }
});
