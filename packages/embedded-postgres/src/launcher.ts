// Starts the PostgreSQL that comes with npm, so that nothing else need be installed. In order: take the data directory,
// find the account and the programs, make the cluster if there is none, end what an earlier life left, start the
// postmaster, wait until it answers, and make the caller's database if it is absent.
import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdir, realpath } from "node:fs/promises";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";

import pg from "pg";

import { chooseAccount } from "./account.ts";
import { type Binaries, findPackage, prepareBinaries, usualCopyPlaces } from "./binaries.ts";
import { clusterPath, ensureCluster, ownName } from "./cluster.ts";
import {
  type Advice,
  cannotStart,
  EmbeddedPostgresError,
  errnoOf,
  otherDirectory,
  ownDatabase,
} from "./failure.ts";
import { clearLeftovers, markOf } from "./leftovers.ts";
import { type DataDirLock, lockDataDir } from "./lock.ts";
import { type RunAs, plainEnvironment, signal } from "./processes.ts";
import { PORT, prepareSocketPlace, type SocketPlace } from "./socket.ts";

export interface EmbeddedPostgres {
  /** For pg: the host is the directory of the socket. */
  readonly connection: {
    readonly host: string;
    readonly port: number;
    readonly user: string;
    readonly database: string;
  };
  /** The postmaster. */
  readonly pid: number;
  /** Resolves when the postmaster ends, wanted or not: its exit code, or null when a signal ended it. */
  readonly exited: Promise<number | null>;
  /** Ends the database in order, open connections included; a second call waits for the same end. */
  stop(): Promise<void>;
}

interface EmbeddedPostgresOptions {
  /**
   * What everything is called that carries a name: the user, the database, the lock file in the data directory, the
   * cluster's mark. The same one each time, or the database and those who use it will not be found again.
   */
  readonly name: string;
  readonly dataDir: string;
  readonly log: (line: string) => void;
  /** False trades safety in a power cut for speed; for tests only. */
  readonly durable?: boolean;
  /** Server settings in addition to, or instead of, the ones below. */
  readonly settings?: Readonly<Record<string, string>>;
  /** What error messages tell the operator to do. */
  readonly advice?: Advice;
}

/** It becomes an SQL identifier and part of file names, neither of which is quoted; a cluster's name has 63 places. */
const NAME = /^[a-z][a-z0-9_]{0,39}$/;

/** Recovery after a crash reads at most max_wal_size (1 GB) of log; ten minutes are for the slowest disk. */
const READY_WITHIN_MS = 600_000;

const SETTINGS: Readonly<Record<string, string>> = {
  listen_addresses: "",
  port: String(PORT),
  unix_socket_permissions: "0700",
  max_connections: "100",
  // A ceiling, taken page by page as data is touched. Half of the default: what is read often is in the
  // caller's or the kernel's caches, and on a small server the memory is worth more there.
  shared_buffers: "64MB",
  // Both spare idle processes (three and one) that serve cold scans of large tables, and replication.
  io_method: "sync",
  max_logical_replication_workers: "0",
  jit: "off", // not in this build; a setting that is explicit gives no warnings
  timezone: "UTC",
  log_timezone: "UTC",
  logging_collector: "off",
  log_destination: "stderr",
  log_line_prefix: "", // every line gets its time from the caller's log
  log_checkpoints: "off", // one line each five minutes that asks nothing of anybody
};

/** Unsafe in a power cut only: what was acknowledged is with the kernel, so it still outlives kill -9. */
const CARELESS: Readonly<Record<string, string>> = { fsync: "off", full_page_writes: "off" };

async function openDataDir(path: string): Promise<string> {
  try {
    // Others may pass through but not look around: as root, the database's own account has to pass.
    await mkdir(path, { recursive: true, mode: process.getuid?.() === 0 ? 0o711 : 0o700 });
    return await realpath(path);
  } catch (error) {
    throw cannotStart(
      `The data directory ${path} cannot be made (${errnoOf(error) ?? String(error)})`,
      [otherDirectory, ownDatabase],
      error,
    );
  }
}

