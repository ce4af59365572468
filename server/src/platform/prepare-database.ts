/** Before any room opens: the right root key for what is there, the schema of this version, and our own settings in force. */
import { ConfigError, type Config } from "./config.ts";
import { checkRootKey } from "./crypto/index.ts";
import { migrate, MIGRATIONS, type Database } from "./db/index.ts";
import type { Log } from "./log.ts";
import type { Sealed } from "./sealed.ts";

export interface PreparationNeeds {
  readonly config: Pick<Config, "rootKeyPrevious">;
  readonly log: Log;
  readonly rootKey: Sealed<Buffer>;
}

export async function prepareDatabase(
  database: Database,
  { config, log, rootKey }: PreparationNeeds,
): Promise<void> {
  const client = await database.connect({ isPatient: true });
  try {
    await checkRootKey(rootKey.open(), (text) => client.query(text), config.rootKeyPrevious?.open());
    const applied = await migrate(client, MIGRATIONS);
    if (applied.length > 0) log.info({ applied }, "the database schema was brought up to date");
  } finally {
    await client.end();
  }
  if (!(await database.hasOwnSettings()))
    throw new ConfigError(
      "DATABASE_URL leads through a pooler that drops the settings of a session. Name the database itself, or a pooler in session mode that passes startup options on.",
    );
}
