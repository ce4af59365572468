/**
 * E-11: streams that stay open for longer than any default time-out: directly, and through nginx, HAProxy and Caddy,
 * each with its own defaults and with what docs/events.md recommends. It takes 65 minutes, so it is not part of
 * `npm test`: `npm run test:soak`. KEYWARD_SOAK_MINUTES shortens it; a proxy that is not installed is left out.
 *
 * The server is a process of its own and runs from a copy of the build, as does this program: whoever builds during
 * the hour does not disturb it. Secrets are written through the public API with pauses of different lengths, some
 * longer than the proxies' idle time-outs (only pings cross them) and some bursts. At the end every stream must have
 * told of every write, once, in order.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { cpSync, readFileSync, rmSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { aProject } from "../builders.ts";
import { openStream, until, type StreamReader } from "../event-streams.ts";
import { clientOf, OWNER, type Client } from "../harness.ts";
import { createTestDatabase, stopOwnPostgres } from "../postgres.ts";
import { startServer } from "../process.ts";
import { startProxies, type Proxies, type Proxy } from "./proxies.ts";

const MINUTES = Number(process.env["KEYWARD_SOAK_MINUTES"] ?? 65);
/** Seconds of silence before each round, and how many secrets the round writes one after the other. */
const ROUNDS = [
  { silence: 5, writes: 1 },
  { silence: 20, writes: 1 },
  { silence: 100, writes: 3 },
  { silence: 10, writes: 50 },
  { silence: 65, writes: 1 },
] as const;
/** docs/events.md: nothing for this long means that the connection is dead. */
const DEAD_SECONDS = 45;
const PING_SECONDS = 15;

const say = (line: string): void =>
  void process.stdout.write(`${new Date().toISOString().slice(11, 19)} ${line}\n`);

const here = fileURLToPath(import.meta.url);
const build = dirname(dirname(dirname(here)));

/** Beside the build, so that migrations and packages are found where the code looks for them. */
async function runFromACopy(): Promise<number> {
  const copy = join(dirname(build), `data-soak-${process.pid}`);
  cpSync(build, copy, { recursive: true, filter: (source) => !/\.(d\.ts|tsbuildinfo)$/.test(source) });
  try {
    const child = spawn(process.execPath, [join(copy, "test/soak", basename(here))], {
      stdio: "inherit",
      env: { ...process.env, KEYWARD_SOAK_COPY: copy },
    });
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => child.kill(signal));
    const [code] = (await once(child, "exit")) as [number | null];
    return code ?? 1;
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

interface Held {
  readonly name: string;
  readonly reader: StreamReader;
  readonly openedAt: number;
  lastHeardAt: number;
  heard: number;
  longestSilence: number;
}

async function hold(proxy: Proxy, token: string, projectId: string): Promise<Held> {
  const startedAt = performance.now();
  const reader = await openStream(proxy.base, token, { projectId });
  assert.equal(reader.status, 200, `${proxy.name}: ${reader.raw}`);
  const openedAt = performance.now();
  say(`${proxy.name}: the head arrived after ${Math.round(openedAt - startedAt)} ms`);
  return { name: proxy.name, reader, openedAt, lastHeardAt: openedAt, heard: 0, longestSilence: 0 };
}

function watch(held: readonly Held[]): void {
  const now = performance.now();
  for (const stream of held) {
    const silence = (now - stream.lastHeardAt) / 1000;
    stream.longestSilence = Math.max(stream.longestSilence, silence);
    if (stream.reader.frames.length > stream.heard) {
      stream.heard = stream.reader.frames.length;
      stream.lastHeardAt = now;
    }
  }
}

const residentKilobytes = (pid: number | undefined): string =>
  /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? "?";

async function write(client: Client, projectId: string, key: string): Promise<void> {
  const answer = await client.post(`/api/v4/secrets/${key}`, {
    projectId,
    environment: "dev",
    secretPath: "/",
    secretValue: randomBytes(12).toString("hex"),
  });
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
}

async function judge(held: readonly Held[], written: readonly string[]): Promise<void> {
  const expected = written.map((key) => `secret:create dev / ${key}`);
  for (const { name, reader } of held) {
    await until(
      () => reader.events.length >= expected.length || reader.isEnded,
      `${name}: ${expected.length} events`,
    );
    assert.equal(reader.isEnded, false, `${name} was cut: ${reader.error ?? "without a word"}`);
    assert.deepEqual(reader.told, expected, name);
  }
}

function judgeEnd(held: readonly Held[]): void {
  for (const { name, reader, openedAt, longestSilence } of held) {
    const minutes = (performance.now() - openedAt) / 60_000;
    const pings = reader.frames.filter((frame) => frame.event === "ping").length;
    say(
      `${name}: alive for ${minutes.toFixed(1)} min, ${pings} pings, ${reader.events.length} events, ` +
        `longest silence ${longestSilence.toFixed(1)} s`,
    );
    const due = Math.floor((minutes * 60) / PING_SECONDS);
    assert.ok(pings >= due * 0.9 - 1 && pings <= due + 2, `${name}: ${pings} pings, about ${due} were due`);
    assert.ok(longestSilence < DEAD_SECONDS, `${name}: nothing was heard for ${longestSilence} s`);
  }
}

async function soak(): Promise<void> {
  const database = await createTestDatabase();
  const { host, port, user } = database.server;
  const isSocket = host.startsWith("/");
  const server = await startServer({
    DATABASE_URL: `postgres://${user}@${isSocket ? "localhost" : host}:${port}/${database.connection.database}${isSocket ? `?host=${encodeURIComponent(host)}` : ""}`,
    KEYWARD_ROOT_KEY: randomBytes(32).toString("base64"),
  });
  let proxies: Proxies | undefined;
  const held: Held[] = [];
  const written: string[] = [];
  const watching = setInterval(() => watch(held), 250);
  try {
    proxies = await startProxies(server.base);
    for (const name of proxies.missing) say(`${name} is not installed: left out`);
    const anonymous = clientOf(server.base);
    const booted = await anonymous.post("/api/v1/admin/bootstrap", { ...OWNER, organization: "Soak" });
    const { token } = booted.body.identity.credentials as { token: string };
    const client = clientOf(server.base, token);
    const { id } = await aProject(client);
    for (const proxy of [{ name: "direct", base: server.base }, ...proxies.list])
      held.push(await hold(proxy, token, id));
    const endsAt = performance.now() + MINUTES * 60_000;
    for (let round = 0; performance.now() < endsAt; round += 1) {
      const { silence, writes } = ROUNDS[round % ROUNDS.length] as (typeof ROUNDS)[number];
      await pause(Math.max(0, Math.min(silence * 1000, endsAt - performance.now())));
      for (let n = 0; n < writes; n += 1) {
        const key = `ROUND_${round}_${n}`;
        written.push(key);
        await write(client, id, key);
      }
      await judge(held, written);
      if (round % ROUNDS.length === 0)
        say(
          `${held.length} streams alive, ${written.length} events each, server ${residentKilobytes(server.child.pid)} kB`,
        );
    }
    judgeEnd(held);
    say(`passed: ${held.length} streams lived for ${MINUTES} minutes and heard every write once, in order`);
  } finally {
    clearInterval(watching);
    for (const { reader } of held) reader.close();
    await proxies?.close();
    await server.stop();
    await database.drop();
    await stopOwnPostgres();
  }
}

if (process.env["KEYWARD_SOAK_COPY"] === undefined) process.exitCode = await runFromACopy();
else await soak();