interface PreparedCluster {
  readonly dataDir: string;
  readonly account: RunAs | undefined;
  readonly binaries: Binaries;
  readonly socket: SocketPlace;
}

/** Everything that has to stand before the postmaster is started. */
async function prepareCluster(
  dataDir: string,
  { name, log, durable }: EmbeddedPostgresOptions,
): Promise<PreparedCluster> {
  const clusterDir = clusterPath(dataDir);
  const account = await chooseAccount(clusterDir);
  const binaries = await prepareBinaries({
    packageRoot: findPackage(),
    account,
    copyPlaces: usualCopyPlaces(dataDir, name),
    log,
  });
  await clearLeftovers({ clusterDir, account, name, log });
  await ensureCluster({ dataDir, binaries, account, superuser: name, isDurable: durable ?? true, log });
  const socket = await prepareSocketPlace(clusterDir, account, name);
  return { dataDir, account, binaries, socket };
}

async function postmasterArguments(
  prepared: PreparedCluster,
  options: EmbeddedPostgresOptions,
): Promise<string[]> {
  const directory = clusterPath(prepared.dataDir);
  const settings = {
    ...SETTINGS,
    ...((options.durable ?? true) ? {} : CARELESS),
    ...options.settings,
    unix_socket_directories: prepared.socket.setting,
    cluster_name: await markOf(directory, options.name), // by which leftovers are recognised
  };
  const named = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  return ["-D", await ownName(prepared.dataDir, prepared.account, directory), ...named];
}

interface Postmaster {
  readonly child: ChildProcess;
  readonly pid: number;
  readonly exited: Promise<number | null>;
  hasExited(): boolean;
  /** The last error in its log. */
  complaint(): string;
}

/** The pid is known at once, or the failure to start comes as an event. */
function pidOf(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("spawn", () => resolve(child.pid ?? -1));
  });
}

async function startPostmaster(
  prepared: PreparedCluster,
  options: EmbeddedPostgresOptions,
): Promise<Postmaster> {
  const { binaries, account, dataDir } = prepared;
  const { command, args } = binaries.tied(
    "INT",
    binaries.postgres,
    await postmasterArguments(prepared, options),
  );
  const child = spawn(command, args, {
    cwd: clusterPath(dataDir),
    env: plainEnvironment(),
    stdio: ["ignore", "ignore", "pipe"],
    // A session of its own: Ctrl-C in the terminal is for us, who stop the database last.
    detached: true,
    ...account,
  });
  let complaint = "";
  let isOver = false;
  const exited = new Promise<number | null>((resolve) => {
    child.once("exit", (code) => {
      isOver = true;
      resolve(code);
    });
  });
  if (child.stderr !== null) {
    createInterface({ input: child.stderr }).on("line", (line) => {
      if (/^(FATAL|PANIC):|error while loading/.test(line)) complaint = line;
      options.log(line);
    });
  }
  const pid = await pidOf(child);
  // Where setpriv is missing, this covers every end of ours but kill -9; the next start covers that one.
  const takeAlong = (): void => signal(pid, "SIGINT");
  process.once("exit", takeAlong);
  void exited.then(() => process.removeListener("exit", takeAlong));
  return { child, pid, exited, hasExited: () => isOver, complaint: () => complaint };
}

