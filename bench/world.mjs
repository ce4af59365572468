// What the cases stand on: a Keyward of its own with one organisation, or, with --against, somebody else's server and a
// token for it. Everything is made through the public interface, so that both sides are asked the same.
import { readFileSync, rmSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import pg from "pg";
import { dataFolder, startKeyward, startLimit, usageOf } from "./processes.mjs";

export async function call(base, token, method, path, body) {
  const response = await fetch(base + path, {
    method,
    headers: {
      ...(body ? { "content-type": "application/json" } : {}),
      ...(token ? { authorization: `Bearer ${token}` } : {}),
    },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return { ...JSON.parse(text), text };
}

/** Where the embedded PostgreSQL of a data folder listens: line 4 and 5 of its postmaster.pid. */
export function socketOf(dataDir) {
  const [, , , port, host] = readFileSync(join(dataDir, "postgres", "postmaster.pid"), "utf8").split("\n");
  return {
    host: isAbsolute(host) ? host : join(dataDir, "postgres", host),
    port: Number(port),
    user: "keyward",
    database: "keyward",
    ssl: false,
  };
}

/** A world on a server that is already there: no limit program, no look into its database. */
function foreignWorld({ url, token }) {
  const base = url.replace(/\/+$/, "");
  return {
    keyward: { base, pid: 0, stop: async () => {} },
    token,
    idle: { rssMb: 0 },
    headers: { authorization: `Bearer ${token}` },
    call: (method, path, body) => call(base, token, method, path, body),
    startLimit: async () => undefined,
    close: async () => {},
  };
}

export async function openWorld(against) {
  if (against) return foreignWorld(against);
  const dataDir = dataFolder();
  const keyward = await startKeyward({ KEYWARD_DATA_DIR: dataDir, KEYWARD_LOG_LEVEL: "info" });
  const idle = usageOf(keyward.pid);
  const booted = await call(keyward.base, undefined, "POST", "/api/v1/admin/bootstrap", {
    email: "bench@example.com",
    password: "bench bench bench",
    organization: "Bench",
  });
  const token = booted.identity.credentials.token;
  const database = new pg.Client(socketOf(dataDir));
  await database.connect();
  let limit;
  return {
    keyward,
    token,
    idle,
    database,
    orgId: booted.organization.id,
    identityId: booted.identity.id,
    headers: { authorization: `Bearer ${token}` },
    call: (method, path, body) => call(keyward.base, token, method, path, body),
    async startLimit(context) {
      const whole = { connection: socketOf(dataDir), orgId: booted.organization.id, ...context };
      limit = await startLimit("limits.mjs", { LIMIT_CONTEXT: JSON.stringify(whole) });
      return limit;
    },
    async close() {
      await limit?.stop();
      await database.end();
      await keyward.stop();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}
