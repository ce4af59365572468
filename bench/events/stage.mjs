// What the event benches are played on: one PostgreSQL, two nodes, a bare socket server as the limit, and a process
// that holds the streams. Everything shares one machine, so the bare server is measured while the same writes go to
// the same nodes and database: what is left between the two is what Keyward itself adds.
import { fork, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { startOwnPostgres } from "../../server/dist/src/platform/db/embedded.js";

const here = (name) => fileURLToPath(new URL(name, import.meta.url));

// However this ends, nobody is left behind.
const children = new Set();
process.on("exit", () => children.forEach((child) => child.kill()));

function partner(name) {
  const child = fork(here(name));
  children.add(child);
  const waiting = new Map();
  let ids = 0;
  child.on("message", ({ id, value, failure }) => {
    const { resolve, reject } = waiting.get(id) ?? {};
    waiting.delete(id);
    if (failure) reject?.(new Error(failure));
    else resolve?.(value);
  });
  return {
    pid: child.pid,
    ask: (command, input) =>
      new Promise((resolve, reject) => {
        waiting.set((ids += 1), { resolve, reject });
        child.send({ id: ids, name: command, input });
      }),
    stop() {
      children.delete(child);
      child.kill();
    },
  };
}

const BUILD = here("../../server/dist");

async function startNode(databaseUrl, rootKey, { build = BUILD, nodeFlags = [] } = {}) {
  const env = {
    PATH: process.env.PATH,
    PORT: "0",
    DATABASE_URL: databaseUrl,
    KEYWARD_ROOT_KEY: rootKey,
    KEYWARD_STREAMS_PER_PROJECT: "1000000",
    KEYWARD_STREAMS_PER_IDENTITY: "1000000",
    KEYWARD_RATE_LIMIT_READ: "0",
    KEYWARD_RATE_LIMIT_WRITE: "0",
    KEYWARD_RATE_LIMIT_LOGIN: "0",
    KEYWARD_DRAIN_SECONDS: "0",
  };
  const child = spawn(process.execPath, [...nodeFlags, join(build, "src/main.js")], {
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  children.add(child);
  const url = await new Promise((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`a node ended with ${code}`)));
    createInterface({ input: child.stdout }).on("line", (line) => {
      const said = JSON.parse(line);
      if (said.msg === "Keyward is ready") resolve(said.url);
    });
  });
  return {
    pid: child.pid,
    url,
    port: Number(new URL(url).port),
    stop: () =>
      new Promise((resolve) => {
        children.delete(child);
        child.once("exit", resolve);
        child.kill();
      }),
  };
}

const agent = new Agent({ keepAlive: true, maxSockets: 64 });

export function api(node, token, method, path, body) {
  const text = JSON.stringify(body);
  const headers = {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(text),
    ...(token ? { authorization: `Bearer ${token}` } : {}),
  };
  return new Promise((resolve, reject) => {
    const call = request(`${node.url}${path}`, { method, headers, agent }, (answer) => {
      const parts = [];
      answer.on("data", (part) => parts.push(part));
      answer.on("end", () => {
        const said = Buffer.concat(parts).toString();
        if (answer.statusCode === 200) resolve(JSON.parse(said));
        else reject(new Error(`${method} ${path}: ${said}`));
      });
    });
    call.on("error", reject);
    call.end(text);
  });
}

/** The bytes that Keyward writes for such an event, HTTP chunk framing included. */
export function chunkOf(key) {
  const frame = `id: 1763179200000\nevent: secret:create\ndata: {"projectType":"secret-manager","data":{"eventType":"secret:create","payload":[{"environment":"dev","secretPath":"/","secretKey":"${key}"}]}}\n\n`;
  return `${Buffer.byteLength(frame).toString(16)}\r\n${frame}\r\n`;
}

const TICK_MS = 10;
const statOf = (pid) => {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
};
export const cpuMs = (pid) => {
  const fields = statOf(pid);
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
};
export const rssKb = (pid) =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0);

