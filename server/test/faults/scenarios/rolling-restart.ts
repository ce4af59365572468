/** P-30: three nodes behind HAProxy, restarted one after the other under load: nobody's request fails. */
import { randomBytes } from "node:crypto";
import { Agent, request } from "node:http";
import { openStream, type StreamReader } from "../../event-streams.ts";
import { clientOf } from "../../harness.ts";
import { createTestDatabase } from "../../postgres.ts";
import { startServer, type ServerProcess } from "../../process.ts";
import { freePort, openBalancer, whyNoBalancer, type Balancer } from "../balancer.ts";
import { holds, pause, READY, watch, type Outcome, type ScenarioOptions } from "../ground.ts";
import { furnish, type Place } from "../load.ts";

const NODES = 3;
const CLIENTS = 4;
const STREAMS = 6;
const AWAY_MS = 5000;
/** What is committed in the last moment of a stream may be missing there: the client reads the state after its reconnect. */
const PARTING_MS = 1000;

interface Session {
  readonly openedAt: number;
  endedAt: number;
  readonly stream: StreamReader;
}

interface Write {
  readonly key: string;
  readonly from: number;
  readonly to: number;
}

interface Traffic {
  readonly failed: string[];
  readonly writes: Write[];
  readonly counts: Record<string, number>;
  readonly sessions: readonly Session[][];
  stop(): Promise<void>;
}

/** One request over a connection that is kept, as a client library does: whatever goes wrong is the caller's trouble. */
const send = (agent: Agent, url: string, token: string, body?: unknown): Promise<number> =>
  new Promise((resolve, reject) => {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const call = request(url, {
      ...{ agent, method: text === undefined ? "GET" : "POST" },
      headers: {
        authorization: `Bearer ${token}`,
        ...(text === undefined
          ? {}
          : { "content-type": "application/json", "content-length": Buffer.byteLength(text) }),
      },
    });
    call.on("response", (answer) => {
      answer.resume();
      answer.on("end", () => resolve(answer.statusCode ?? 0));
      answer.on("error", reject);
    });
    call.on("error", reject);
    call.end(text);
  });

/** Opens a stream again whenever it ends. */
async function listen(base: string, place: Place, sessions: Session[], isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    const stream = await openStream(base, place.token, { projectId: place.projectId }).catch(() => undefined);
    if (stream?.status === 200) {
      const session = { openedAt: performance.now(), endedAt: Number.POSITIVE_INFINITY, stream };
      sessions.push(session);
      while (!stream.isEnded && !isOver()) await pause(20);
      session.endedAt = performance.now();
      stream.close();
    }
    await pause(100);
  }
}

function startTraffic({ base }: Balancer, place: Place): Traffic {
  const failed: string[] = [];
  const writes: Write[] = [];
  const counts: Record<string, number> = {};
  const sessions: Session[][] = Array.from({ length: STREAMS }, () => []);
  const agents = Array.from({ length: CLIENTS }, () => new Agent({ keepAlive: true, maxSockets: 4 }));
  let isOver = false;
  const ask = async (what: string, asked: () => Promise<number>): Promise<boolean> => {
    const status = await asked().catch((error: NodeJS.ErrnoException) => error.code ?? error.message);
    counts[`${what} ${status}`] = (counts[`${what} ${status}`] ?? 0) + 1;
    if (status !== 200) failed.push(`${what}: ${status}`);
    return status === 200;
  };
  const at = { projectId: place.projectId, environment: "dev", secretPath: "/" };
  const reading = agents.flatMap((agent) =>
    [1, 2].map(async () => {
      while (!isOver) {
        await ask("read", () =>
          send(
            agent,
            `${base}/api/v4/secrets/FIXED?projectId=${place.projectId}&environment=dev`,
            place.token,
          ),
        );
        await pause(2);
      }
    }),
  );
  const writing = agents.map(async (agent, client) => {
    for (let n = 0; !isOver; n += 1) {
      const key = `C${client}_${n}`;
      const from = performance.now();
      const isDone = await ask("write", () =>
        send(agent, `${base}/api/v4/secrets/${key}`, place.token, { ...at, secretValue: "v" }),
      );
      if (isDone) writes.push({ key, from, to: performance.now() });
      await pause(60);
    }
  });
  const listening = sessions.map((each) => listen(base, place, each, () => isOver));
  return {
    failed,
    writes,
    counts,
    sessions,
    async stop() {
      isOver = true;
      await Promise.all([...reading, ...writing, ...listening]);
      for (const agent of agents) agent.destroy();
    },
  };
}

