/** Reads the configuration, opens the rooms, listens, and shuts down in order on a signal. */
import { createServer, isIPv6 } from "node:net";
import { EmbeddedPostgresError, type EmbeddedPostgres } from "@keyward/embedded-postgres";
import { systemClock } from "./platform/clock.ts";
import { createClockWatch } from "./platform/clock-watch.ts";
import { configHelp, ConfigError, readConfig, type Config } from "./platform/config.ts";
import { RootKeyError } from "./platform/crypto/index.ts";
import { isWorthWaitingFor, MigrationError } from "./platform/db/index.ts";
import { startOwnPostgres } from "./platform/db/embedded.ts";
import { createLog, reasonOf, type Log } from "./platform/log.ts";
import { Problem } from "./platform/problem.ts";
import { readOrCreateRootKey } from "./platform/root-key.ts";
import { openHouse, type House } from "./house.ts";
import { VERSION } from "./version.ts";

const HELP = `keyward-server ${VERSION}

Starts the Keyward server. Configuration comes from the environment:

${configHelp()}

Options:
  --help     this text
  --version  the version
`;

/** For closing, after the drain; an embedded database may take longer to write down what it has in memory. */
const CLOSE_MS = 1900;
const POSTGRES_STOP_MS = 30_000;
/** Failures that an operator can fix and that need no stack trace. */
const EXPLAINED = [ConfigError, RootKeyError, MigrationError, EmbeddedPostgresError];

/**
 * Back-off before the next start of a database that keeps crashing; the last one is repeated. Never given up: on a
 * full disk PostgreSQL ends and cannot start, and the server that waits for room comes back by itself.
 */
const RESTART_PAUSES_MS = [0, 500, 1000, 2000, 5000, 10_000] as const;
const FALLS_COUNT_MS = 60_000;

/** The embedded PostgreSQL, kept alive: one that dies is started again, and the pools find it at the same address. */
interface KeptPostgres {
  readonly connection: EmbeddedPostgres["connection"];
  stop(): Promise<void>;
}

/** For reads, LISTEN, PostgreSQL's own reserve, and an operator's psql. */
const OTHER_CONNECTIONS = 30;

async function keepPostgres(
  { dataDir, databaseConnections }: Pick<Config, "dataDir" | "databaseConnections">,
  log: Log,
): Promise<KeptPostgres> {
  const launch = () =>
    startOwnPostgres({
      dataDir,
      // A panic is why it ended; nobody should have to ask for it.
      log: (line) =>
        line.startsWith("PANIC:")
          ? log.error({ reason: line }, "postgres")
          : log.debug({ postgres: line }, "postgres"),
      settings: { max_connections: String(Math.max(100, databaseConnections + OTHER_CONNECTIONS)) },
    });
  let current = await launch();
  let isStopping = false;
  const { connection } = current;
  let falls: number[] = [];
  const startAgain = async (): Promise<void> => {
    const now = performance.now();
    falls = [...falls.filter((at) => now - at < FALLS_COUNT_MS), now];
    const waitMs = RESTART_PAUSES_MS[falls.length - 1] ?? 10_000;
    // The timer does not keep a process alive that was told to stop.
    await new Promise((resolve) => setTimeout(resolve, waitMs).unref());
    if (isStopping) return;
    try {
      current = await launch();
      if (isStopping) await current.stop();
    } catch (error) {
      log.error({ reason: (error as Error).message }, "the embedded PostgreSQL cannot be started; trying on");
    }
  };
  const keep = async (): Promise<void> => {
    while (!isStopping) {
      const code = await current.exited;
      if (isStopping) return;
      log.warn({ code }, "the embedded PostgreSQL ended; starting it again");
      await startAgain();
    }
  };
  void keep();
  return {
    connection,
    stop() {
      isStopping = true;
      return current.stop();
    },
  };
}

interface Running {
  readonly house: House;
  readonly postgres: KeptPostgres | undefined;
  readonly url: string;
}

/** Before minutes are spent on a database: a port that is taken is reported at once. */
function tryPort({ host, port }: Config): Promise<void> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", reject);
    probe.listen({ host, port }, () => probe.close(() => resolve()));
  });
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const ROOM_PAUSE_MS = 2000;