/** CPU time of this process and all that descend from it, and of the whole machine. */
export function machineCpu() {
  const parents = new Map();
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      parents.set(Number(pid), Number(statOf(pid)[1]));
    } catch {
      // It ended while we looked.
    }
  }
  let own = 0;
  for (const pid of parents.keys()) {
    let ancestor = pid;
    while (ancestor > 1 && ancestor !== process.pid) ancestor = parents.get(ancestor) ?? 0;
    try {
      if (ancestor === process.pid) own += cpuMs(pid);
    } catch {
      // The same.
    }
  }
  const [user, nice, system, , , irq, softirq, steal] = readFileSync("/proc/stat", "utf8")
    .split("\n", 1)[0]
    .trim()
    .split(/\s+/)
    .slice(1)
    .map(Number);
  return { own, all: (user + nice + system + irq + softirq + steal) * TICK_MS };
}

async function openDatabase() {
  const dataDir = await mkdtemp(join(tmpdir(), "keyward-bench-"));
  // Not durable: the database stamps a commit before it waits for the disk, and that wait is not ours to measure here.
  const postgres = await startOwnPostgres({
    dataDir,
    durable: false,
    log: () => undefined,
    settings: { max_connections: "200", track_commit_timestamp: "on" },
  });
  const { host, port, user } = postgres.connection;
  const admin = new pg.Client({ host, port, user, database: "postgres" });
  await admin.connect();
  await admin.query("CREATE DATABASE bench");
  await admin.end();
  const client = new pg.Client({ host, port, user, database: "bench" });
  await client.connect();
  return {
    client,
    url: `postgres://${user}@localhost:${port}/bench?host=${encodeURIComponent(host)}`,
    async close() {
      await client.end();
      await postgres.stop();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

/** `build` is another build of the server than this checkout's. */
export async function openStage({ build, nodeFlags } = {}) {
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));
  const database = await openDatabase();
  const rootKey = randomBytes(32).toString("base64");
  const near = await startNode(database.url, rootKey, { build, nodeFlags });
  const far = await startNode(database.url, rootKey, { build, nodeFlags });
  const bare = partner("bare.mjs");
  const holder = partner("holder.mjs");
  const booted = await api(near, undefined, "POST", "/api/v1/admin/bootstrap", {
    email: "bench@example.com",
    password: "a long enough password",
    organization: "Bench",
  });
  const token = booted.identity.credentials.token;
  const { project } = await api(near, token, "POST", "/api/v1/projects", { projectName: "Bench" });
  let runs = 0;
  const newRun = () => {
    const run = (runs += 1);
    return (number) => `K${number}_${run}`;
  };
  const write = (key) =>
    api(near, token, "POST", `/api/v4/secrets/${key}`, {
      projectId: project.id,
      environment: "dev",
      secretPath: "/",
      secretValue: "v",
    });
  return {
    near,
    far,
    bare: { ...bare, port: await bare.ask("port") },
    holder,
    token,
    projectId: project.id,
    /** Names of one run's events: the holder reads the number, the rest keeps runs apart. */
    newRun,
    open: (server, count) => holder.ask("open", { count, port: server.port, token, projectId: project.id }),
    write,
    /** The engine compiles for thousands of requests before it is as fast as it stays; a server lives longer than that. */
    async warmUp(writes) {
      const nameOf = newRun();
      let next = 0;
      const writer = async () => {
        while (next < writes) await write(nameOf((next += 1)));
      };
      await Promise.all(Array.from({ length: 8 }, writer));
    },
    /** When the database committed the write of each of these keys. */
    async committedAt(keys) {
      const { rows } = await database.client.query(
        `SELECT data->'keys'->>0 AS key, extract(epoch FROM pg_xact_commit_timestamp(xid::text::xid)) * 1000 AS at
         FROM outbox WHERE name = 'secrets.changed' AND data->'keys'->>0 = ANY ($1)`,
        [keys],
      );
      const found = new Map(rows.map(({ key, at }) => [key, Number(at)]));
      return keys.map((key) => found.get(key));
    },
    async close() {
      holder.stop();
      bare.stop();
      await Promise.all([near.stop(), far.stop()]);
      await database.close();
      agent.destroy();
    },
  };
}