function judgeStreams({ sessions, writes }: Traffic): { faults: string[]; longestGapMs: number } {
  const faults: string[] = [];
  let longestGapMs = 0;
  for (const [index, own] of sessions.entries()) {
    if (own.length < 2) faults.push(`stream ${index} was never sent elsewhere`);
    for (const [n, { openedAt, endedAt, stream }] of own.entries()) {
      longestGapMs = Math.max(longestGapMs, openedAt - (own[n - 1]?.endedAt ?? openedAt));
      const heard = new Set(stream.told.map((line) => line.split(" ").at(-1)));
      const due = writes.filter(({ from, to }) => from > openedAt && to < endedAt - PARTING_MS);
      const missed = due.filter(({ key }) => !heard.has(key));
      if (missed.length > 0)
        faults.push(`stream ${index} missed ${missed.length} of ${due.length}: ${missed[0]?.key}`);
    }
  }
  if (longestGapMs > AWAY_MS) faults.push(`a stream was away for ${Math.round(longestGapMs)} ms`);
  return { faults, longestGapMs: Math.round(longestGapMs) };
}

export async function rollingRestart({ seconds, say }: ScenarioOptions): Promise<Outcome> {
  const why = whyNoBalancer();
  if (why !== undefined) {
    say?.(`skipped: ${why}`);
    return { faults: [], seen: { skipped: why } };
  }
  const database = await createTestDatabase();
  const { user, host, port } = database.server;
  const env = {
    ...READY,
    DATABASE_URL: `postgres://${user}@localhost:${port}/${database.connection.database}?host=${encodeURIComponent(host)}&sslmode=disable`,
    KEYWARD_ROOT_KEY: randomBytes(32).toString("base64"),
    KEYWARD_DRAIN_SECONDS: "5",
  };
  const ports: number[] = [];
  for (let n = 0; n < NODES; n += 1) ports.push(await freePort());
  const start = async (n: number): Promise<ServerProcess> =>
    watch(await startServer({ ...env, PORT: String(ports[n]) }));
  const nodes: ServerProcess[] = [];
  for (let n = 0; n < NODES; n += 1) nodes.push(await start(n));
  const balancer = await openBalancer(ports);
  const place = await furnish(balancer.base);
  await clientOf(balancer.base, place.token).post("/api/v4/secrets/FIXED", {
    ...{ projectId: place.projectId, environment: "dev", secretPath: "/", secretValue: "v" },
  });
  const traffic = startTraffic(balancer, place);
  const faults: string[] = [];
  let restarts = 0;
  try {
    await pause(2000);
    const until = performance.now() + seconds * 1000;
    do {
      for (let n = 0; n < NODES; n += 1) {
        const code = await (nodes[n] as ServerProcess).stop();
        if (code !== 0) faults.push(`node ${n} ended with ${code}`);
        nodes[n] = await start(n);
        restarts += 1;
        // The next one goes when the balancer has this one again.
        await holds(async () => (await fetch(`${nodes[n]?.base}/api/ready`)).status === 200, 10);
        await pause(2500);
        say?.(
          `${restarts} restarts: ${JSON.stringify({ ...traffic.counts, failed: traffic.failed.length })}`,
        );
      }
    } while (performance.now() < until && faults.length === 0);
    await traffic.stop();
    faults.push(...new Set(traffic.failed.slice(0, 10)));
    if (traffic.failed.length > 0) faults.push(`${traffic.failed.length} requests failed`);
    const streams = judgeStreams(traffic);
    faults.push(...streams.faults.slice(0, 5));
    return { faults, seen: { restarts, ...traffic.counts, longestGapMs: streams.longestGapMs } };
  } finally {
    await traffic.stop();
    await balancer.close();
    for (const node of nodes) await node.kill();
    await database.drop();
  }
}