/** A database that has no connection to spare, is just starting, or is locked, is not a mistake in the configuration: it is waited for. */
async function whenThereIsRoom<T>(open: () => Promise<T>, log: Log): Promise<T> {
  for (;;) {
    try {
      return await open();
    } catch (error) {
      if (!isWorthWaitingFor(error)) throw error;
      log.warn({ reason: reasonOf(error) }, "the database does not let us begin yet; waiting for it");
      await sleep(ROOM_PAUSE_MS);
    }
  }
}

async function start(config: Config, log: Log): Promise<Running> {
  await tryPort(config);
  const rootKey = config.rootKey ?? (await readOrCreateRootKey(config.dataDir));
  const postgres = config.databaseUrl ? undefined : await keepPostgres(config, log);
  try {
    const connection = postgres
      ? { ...postgres.connection, ssl: false }
      : { connectionString: config.databaseUrl?.open() ?? "" };
    const clockWatch = createClockWatch(systemClock, log);
    const options = { config, clock: clockWatch.clock, clockWatch, log, connection, rootKey };
    const house = await whenThereIsRoom(() => openHouse(options), log);
    house.startWork();
    const port = await house.listen();
    return {
      house,
      postgres,
      url: `http://${isIPv6(config.host) ? `[${config.host}]` : config.host}:${port}`,
    };
  } catch (error) {
    await postgres?.stop();
    throw error;
  }
}

/**
 * SIGTERM comes from an orchestrator: the node answers not ready and goes on serving until load balancers have noticed.
 * Ctrl-C comes from a person, who does not want to wait; a second signal does not wait either.
 */
function stopOnSignal({ house, postgres }: Running, { drainSeconds }: Config, log: Log): void {
  let hurry: () => void = () => undefined;
  const hurried = new Promise<void>((resolve) => (hurry = resolve));
  let stopping = false;
  const stop = async (why: string): Promise<void> => {
    if (why === "SIGINT" || stopping) hurry();
    if (stopping) return;
    stopping = true;
    log.info({ why, drainSeconds }, "stopping: not ready for new work, finishing what is under way");
    house.drain(drainSeconds * 1000);
    await Promise.race([sleep(drainSeconds * 1000), hurried]);
    const isClosed = await Promise.race([house.close().then(() => true), sleep(CLOSE_MS).then(() => false)]);
    if (!isClosed) log.warn({}, "something is still under way; it is left to another node or the next start");
    const readings = house.secrets.unwrittenReads();
    if (readings > 0)
      log.error(
        { readings },
        "readings of secrets are lost to the audit log: they could not be written down before the end (KEYWARD_AUDIT_READS=strict answers none before it is)",
      );
    if (postgres) {
      setTimeout(() => process.exit(1), POSTGRES_STOP_MS).unref();
      await postgres.stop();
    }
    log.info({}, "stopped");
    setTimeout(() => process.exit(0), 50).unref();
  };
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => void stop(signal));
}

async function main(): Promise<void> {
  if (process.argv.includes("--help")) return void process.stdout.write(HELP);
  if (process.argv.includes("--version")) return void process.stdout.write(`${VERSION}\n`);
  const config = readConfig(process.env);
  const log = createLog(config.logLevel);
  const startedAt = performance.now();
  const running = await start(config, log);
  // Before the start is announced: a supervisor may stop it the next moment.
  stopOnSignal(running, config, log);
  log.info({ url: running.url, ms: Math.round(performance.now() - startedAt) }, "Keyward is ready");
}

const sentence = (error: unknown): string => `${reasonOf(error).replace(/\.$/, "")}.`;

/** One line for what an operator can fix; a stack trace only for a bug. */
function explain(error: unknown): string {
  const { code, port } = error as { code?: string; port?: number };
  if (code === "EADDRINUSE") return `PORT ${port} is in use by another process. Set PORT to a free one.`;
  if (code === "EACCES" && port !== undefined)
    return `PORT ${port} may not be opened by this user. Set PORT to one above 1023.`;
  if (error instanceof Problem && error.status === 503)
    return `DATABASE_URL: the database cannot be reached: ${sentence(error)}`;
  // PostgreSQL's own: a right that is missing, mostly.
  if (typeof error === "object" && error !== null && "severity" in error)
    return `DATABASE_URL: the database refuses: ${sentence(error)}`;
  if (EXPLAINED.some((kind) => error instanceof kind)) return (error as Error).message;
  return (error as Error).stack ?? String(error);
}

main().catch((error: unknown) => {
  process.stderr.write(`${explain(error)}\n`);
  process.exit(1);
});
