// node bench/events/run.mjs [broadcast] [latency] [revocation] [--streams 10000] [--listeners 1000] [--rate 100] [--seconds 10] [--rounds 5]
// Event streams against a bare socket server that writes the same bytes to the same number of sockets. Every figure
// is taken with the streams held by another process, so it includes that process reading them.
import { fork, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { startEmbeddedPostgres } from "../../server/dist/src/platform/db/embedded/index.js";

const args = process.argv.slice(2);
const flag = (name, fallback) =>
  args.includes(`--${name}`) ? Number(args[args.indexOf(`--${name}`) + 1]) : fallback;
const STREAMS = flag("streams", 10_000);
const LISTENERS = flag("listeners", 1000);
const RATE = flag("rate", 100);
const SECONDS = flag("seconds", 10);
const ROUNDS = flag("rounds", 5);
const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const now = () => performance.timeOrigin + performance.now();
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const quantile = (values, q) =>
  [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * q))];
const show = (value) => value.toFixed(1);

// However this ends, nobody is left behind.
const children = [];
process.on("exit", () => children.forEach((child) => child.kill()));
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));

function partner(name) {
  const child = fork(here(name));
  children.push(child);
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
    stop: () => child.kill(),
  };
}

async function startNode(databaseUrl, rootKey) {
  const env = {
    PATH: process.env.PATH,
    PORT: "0",
    DATABASE_URL: databaseUrl,
    KEYWARD_ROOT_KEY: rootKey,
    KEYWARD_LOG_LEVEL: "info",
  };
  const limits = {
    KEYWARD_STREAMS_PER_PROJECT: "1000000",
    KEYWARD_STREAMS_PER_IDENTITY: "1000000",
    KEYWARD_RATE_LIMIT_READ: "0",
    KEYWARD_RATE_LIMIT_WRITE: "0",
    KEYWARD_RATE_LIMIT_LOGIN: "0",
  };
  const child = spawn(process.execPath, [here("../../server/dist/src/main.js")], {
    env: { ...env, ...limits },
    stdio: ["ignore", "pipe", "inherit"],
  });
  children.push(child);
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
    stop: () => new Promise((resolve) => (child.once("exit", resolve), child.kill())),
  };
}

const rssKb = (pid) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]);
const cpuMs = (pid) => {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10;
};

const chunkOf = (key) => {
  const frame = `id: 1763179200000\nevent: secret:create\ndata: {"projectType":"secret-manager","data":{"eventType":"secret:create","payload":[{"environment":"dev","secretPath":"/","secretKey":"${key}"}]}}\n\n`;
  return `${Buffer.byteLength(frame).toString(16)}\r\n${frame}\r\n`;
};

async function api(node, token, method, path, body) {
  const answer = await fetch(`${node.url}${path}`, {
    method,
    headers: { "content-type": "application/json", ...(token ? { authorization: `Bearer ${token}` } : {}) },
    body: JSON.stringify(body),
  });
  const said = await answer.json();
  if (!answer.ok) throw new Error(`${method} ${path}: ${JSON.stringify(said)}`);
  return said;
}

const dataDir = await mkdtemp(join(tmpdir(), "keyward-bench-"));
// Not durable: the database stamps a commit before it waits for the disk, and that wait is not ours to measure here.
const postgres = await startEmbeddedPostgres({
  dataDir,
  durable: false,
  log: () => undefined,
  settings: { max_connections: "200", track_commit_timestamp: "on" },
});
const { host, port, user } = postgres.connection;
const database = new pg.Client({ host, port, user, database: "postgres" });
await database.connect();
await database.query("CREATE DATABASE bench");
await database.end();
const url = `postgres://${user}@localhost:${port}/bench?host=${encodeURIComponent(host)}`;
const rootKey = randomBytes(32).toString("base64");
const near = await startNode(url, rootKey);
const far = await startNode(url, rootKey);
const bare = partner("bare.mjs");
const holder = partner("holder.mjs");
const db = new pg.Client({ host, port, user, database: "bench" });
await db.connect();
const booted = await api(near, undefined, "POST", "/api/v1/admin/bootstrap", {
  email: "bench@example.com",
  password: "a long enough password",
  organization: "Bench",
});
const token = booted.identity.credentials.token;
const { project } = await api(near, token, "POST", "/api/v1/projects", { projectName: "Bench" });
const createSecret = (name) =>
  api(near, token, "POST", `/api/v4/secrets/${name}`, {
    projectId: project.id,
    environment: "dev",
    secretPath: "/",
    secretValue: "v",
  });
