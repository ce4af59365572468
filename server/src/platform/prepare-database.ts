/** Before any room opens: check the root key, migrate the schema, check that our session settings are in force. */
import type pg from "pg";
import { ConfigError, type Config } from "./config.ts";
import { checkRootKey } from "./crypto/index.ts";
import {
  isUpToDate,
  migrate,
  MIGRATIONS,
  watchMigration,
  withOwnConnection,
  type Database,
  type LockHolder,
} from "./db/index.ts";
import type { Log } from "./log.ts";
import type { Redacted } from "./redacted.ts";
import { telling } from "./telling.ts";

interface PreparationNeeds {
  readonly config: Pick<Config, "rootKeyPrevious">;
  readonly log: Log;
  readonly rootKey: Redacted<Buffer>;
}

type Check = (client: pg.Client) => Promise<void>;

function bringUpToDate(database: Database, check: Check, log: Log): Promise<string[]> {
  const onWait = (holders: readonly LockHolder[], seconds: number): void =>
    log.warn(
      { holders, seconds },
      "the start waits for another process that holds the lock of the migrations; if that is no Keyward at work, end it: SELECT pg_terminate_backend(pid)",
    );
  const onBlocked = (pids: readonly number[]): void =>
    log.warn(
      { pids },
      "a migration waits for locks that others hold; if they do not end by themselves, end them: SELECT pg_terminate_backend(pid)",
    );
  return withOwnConnection(database, "migrate", async (client) => {
    const stop = watchMigration(database, client, onBlocked);
    try {
      return await migrate(client, MIGRATIONS, { onWait, first: () => check(client) });
    } finally {
      stop();
    }
  });
}

export async function prepareDatabase(
  database: Database,
  { config, log, rootKey }: PreparationNeeds,
): Promise<void> {
  const check: Check = (client) =>
    checkRootKey(rootKey.open(), (text) => client.query(text), config.rootKeyPrevious?.open());
  const isCurrent = await telling(log, "the database to say which schema and root key it has", () =>
    withOwnConnection(database, "look", async (client) => {
      if (!(await isUpToDate(client, MIGRATIONS))) return false;
      await check(client);
      return true;
    }),
  );
  if (!isCurrent) {
    const applied = await telling(log, "the schema to be brought up to date", () =>
      bringUpToDate(database, check, log),
    );
    if (applied.length > 0) log.info({ applied }, "the database schema was brought up to date");
  }
  const hasOwnSettings = await telling(log, "the database to show its settings", () =>
    database.hasOwnSettings(),
  );
  if (!hasOwnSettings)
    throw new ConfigError(
      "DATABASE_URL leads through a pooler that drops the settings of a session. Name the database itself, or a pooler in session mode that passes startup options on.",
    );
}
