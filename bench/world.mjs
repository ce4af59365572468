// What the cases stand on: a Keyward of its own with one organisation, or, with --against, somebody else's server and a
// token for it. Everything is made through the public interface, so that both sides are asked the same.
import { readFileSync, rmSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import pg from "pg";
import { Refused } from "./arguments.mjs";
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
  if (!response.ok)
    throw Object.assign(new Error(`${method} ${path}: ${response.status} ${text}`), {
      status: response.status,
    });
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

/** Worlds that are open: however a run ends, they are closed, and nothing is left on somebody else's server. */
const opened = new Set();
export async function closeWorlds({ isForeignOnly = false } = {}) {
  for (const world of [...opened].reverse()) if (world.isForeign || !isForeignOnly) await world.close();
}
function remembered(world) {
  const kept = {
    ...world,
    async close() {
      if (opened.delete(kept)) await world.close();
    },
  };
  opened.add(kept);
  return kept;
}

const HINTS = {
  401: "it does not take the token: is it one of that server, and not over?",
  403: "the token's owner needs the right to create projects and all rights in them",
  404: "is this a server of the same interface?",
  429: "it limits requests: measure without limits (Keyward: KEYWARD_RATE_LIMIT_READ, _WRITE and _LOGIN = 0)",
};
export const hintFor = (status) => HINTS[status] ?? "the cases need this request to be answered";

/** A world on a server that is already there: no limit program, no look into its database. */
function foreignWorld({ url: base, token }) {
  const projects = [];
  const ask = async (method, path, body) => {
    const answer = await call(base, token, method, path, body).catch((error) => {
      const why = error.status ? hintFor(error.status) : (error.cause?.message ?? "it cannot be reached");
      throw new Refused(`${base}: ${why}\n${error.message}`);
    });
    if (method === "POST" && path === "/api/v1/projects") projects.push(answer.project.id);
    return answer;
  };
  return remembered({
    isForeign: true,
    keyward: { base, pid: 0, stop: async () => {} },
    token,
    idle: { rssMb: 0 },
    headers: { authorization: `Bearer ${token}` },
    call: ask,
    startLimit: async () => undefined,
    async close() {
      for (const id of projects)
        await ask("DELETE", `/api/v1/projects/${id}`).catch((error) =>
          console.error(`The project ${id} is left behind. ${error.message}`),
        );
    },
  });
}

export async function openWorld(against, env = {}) {
  if (against) return foreignWorld(against);
  const dataDir = dataFolder();
  const keyward = await startKeyward({ KEYWARD_DATA_DIR: dataDir, KEYWARD_LOG_LEVEL: "info", ...env });
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
  return remembered({
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
  });
}