const barePort = await bare.ask("port");

async function allHeard(key, count) {
  for (;;) {
    const counts = await holder.ask("counts");
    if ((counts[key] ?? 0) >= count) return;
    await pause(20);
  }
}

async function broadcast() {
  const figures = { bare: [], keyward: [], bareSpread: [], keywardSpread: [], bareCpu: [], keywardCpu: [] };
  await holder.ask("open", { count: STREAMS, port: barePort, token, projectId: project.id });
  for (let round = 0; round <= ROUNDS; round += 1) {
    const cpu = cpuMs(bare.pid);
    const at = await bare.ask("write", { chunk: chunkOf(`BARE_${round}`) });
    await allHeard(`BARE_${round}`, STREAMS);
    const times = new Map(await holder.ask("times")).get(`BARE_${round}`);
    if (round === 0) continue; // the first pays for warm-up
    figures.bare.push(Math.max(...times) - at);
    figures.bareSpread.push(Math.max(...times) - Math.min(...times));
    figures.bareCpu.push(cpuMs(bare.pid) - cpu);
  }
  await holder.ask("close");
  await holder.ask("forget");
  for (let n = 0; n < 20; n += 1) await createSecret(`WARM_${n}`);
  await holder.ask("open", { count: 50, port: near.port, token, projectId: project.id });
  await pause(1000);
  const before = rssKb(near.pid);
  const opened = await holder.ask("open", {
    count: STREAMS - 50,
    port: near.port,
    token,
    projectId: project.id,
  });
  await pause(2000);
  const perStream = (rssKb(near.pid) - before) / (STREAMS - 50);
  for (let round = 0; round <= ROUNDS; round += 1) {
    const cpu = cpuMs(near.pid);
    await createSecret(`ALL_${round}`);
    await allHeard(`ALL_${round}`, STREAMS);
    const { rows } = await db.query(
      `SELECT extract(epoch FROM pg_xact_commit_timestamp(xid::text::xid)) * 1000 AS at FROM outbox WHERE name = 'secrets.changed' AND data->'keys'->>0 = $1`,
      [`ALL_${round}`],
    );
    const times = new Map(await holder.ask("times")).get(`ALL_${round}`);
    if (round === 0) continue;
    figures.keyward.push(Math.max(...times) - Number(rows[0].at));
    figures.keywardSpread.push(Math.max(...times) - Math.min(...times));
    figures.keywardCpu.push(cpuMs(near.pid) - cpu);
  }
  await pause(16_000); // a round of pings
  const afterPings = (rssKb(near.pid) - before) / (STREAMS - 50);
  await holder.ask("close");
  await holder.ask("forget");
  const [b, k] = [quantile(figures.bare, 0.5), quantile(figures.keyward, 0.5)];
  console.log(
    `${STREAMS} streams: opened in ${show(opened.milliseconds / 1000)} s; ${show(perStream)} KB each (after ${ROUNDS} broadcasts and a round of pings ${show(afterPings)} KB)`,
  );
  console.log(
    `one event to all: commit → last received ${show(k)} ms; bare: write → last received ${show(b)} ms; ratio ${(k / b).toFixed(2)}`,
  );
  console.log(
    `  first → last received: ${show(quantile(figures.keywardSpread, 0.5))} ms; bare ${show(quantile(figures.bareSpread, 0.5))} ms. CPU ${show(quantile(figures.keywardCpu, 0.5))} ms; bare ${show(quantile(figures.bareCpu, 0.5))} ms`,
  );
}

