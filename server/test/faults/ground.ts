/**
 * What the fault scenarios run on: real server processes, each with its own proxy to one PostgreSQL, and a few ways
 * of asking them whether they are well.
 */
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import pg from "pg";
import { createTestDatabase, withClient, type TestDatabase } from "../postgres.ts";
import { startServer, type ServerProcess } from "../process.ts";
import { furnish, type Load, type Place } from "./load.ts";
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

export const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const QUIET = {
  KEYWARD_LOG_LEVEL: "warn",
  KEYWARD_RATE_LIMIT_READ: "0",
  KEYWARD_RATE_LIMIT_WRITE: "0",
  KEYWARD_RATE_LIMIT_LOGIN: "0",
};
/** The line by which a server is known to be ready is one of level info. */
export const READY = { ...QUIET, KEYWARD_LOG_LEVEL: "info" };

export async function holds(check: () => Promise<boolean>, seconds: number): Promise<boolean> {
  const deadline = performance.now() + seconds * 1000;
  while (!(await check().catch(() => false))) {
    if (performance.now() > deadline) return false;
    await pause(50);
  }
  return true;
}

/** What a server that ended by itself said last. */
export function watch(server: ServerProcess): ServerProcess {
  server.child.stderr?.on("data", (chunk: Buffer) => server.lines.push(`stderr: ${chunk.toString()}`));
  return server;
}
export const lastWords = (server: ServerProcess): string => server.lines.slice(-6).join("\n").slice(-3000);

export function postmasterOf(dataDir: string): { pid: number; connection: pg.ClientConfig } {
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

/** The two minutes for which a claim on a delivery holds are over: whoever made it was killed, or never heard so. */
export async function claimsRunOut(connection: pg.ClientConfig): Promise<void> {
  const client = new pg.Client({ ...connection, ssl: false });
  await client.connect();
  await client.query(
    "UPDATE alert_deliveries SET next_at = now() WHERE status = 'pending' AND next_at > now()",
  );
  await client.end();
}

/** A server that lives answers everything, if only that it cannot: nobody may be left without a word. */
export const judgeSilence = (faults: string[], { statuses }: Load): void => {
  if ((statuses[0] ?? 0) > 0) faults.push(`${statuses[0]} requests got no answer from a server that lives`);
};

/** What was strange, with what the server's log says about it. */
export const gather = (
  faults: string[],
  load: Load,
  servers: readonly (ServerProcess | undefined)[],
): void => {
  const bugs = servers.flatMap(
    (server) => server?.lines.filter((line) => line.includes("failed on a bug")) ?? [],
  );
  for (const one of load.strange.slice(0, 5)) {
    const id = /req-\w+/.exec(one)?.[0] ?? "no id";
    faults.push(`a strange answer: ${one} ${bugs.find((line) => line.includes(id))?.slice(0, 900) ?? ""}`);
  }
};

/** Among a node's settings, but for the ground: which role it connects as, made for it with the rights of the owner. */
export const ROLE = "role of the database";

export interface Cluster {
  readonly database: TestDatabase;
  readonly proxies: readonly Proxy[];
  readonly nodes: readonly ServerProcess[];
  readonly place: Place;
  close(): Promise<void>;
}

/** Nodes on one PostgreSQL, each with a proxy of its own. */
export async function openCluster(
  count: number,
  more: (node: number) => Record<string, string> = () => ({}),
): Promise<Cluster> {
  const database = await createTestDatabase();
  const rootKey = randomBytes(32).toString("base64");
  const proxies: Proxy[] = [];
  const nodes: ServerProcess[] = [];
  for (let n = 0; n < count; n += 1) {
    const proxy = await openProxy(database.server);
    proxies.push(proxy);
    const { [ROLE]: role, ...settings } = more(n);
    if (role !== undefined)
      await withClient(database.server, "postgres", (client) =>
        client.query(`CREATE ROLE ${role} LOGIN IN ROLE ${database.server.user}`),
      );
    const user = role ?? database.server.user;
    const url = `postgres://${user}@127.0.0.1:${proxy.port}/${database.connection.database}?sslmode=disable`;
    const env = { ...READY, DATABASE_URL: url, KEYWARD_ROOT_KEY: rootKey, ...settings };
    nodes.push(watch(await startServer(env)));
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
