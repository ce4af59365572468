/**
 * What goes wrong in a data centre, done on purpose to real processes. Each scenario answers what it saw and the list
 * of broken promises, which must be empty.
 */
import { randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { isAbsolute, join } from "node:path";
import pg from "pg";
import { openStream } from "../event-streams.ts";
import { clientOf } from "../harness.ts";
import { createTestDatabase, withClient, type TestDatabase } from "../postgres.ts";
import { startServer, type ServerProcess } from "../process.ts";
import { Ledger } from "./ledger.ts";
import { dice, furnish, judge, judgeTables, startLoad, type Load, type Place } from "./load.ts";
import { openProxy, type Proxy } from "./proxy.ts";

export interface Outcome {
  readonly faults: string[];
  readonly seen: Record<string, unknown>;
}

export interface ScenarioOptions {
  readonly seed: number;
  /** How long it may go on making trouble. */
  readonly seconds: number;
  readonly say?: (line: string) => void;
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const QUIET = {
  KEYWARD_LOG_LEVEL: "warn",
  KEYWARD_RATE_LIMIT_READ: "0",
  KEYWARD_RATE_LIMIT_WRITE: "0",
  KEYWARD_RATE_LIMIT_LOGIN: "0",
};
/** The line by which a server is known to be ready is one of level info. */
const READY = { ...QUIET, KEYWARD_LOG_LEVEL: "info" };

async function holds(check: () => Promise<boolean>, seconds: number): Promise<boolean> {
  const deadline = performance.now() + seconds * 1000;
  while (!(await check().catch(() => false))) {
    if (performance.now() > deadline) return false;
    await pause(50);
  }
  return true;
}

/** What a server that ended by itself said last. */
function watch(server: ServerProcess): ServerProcess {
  server.child.stderr?.on("data", (chunk: Buffer) => server.lines.push(`stderr: ${chunk.toString()}`));
  return server;
}
const lastWords = (server: ServerProcess): string => server.lines.slice(-6).join("\n").slice(-3000);

function postmasterOf(dataDir: string): { pid: number; connection: pg.ClientConfig } {
  const folder = join(dataDir, "postgres");
  const [pid, , , port, host = ""] = readFileSync(join(folder, "postmaster.pid"), "utf8").split("\n");
  return {
    pid: Number(pid),
    connection: {
      host: isAbsolute(host) ? host : join(folder, host),
      port: Number(port),
      user: "keyward",
      database: "keyward",
    },
  };
}

/** What was strange, with what the server's log says about it. */
const gather = (faults: string[], load: Load, servers: readonly (ServerProcess | undefined)[]): void => {
  const bugs = servers.flatMap(
    (server) => server?.lines.filter((line) => line.includes("failed on a bug")) ?? [],
  );
  for (const one of load.strange.slice(0, 5)) {
    const id = /req-\w+/.exec(one)?.[0] ?? "no id";
    faults.push(`a strange answer: ${one} ${bugs.find((line) => line.includes(id))?.slice(0, 900) ?? ""}`);
  }
};

/** kill -9 of the server, of its PostgreSQL, or of both, at random moments under load. */
export async function crashes({ seed, seconds, say }: ScenarioOptions): Promise<Outcome> {
  const roll = dice(seed);
  const dataDir = mkdtempSync(join(tmpdir(), "keyward-faults-"));
  const env = { ...READY, KEYWARD_DATA_DIR: dataDir };
  const faults: string[] = [];
  const killed = { server: 0, postgres: 0 };
  const ledger = new Ledger();
  const statuses: Record<string, number> = {};
  let server: ServerProcess | undefined = watch(await startServer(env));
  try {
    const place = await furnish(server.base);
    const until = performance.now() + seconds * 1000;
    const postgresKills: number[] = [];
    for (let generation = 0; performance.now() < until && faults.length === 0; generation += 1) {
      const load = startLoad({ seed, generation, writers: 4, place, ledger, base: () => server?.base });
      await pause(200 + roll(800));
      // A server gives its PostgreSQL up when it dies more than five times a minute, and is right to.
      const isRecent = postgresKills.filter((at) => performance.now() - at < 61_000).length >= 4;
      if (roll(2) === 0 && !isRecent) {
        postgresKills.push(performance.now());
        process.kill(postmasterOf(dataDir).pid, "SIGKILL");
        killed.postgres += 1;
        const { base } = server;
        if (
          !(await holds(
            async () =>
              (await clientOf(base, place.token).post("/api/v1/identities", { name: `back-${generation}` }))
                .status === 200,
            30,
          ))
        )
          faults.push("the server did not come back by itself after its PostgreSQL was killed");
        await load.stop();
      } else {
        const dying = server;
        server = undefined;
        await dying.kill();
        killed.server += 1;
        await load.stop();
        server = watch(await startServer(env));
      }
      for (const [status, count] of Object.entries(load.statuses))
        statuses[status] = (statuses[status] ?? 0) + count;
      gather(faults, load, [server]);
      const { base } = server;
      if (
        !(await holds(
          async () => (await clientOf(base, place.token).get("/api/v1/organization")).status === 200,
          30,
        ))
      )
        faults.push(`no answer afterwards; its last words: ${lastWords(server)}`);
      if (faults.length > 0) break;
      faults.push(...(await judge(base, place, ledger)));
      faults.push(...(await judgeTables(postmasterOf(dataDir).connection, ledger)));
      say?.(`crash ${generation}: ${JSON.stringify({ ...killed, statuses, faults: faults.length })}`);
    }
  } finally {
    await server?.stop();
    rmSync(dataDir, { recursive: true, force: true });
  }
  return { faults, seen: { ...killed, statuses, unanswered: ledger.unanswered } };
}

interface Cluster {
  readonly database: TestDatabase;
  readonly proxies: readonly Proxy[];
  readonly nodes: readonly ServerProcess[];
  readonly place: Place;
  close(): Promise<void>;
}

/** Nodes on one PostgreSQL, each with a wire of its own. */
async function openCluster(count: number): Promise<Cluster> {
  const database = await createTestDatabase();
  const rootKey = randomBytes(32).toString("base64");
  const proxies: Proxy[] = [];
  const nodes: ServerProcess[] = [];
  for (let n = 0; n < count; n += 1) {
    const proxy = await openProxy(database.server);
    proxies.push(proxy);
    const { user } = database.server;
    const url = `postgres://${user}@127.0.0.1:${proxy.port}/${database.connection.database}?sslmode=disable`;
    nodes.push(watch(await startServer({ ...READY, DATABASE_URL: url, KEYWARD_ROOT_KEY: rootKey })));
  }
  const place = await furnish(nodes[0]?.base ?? "");
  return {
    database,
    proxies,
    nodes,
    place,
    async close() {
      for (const node of nodes) {
        node.child.kill("SIGCONT");
        for (const proxy of proxies) proxy.set({ kind: "fair" });
        await node.stop();
      }
      for (const proxy of proxies) await proxy.close();
      await database.drop();
    },
  };
}

/** the wire to the database is slow, cut, or cut after COMMIT; then the database is away, then read-only. */
export async function badWire({ seed, seconds, say }: ScenarioOptions): Promise<Outcome> {
  const roll = dice(seed);
  const cluster = await openCluster(1);
  const { place, database } = cluster;
  const [node] = cluster.nodes as [ServerProcess];
  const [proxy] = cluster.proxies as [Proxy];
  const faults: string[] = [];
  const ledger = new Ledger();
  const client = clientOf(node.base, place.token);
  const load = startLoad({ seed, generation: 0, writers: 4, place, ledger, base: () => node.base });
  const phases: Record<string, number> = {};
  // Until a silent wire is given up as dead half a minute passes.
  const PHASES = process.env["KEYWARD_FAULTS_PHASE"]?.split(",") ?? [
    "slow",
    "cuts",
    "cut-after-commit",
    "away",
    "read-only",
    ...(seconds > 20 ? ["silent"] : []),
  ];
  const recovers = async (after: string): Promise<void> => {
    proxy.set({ kind: "fair" });
    // What was swallowed stays lost: those connections are dead and learn it now, or by their own patience.
    if (after === "silent") proxy.cut();
    const isBack = await holds(
      async () =>
        (await client.post("/api/v1/auth/checkAuth")).status === 200 &&
        (await client.get(`/api/v4/secrets?projectId=${place.projectId}&environment=dev`)).status === 200,
      20,
    );
    if (!isBack) faults.push(`no recovery after: ${after}`);
    if (node.child.exitCode !== null)
      faults.push(`the server ended after: ${after}; its last words: ${lastWords(node)}`);
  };
  try {
    await pause(300);
    const until = performance.now() + seconds * 1000;
    for (let n = 0; performance.now() < until && faults.length === 0; n += 1) {
      const phase: string = PHASES[n < PHASES.length ? n : roll(PHASES.length)] ?? "slow";
      phases[phase] = (phases[phase] ?? 0) + 1;
      const ms = Math.min(3000, seconds * 100);
      if (phase === "slow") {
        proxy.set({ kind: "slow", ms: 5 + roll(30) });
        await pause(ms);
      } else if (phase === "cuts") {
        for (let cut = 0; cut < 5; cut += 1) {
          await pause(ms / 10 + roll(100));
          proxy.cut();
        }
      } else if (phase === "cut-after-commit") {
        proxy.set({ kind: "cut-after-commit", every: 2 + roll(4) });
        await pause(ms);
      } else if (phase === "away" || phase === "silent") {
        proxy.set({ kind: phase });
        const answer = await client.post("/api/v1/identities", { name: "nobody" }).catch(() => undefined);
        if (answer?.status !== 503 || answer.headers.get("retry-after") === null)
          faults.push(
            `with the database ${phase} a write answered ${answer?.status} ${JSON.stringify(answer?.body)}, retry-after ${answer?.headers.get("retry-after")}`,
          );
        await pause(ms);
      } else {
        faults.push(...(await whileReadOnly(database, client, place)));
      }
      await recovers(phase);
      say?.(
        `wire ${n}, ${phase}: ${JSON.stringify({ statuses: load.statuses, cuts: proxy.cuts(), faults: faults.length })}`,
      );
    }
    await load.stop();
    gather(faults, load, [node]);
    faults.push(...(await judge(node.base, place, ledger)));
    const isJudged = ledger.acknowledged > 0;
    if (!isJudged) faults.push("nothing was acknowledged: the load did not run");
    return {
      faults,
      seen: { phases, cutsAfterCommit: proxy.cuts(), statuses: load.statuses, unanswered: ledger.unanswered },
    };
  } finally {
    await cluster.close();
  }
}

/** what a full disk or a standby looks like from here. Reading goes on. */
async function whileReadOnly(
  database: TestDatabase,
  client: ReturnType<typeof clientOf>,
  place: Place,
): Promise<string[]> {
  const { database: name } = database.connection;
  const faults: string[] = [];
  const all = (text: string) => withClient(database.server, "postgres", (admin) => admin.query(text));
  const dropConnections = () =>
    all(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${name}'`);
  await all(`ALTER DATABASE ${name} SET default_transaction_read_only = on`);
  await dropConnections();
  try {
    const reads = await holds(
      async () =>
        (await client.get(`/api/v4/secrets?projectId=${place.projectId}&environment=dev`)).status === 200,
      10,
    );
    if (!reads) faults.push("on a read-only database reading does not go on");
    const write = await client.post("/api/v1/identities", { name: "nobody" });
    if (write.status !== 503 || write.headers.get("retry-after") === null)
      faults.push(`on a read-only database a write answered ${write.status} ${JSON.stringify(write.body)}`);
  } finally {
    await all(`ALTER DATABASE ${name} RESET default_transaction_read_only`);
    await dropConnections();
  }
  return faults;
}

/** R-03, E-08: three nodes, one of them stopped in its tracks; the others go on, and it catches up when it wakes. */
export async function pausedNode({ seed, seconds, say }: ScenarioOptions): Promise<Outcome> {
  const roll = dice(seed);
  const cluster = await openCluster(3);
  const { place, nodes } = cluster;
  const faults: string[] = [];
  const ledger = new Ledger();
  const load = startLoad({
    seed,
    generation: 0,
    writers: 6,
    place,
    ledger,
    base: (writer) => nodes[writer % 3]?.base,
  });
  const streams = await Promise.all(
    nodes.map((node) => openStream(node.base, place.token, { projectId: place.projectId })),
  );
  let pauses = 0;
  let endings: string[] = [];
  try {
    const until = performance.now() + seconds * 1000;
    while (performance.now() < until && faults.length === 0) {
      await pause(200 + roll(300));
      const stopped = roll(3);
      nodes[stopped]?.child.kill("SIGSTOP");
      pauses += 1;
      const other = nodes[(stopped + 1) % 3]?.base ?? "";
      const client = clientOf(other, place.token);
      await pause(Math.min(20_000, (seconds * 1000) / 3));
      // A transaction that sleeps with the node may hold a lock; it is taken from it in time.
      const goesOn = await holds(
        async () => (await client.post("/api/v1/identities", { name: "goes-on" })).status === 200,
        30,
      );
      if (!goesOn) faults.push("the other nodes do not go on while one is paused");
      nodes[stopped]?.child.kill("SIGCONT");
      const value = `seen-${pauses}`;
      const body = {
        projectId: place.projectId,
        environment: "staging",
        secretPath: "/",
        mode: "upsert",
        secrets: [{ secretKey: "SHARED", secretValue: value }],
      };
      await holds(async () => (await client.patch("/api/v4/secrets/batch", body)).status === 200, 30);
      const woken = clientOf(nodes[stopped]?.base ?? "", place.token);
      const read = async () =>
        (await woken.get(`/api/v4/secrets/SHARED?projectId=${place.projectId}&environment=staging`)).body
          .secret.secretValue as string;
      if (!(await holds(async () => (await read()) === value, 15)))
        faults.push("a node that was paused does not catch up");
      say?.(
        `pause ${pauses} of node ${stopped}: ${JSON.stringify({ statuses: load.statuses, faults: faults.length })}`,
      );
    }
    await load.stop();
    gather(faults, load, nodes);
    for (const node of nodes) faults.push(...(await judge(node.base, place, ledger)));
    faults.push(
      ...(await judgeTables(cluster.database.connection, ledger)).filter(
        (fault) => !fault.includes("identities, but"),
      ),
    );
    // Each stream heard of the last change, or was closed with a reason; none is open and deaf.
    const last = await clientOf(nodes[0]?.base ?? "", place.token).post("/api/v4/secrets/LAST_ONE", {
      projectId: place.projectId,
      environment: "staging",
      secretPath: "/",
      secretValue: "last",
    });
    if (last.status !== 200)
      faults.push(`the last change was refused: ${last.status} ${JSON.stringify(last.body)}`);
    endings = streams.filter((stream) => stream.isEnded).map((stream) => stream.error ?? "without a word");
    for (const [index, stream] of streams.entries()) {
      const hears = await holds(async () => stream.isEnded || stream.raw.includes("LAST_ONE"), 15);
      if (!hears) faults.push(`the stream on node ${index} is open and deaf`);
      const heard = stream.told.filter((line) => line.includes("LAST_ONE")).length;
      if (heard > 1) faults.push(`the stream on node ${index} heard the last change ${heard} times`);
    }
  } finally {
    for (const stream of streams) stream.close();
    await cluster.close();
  }
  return {
    faults,
    seen: {
      pauses,
      statuses: load.statuses,
      unanswered: ledger.unanswered,
      endings,
    },
  };
}
