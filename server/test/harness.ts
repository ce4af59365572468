/**
 * A whole house for a test: real PostgreSQL, real HTTP on a loopback port, a clock that can be stepped. Nothing of
 * ours is replaced. `openTestHouse()` per file (in `before`), `house.close()` in `after`.
 */
import { randomBytes } from "node:crypto";
import { steppedClock, type SteppedClock } from "../src/platform/clock.ts";
import { readConfig } from "../src/platform/config.ts";
import { weakenPasswordsForTests } from "../src/platform/crypto/passwords.ts";
import { createLog, silentLog } from "../src/platform/log.ts";
import { redact, type Redacted } from "../src/platform/redacted.ts";
import { openHouse, type House } from "../src/house.ts";
import { createTestDatabase, stopOwnPostgres, type TestDatabase } from "./postgres.ts";

export interface Answer {
  readonly status: number;
  // Tests look into answers of many shapes; assertions are what types them.
  // eslint-disable-next-line ts/no-explicit-any
  readonly body: any;
  readonly headers: Headers;
}

export interface Request {
  readonly token?: string | undefined;
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
  readonly rawBody?: string;
}

export interface Client {
  get(path: string, request?: Request): Promise<Answer>;
  post(path: string, body?: unknown, request?: Request): Promise<Answer>;
  put(path: string, body?: unknown, request?: Request): Promise<Answer>;
  patch(path: string, body?: unknown, request?: Request): Promise<Answer>;
  delete(path: string, body?: unknown, request?: Request): Promise<Answer>;
  call(method: string, path: string, request?: Request): Promise<Answer>;
}

export function clientOf(base: string, token?: string): Client {
  const call = async (method: string, path: string, request: Request = {}): Promise<Answer> => {
    const bearer = "token" in request ? request.token : token;
    const body = request.rawBody ?? (request.body === undefined ? undefined : JSON.stringify(request.body));
    const response = await fetch(`${base}${path}`, {
      method,
      headers: {
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(bearer === undefined ? {} : { authorization: `Bearer ${bearer}` }),
        ...request.headers,
      },
      ...(body === undefined ? {} : { body }),
    });
    const text = await response.text();
    const isJson = response.headers.get("content-type")?.startsWith("application/json") ?? false;
    return {
      status: response.status,
      headers: response.headers,
      body: isJson && text !== "" ? JSON.parse(text) : text,
    };
  };
  return {
    call,
    get: (path, request) => call("GET", path, request),
    post: (path, body, request) => call("POST", path, { ...request, body }),
    put: (path, body, request) => call("PUT", path, { ...request, body }),
    patch: (path, body, request) => call("PATCH", path, { ...request, body }),
    delete: (path, body, request) => call("DELETE", path, { ...request, body }),
  };
}

/** An organisation with an admin identity, and a client that speaks as it. */
export interface Tenant extends Client {
  readonly token: string;
  readonly orgId: string;
  readonly orgSlug: string;
  readonly identityId: string;
}

export interface TestHouse {
  readonly base: string;
  readonly house: House;
  readonly clock: SteppedClock;
  readonly database: TestDatabase;
  readonly anonymous: Client;
  /** The first organisation: its identity is instance admin and organisation admin. */
  readonly owner: Tenant;
  readonly ownerUser: { readonly id: string; readonly email: string; readonly password: string };
  as(token: string): Client;
  /** A further organisation with an admin identity of its own. */
  newTenant(name?: string): Promise<Tenant>;
  /** A second node on the same database. */
  openNode(): Promise<{ readonly base: string; readonly house: House; close(): Promise<void> }>;
  close(): Promise<void>;
}

export interface TestHouseOptions {
  readonly env?: Record<string, string>;
  readonly log?: boolean;
  readonly start?: Date;
}

export const OWNER = { email: "owner@example.com", password: "a long enough password" };

async function openNode(
  connection: TestDatabase["connection"],
  rootKey: Redacted<Buffer>,
  clock: SteppedClock,
  options: TestHouseOptions,
) {
  const config = readConfig({
    PORT: "0",
    KEYWARD_RATE_LIMIT_READ: "0",
    KEYWARD_RATE_LIMIT_WRITE: "0",
    KEYWARD_RATE_LIMIT_LOGIN: "0",
    DATABASE_URL: "postgres://unused",
    KEYWARD_ROOT_KEY: rootKey.open().toString("base64"),
    ...options.env,
  });
  const house = await openHouse({
    config,
    clock,
    log: options.log ? createLog("debug") : silentLog,
    connection,
    rootKey,
  });
  const port = await house.listen();
  return { house, base: `http://127.0.0.1:${port}`, close: () => house.close() };
}

export async function openTestHouse(options: TestHouseOptions = {}): Promise<TestHouse> {
  weakenPasswordsForTests();
  const database = await createTestDatabase();
  const rootKey = redact(randomBytes(32));
  const clock = steppedClock(options.start);
  const node = await openNode(database.connection, rootKey, clock, options);
  const extra: { close(): Promise<void> }[] = [];
  const anonymous = clientOf(node.base);
  const booted = await anonymous.post("/api/v1/admin/bootstrap", { ...OWNER, organization: "Owner" });
  if (booted.status !== 200) throw new Error(`bootstrap failed: ${JSON.stringify(booted.body)}`);
  const asTenant = (body: Answer["body"]): Tenant => {
    const token = body.identity.credentials.token as string;
    return {
      ...clientOf(node.base, token),
      token,
      orgId: body.organization.id,
      orgSlug: body.organization.slug,
      identityId: body.identity.id,
    };
  };
  const owner = asTenant(booted.body);
  let tenants = 0;
  return {
    base: node.base,
    house: node.house,
    clock,
    database,
    anonymous,
    owner,
    ownerUser: { id: booted.body.user.id, ...OWNER },
    as: (token) => clientOf(node.base, token),
    async newTenant(name = `Tenant ${(tenants += 1)}`) {
      const made = await owner.post("/api/v1/admin/organizations", { name });
      if (made.status !== 200)
        throw new Error(`creating an organisation failed: ${JSON.stringify(made.body)}`);
      return asTenant(made.body);
    },
    async openNode() {
      const second = await openNode(database.connection, rootKey, clock, options);
      extra.push(second);
      return second;
    },
    async close() {
      for (const second of extra) await second.close();
      await node.close();
      await database.drop();
      await stopOwnPostgres();
    },
  };
}
