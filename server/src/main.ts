/** Reads the configuration, opens the house, listens, and closes it in order when told to stop. */
import { isIPv6 } from "node:net";
import { systemClock } from "./platform/clock.ts";
import { configHelp, ConfigError, readConfig, type Config } from "./platform/config.ts";
import { RootKeyError } from "./platform/crypto/index.ts";
import { MigrationError } from "./platform/db/index.ts";
import {
  EmbeddedPostgresError,
  startEmbeddedPostgres,
  type EmbeddedPostgres,
} from "./platform/db/embedded/index.ts";
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

const STOP_PATIENCE_MS = 30_000;
/** Failures that a person can mend and that need no stack to be understood. */
const EXPLAINED = [ConfigError, RootKeyError, MigrationError, EmbeddedPostgresError];

/**
 * Pauses before the next start of a database that keeps falling over; the last one is repeated. Never given up: on a
 * full disk PostgreSQL ends and cannot start, and the server that waits for room comes back by itself.
 */
const RESTART_PAUSES_MS = [0, 500, 1000, 2000, 5000, 10_000] as const;
const FALLS_COUNT_MS = 60_000;

/** The embedded PostgreSQL, kept alive: one that dies is started again, and the pools find it at the same address. */
interface KeptPostgres {
  readonly connection: EmbeddedPostgres["connection"];
  stop(): Promise<void>;
}

/** For reading, listening, PostgreSQL's own reserve, and whoever looks in with psql. */
const OTHER_CONNECTIONS = 30;

async function keepPostgres(
  { dataDir, databaseConnections }: Pick<Config, "dataDir" | "databaseConnections">,
  log: Log,
): Promise<KeptPostgres> {
  const launch = () =>
    startEmbeddedPostgres({
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
}

async function start(config: Config, log: Log): Promise<Running> {
  const startedAt = performance.now();
  const rootKey = config.rootKey ?? (await readOrCreateRootKey(config.dataDir));
  const postgres = config.databaseUrl ? undefined : await keepPostgres(config, log);
  try {
    const connection = postgres
      ? { ...postgres.connection, ssl: false }
      : { connectionString: config.databaseUrl?.open() ?? "" };
    const house = await openHouse({ config, clock: systemClock, log, connection, rootKey });
    house.startWork();
    const port = await house.listen();
    log.info(
      {
        url: `http://${isIPv6(config.host) ? `[${config.host}]` : config.host}:${port}`,
        ms: Math.round(performance.now() - startedAt),
      },
      "Keyward is ready",
    );
    return { house, postgres };
  } catch (error) {
    await postgres?.stop();
    throw error;
  }
}

function stopOnSignal({ house, postgres }: Running, log: Log): void {
  let stopping = false;
  const stop = async (why: string): Promise<void> => {
    if (stopping) return;
    stopping = true;
    log.info({ why }, "stopping: no new requests, finishing those under way");
    setTimeout(() => process.exit(1), STOP_PATIENCE_MS).unref();
    await house.close();
    await postgres?.stop();
    log.info({}, "stopped");
    setTimeout(() => process.exit(0), 100).unref();
  };
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => void stop(signal));
}

async function main(): Promise<void> {
  if (process.argv.includes("--help")) return void process.stdout.write(HELP);
  if (process.argv.includes("--version")) return void process.stdout.write(`${VERSION}\n`);
  const config = readConfig(process.env);
  const log = createLog(config.logLevel);
  stopOnSignal(await start(config, log), log);
}

const sentence = (error: unknown): string => `${reasonOf(error).replace(/\.$/, "")}.`;

/** One line for what a person can mend; a stack only for what is our bug. */
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
