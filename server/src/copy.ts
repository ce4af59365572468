/** `npm run copy-database`: copies the instance to another PostgreSQL, and prints how to start it there. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { EmbeddedPostgresError } from "@keyward/embedded-postgres";
import { ConfigError, readConfig, type Config } from "./platform/config.ts";
import { CopyError, copyDatabase, MIGRATIONS, MigrationError } from "./platform/db/index.ts";
import { startOwnPostgres } from "./platform/db/embedded.ts";

const TARGET = "TARGET_DATABASE_URL";

const HELP = `Copies everything a Keyward instance keeps into another, empty PostgreSQL. Stop the server first.

  ${TARGET}=postgres://user:password@host/database npm run copy-database

The source is what npm start would use: the data folder (KEYWARD_DATA_DIR), or DATABASE_URL.
The source is only read. Values stay encrypted: the root key is needed to start there, not to copy.
`;

const say = (line: string): void => void process.stdout.write(`${line}\n`);

function readTarget(): string {
  const url = process.env[TARGET];
  if (url === undefined || !/^postgres(ql)?:\/\//.test(url))
    throw new ConfigError(`${TARGET} must be a URL that starts with postgres://`);
  return url;
}

/** Never creates a new one: in the wrong folder it fails with a message. */
async function startSource({ databaseUrl, dataDir }: Config) {
  if (databaseUrl) return undefined;
  if (!existsSync(join(dataDir, "postgres", "PG_VERSION")))
    throw new ConfigError(
      `${dataDir} holds no database. Set KEYWARD_DATA_DIR to the data folder, or DATABASE_URL.`,
    );
  return startOwnPostgres({ dataDir, log: () => undefined });
}

async function copy(): Promise<void> {
  const target = readTarget();
  const config = readConfig({ KEYWARD_ROOT_KEY: Buffer.alloc(32).toString("base64"), ...process.env });
  const postgres = await startSource(config);
  try {
    const { tables, rows } = await copyDatabase({
      source: postgres
        ? { ...postgres.connection, ssl: false }
        : { connectionString: config.databaseUrl?.open() ?? "" },
      target: { connectionString: target },
      migrations: MIGRATIONS,
      say,
    });
    say(`\nCopied ${rows.toLocaleString("en")} rows of ${tables} tables, and counted them on both sides.`);
    const key = config.databaseUrl
      ? "the same KEYWARD_ROOT_KEY as before"
      : `KEYWARD_ROOT_KEY="$(cat ${config.dataDir}/root.key)"`;
    say(`Start the nodes with DATABASE_URL set to the target and ${key}.`);
  } finally {
    await postgres?.stop();
  }
}

const EXPLAINED = [ConfigError, CopyError, MigrationError, EmbeddedPostgresError];

if (process.argv.includes("--help")) process.stdout.write(HELP);
else
  copy().catch((error: unknown) => {
    const { message, stack } = error as Error;
    const isExplained = EXPLAINED.some((kind) => error instanceof kind) || "code" in (error as object);
    process.stderr.write(`${isExplained ? message : stack}\n`);
    process.exitCode = 1;
  });