async function latency(name, node) {
  await holder.ask("open", {
    count: LISTENERS,
    port: node ? node.port : barePort,
    token,
    projectId: project.id,
  });
  const sentAt = new Map();
  const pending = [];
  const startedAt = now();
  const cpuBefore = cpuMs(node ? node.pid : bare.pid);
  for (let n = 0; n < RATE * SECONDS; n += 1) {
    const due = startedAt + (n * 1000) / RATE;
    if (due > now()) await pause(due - now());
    const key = `${name.toUpperCase()}_${n}`;
    pending.push(
      node ? createSecret(key) : bare.ask("write", { chunk: chunkOf(key) }).then((at) => sentAt.set(key, at)),
    );
  }
  await Promise.all(pending);
  await allHeard(`${name.toUpperCase()}_${RATE * SECONDS - 1}`, LISTENERS);
  if (node) {
    const { rows } = await db.query(
      `SELECT data->'keys'->>0 AS key, extract(epoch FROM pg_xact_commit_timestamp(xid::text::xid)) * 1000 AS at FROM outbox WHERE name = 'secrets.changed'`,
    );
    for (const { key, at } of rows) sentAt.set(key, Number(at));
  }
  const waits = (await holder.ask("times")).flatMap(([key, times]) =>
    sentAt.has(key) ? times.map((at) => at - sentAt.get(key)) : [],
  );
  await holder.ask("close");
  await holder.ask("forget");
  const cpu = (cpuMs(node ? node.pid : bare.pid) - cpuBefore) / (now() - startedAt);
  const figures = { p50: quantile(waits, 0.5), p99: quantile(waits, 0.99), count: waits.length };
  console.log(
    `${name}: ${RATE} writes/s to ${LISTENERS} streams: p50 ${show(figures.p50)} ms, p99 ${show(figures.p99)} ms (${figures.count} deliveries; ${(cpu * 100).toFixed(0)} % of a core)`,
  );
  return figures;
}

async function revocation(count) {
  const { identity } = await api(near, token, "POST", `/api/v1/projects/${project.id}/identities`, {
    name: "bench",
    roles: [{ role: "viewer" }],
  });
  await api(near, token, "POST", `/api/v1/auth/token-auth/identities/${identity.id}`, {});
  const tokens = [];
  for (let n = 0; n < count; n += 1)
    tokens.push(
      (await api(near, token, "POST", `/api/v1/auth/token-auth/identities/${identity.id}/tokens`, {}))
        .accessToken,
    );
  await holder.ask("open", { tokens, port: far.port, projectId: project.id });
  const revokedAt = new Map();
  for (const one of tokens) {
    await api(near, undefined, "POST", "/api/v1/auth/token/revoke", { accessToken: one });
    revokedAt.set(one, now());
  }
  await pause(1500);
  const closed = await holder.ask("closed");
  const waits = closed.map(({ token: one, at }) => at - revokedAt.get(one));
  console.log(
    `revoke on one node → closed on the other: ${closed.length} of ${count}, p50 ${show(quantile(waits, 0.5))} ms, p99 ${show(quantile(waits, 0.99))} ms after the answer`,
  );
}

const wanted = ["broadcast", "latency", "revocation"].filter((name) => args.includes(name));
const isWanted = (name) => wanted.length === 0 || wanted.includes(name);

try {
  if (isWanted("broadcast")) await broadcast();
  if (isWanted("latency")) {
    const limit = await latency("bare", undefined);
    const same = await latency("same", near);
    const other = await latency("other", far);
    console.log(
      `above the bare server: same node p50 +${show(same.p50 - limit.p50)} ms, p99 +${show(same.p99 - limit.p99)} ms; other node p99 ${show(other.p99)} ms`,
    );
  }
  if (isWanted("revocation")) await revocation(100);
} finally {
  await db.end();
  holder.stop();
  bare.stop();
  await Promise.all([near.stop(), far.stop()]);
  await postgres.stop();
  await rm(dataDir, { recursive: true, force: true });
}
