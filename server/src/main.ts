/** Reads the configuration, opens the house, listens, and closes it in order when told to stop. */
import { systemClock } from "./platform/clock.ts";
import { configHelp, ConfigError, readConfig, type Config } from "./platform/config.ts";
import { RootKeyError } from "./platform/crypto/index.ts";
import { MigrationError } from "./platform/db/index.ts";
import { EmbeddedPostgresError, startEmbeddedPostgres, type EmbeddedPostgres } from "./platform/db/embedded/index.ts";
import { createLog, type Log } from "./platform/log.ts";
import { readOrCreateRootKey } from "./platform/root-key.ts";
import { openHouse, type House } from "./house.ts";
import { VERSION } from "./status/index.ts";

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

interface Running {
  readonly house: House;
  readonly postgres: EmbeddedPostgres | undefined;
}

async function start(config: Config, log: Log): Promise<Running> {
  const startedAt = performance.now();
  const rootKey = config.rootKey ?? (await readOrCreateRootKey(config.dataDir));
  const postgres = config.databaseUrl ? undefined : await startEmbeddedPostgres({ dataDir: config.dataDir, log: (line) => log.debug({ postgres: line }, "postgres") });
  try {
    const connection = postgres ? { ...postgres.connection, ssl: false } : { connectionString: config.databaseUrl?.open() ?? "" };
    const house = await openHouse({ config, clock: systemClock, log, connection, rootKey });
    house.startWork();
    const port = await house.listen();
    log.info({ url: `http://${config.host}:${port}`, ms: Math.round(performance.now() - startedAt) }, "Keyward is ready");
    return { house, postgres };
  } catch (error) {
    await postgres?.stop();
    throw error;
  }
}

function stopOnSignal({ house, postgres }: Running, log: Log): void {
  let stopping = false;
  const stop = async (why: string, code: number): Promise<void> => {
    if (stopping) return;
    stopping = true;
    log.info({ why }, "stopping: no new requests, finishing those under way");
    setTimeout(() => process.exit(1), STOP_PATIENCE_MS).unref();
    await house.close();
    await postgres?.stop();
    log.info({}, "stopped");
    process.exitCode = code;
    setTimeout(() => process.exit(code), 100).unref();
  };
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => void stop(signal, 0));
  // Without its database the server is no use; whoever supervises it starts both again, and nothing is lost.
  void postgres?.exited.then(() => stop("the embedded PostgreSQL ended", 1));
}

async function main(): Promise<void> {
  if (process.argv.includes("--help")) return void process.stdout.write(HELP);
  if (process.argv.includes("--version")) return void process.stdout.write(`${VERSION}\n`);
  const config = readConfig(process.env);
  const log = createLog(config.logLevel);
  stopOnSignal(await start(config, log), log);
}

main().catch((error: unknown) => {
  const isExplained = EXPLAINED.some((kind) => error instanceof kind);
  process.stderr.write(`${isExplained ? (error as Error).message : ((error as Error).stack ?? String(error))}\n`);
  process.exit(1);
});