async function withClient<T>(
  { host, user, database }: EmbeddedPostgres["connection"],
  work: (client: pg.Client) => Promise<T>,
): Promise<T> {
  // ssl is said explicitly, or PGSSLMODE in the environment would decide.
  const client = new pg.Client({ host, port: PORT, user, database, ssl: false });
  client.on("error", () => undefined); // a connection lost while it is open; the pending call rejects as well
  try {
    await client.connect();
    return await work(client);
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** What a postmaster that is not ready yet makes of a connection: no socket, nobody listening, or "starting up". */
const NOT_YET = new Set(["ENOENT", "ECONNREFUSED", "ECONNRESET", "57P03"]);
const NO_SUCH_DATABASE = "3D000";

async function untilReady(
  postmaster: Postmaster,
  connection: EmbeddedPostgres["connection"],
  log: (line: string) => void,
): Promise<void> {
  const began = performance.now();
  for (let nextNoticeMs = 10_000; ; await pause(5)) {
    if (postmaster.hasExited()) {
      await pause(20); // its last words may still be in the pipe
      throw cannotStart(
        `PostgreSQL ended while it was starting: ${postmaster.complaint() || "it gave no reason"}`,
      );
    }
    try {
      return await withClient(connection, async () => undefined);
    } catch (error) {
      const code = errnoOf(error) ?? "";
      if (code === NO_SUCH_DATABASE) {
        await withClient({ ...connection, database: "postgres" }, (client) =>
          client.query(`CREATE DATABASE ${connection.database}`),
        );
        return;
      }
      if (!NOT_YET.has(code) && !postmaster.hasExited()) throw error;
      const waitedMs = performance.now() - began;
      if (waitedMs > READY_WITHIN_MS)
        throw cannotStart("PostgreSQL did not become ready within ten minutes", [], error);
      if (waitedMs > nextNoticeMs) {
        log("waiting for PostgreSQL to become ready (it may be recovering from a crash)");
        nextNoticeMs += 10_000;
      }
    }
  }
}

/** Somebody suspended it, or a debugger did: what stands still hears no other signal than this and KILL. */
function wakeAll(pid: number): void {
  let children = "";
  try {
    children = readFileSync(`/proc/${pid}/task/${pid}/children`, "latin1");
  } catch {
    // Not every kernel lists them; those that stand still are killed in the end.
  }
  for (const one of [pid, ...children.split(" ").filter(Boolean).map(Number)]) signal(one, "SIGCONT");
}

/**
 * INT disconnects everybody and writes a last checkpoint; TERM would wait for clients to leave. All together takes less
 * than the half minute that orchestrators give; what was not written down is recovered from the log at the next start.
 */
async function stopInOrder({ pid, exited }: Postmaster): Promise<void> {
  const escalation: readonly (readonly [NodeJS.Signals, number])[] = [
    ["SIGINT", 10_000],
    ["SIGQUIT", 6000], // PostgreSQL itself kills children that do not leave within five seconds
    ["SIGKILL", 60_000],
  ];
  for (const [name, patienceMs] of escalation) {
    signal(pid, name);
    wakeAll(pid);
    const giveUp = new AbortController();
    const isOver = await Promise.race([
      exited.then(() => true),
      pause(patienceMs, false, { signal: giveUp.signal }).catch(() => false),
    ]);
    giveUp.abort();
    if (isOver) return;
  }
}

async function launch(
  dataDir: string,
  options: EmbeddedPostgresOptions,
  lock: DataDirLock,
): Promise<EmbeddedPostgres> {
  const prepared = await prepareCluster(dataDir, options);
  const postmaster = await startPostmaster(prepared, options);
  const exited = postmaster.exited.then((code) => {
    lock.release();
    return code;
  });
  const { name } = options;
  const connection = { host: prepared.socket.directory, port: PORT, user: name, database: name };
  try {
    await untilReady(postmaster, connection, options.log);
  } catch (error) {
    if (!postmaster.hasExited()) await stopInOrder(postmaster);
    throw error;
  }
  let stopping: Promise<void> | undefined;
  return {
    connection,
    pid: postmaster.pid,
    exited,
    stop() {
      stopping ??= postmaster.hasExited() ? Promise.resolve() : stopInOrder(postmaster);
      return stopping;
    },
  };
}

async function lockAndLaunch(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const dataDir = await openDataDir(options.dataDir);
  const lock = await lockDataDir(dataDir, options.name);
  try {
    return await launch(dataDir, options, lock);
  } catch (error) {
    lock.release();
    throw error;
  }
}

/** Starts the built-in PostgreSQL on its data directory. May be called again once `exited` has resolved. */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const { name, advice } = options;
  if (!NAME.test(name))
    throw new TypeError(`The name of an embedded PostgreSQL has to match ${NAME}: ${JSON.stringify(name)}`);
  try {
    return await lockAndLaunch(options);
  } catch (error) {
    throw advice && error instanceof EmbeddedPostgresError ? error.inWordsOf(advice) : error;
  }
}
