/** The house that is fuzzed: on a database of its own, with a log that only remembers bugs. */
import { openHouse } from "../../src/house.ts";
import { steppedClock } from "../../src/platform/clock.ts";
import { readConfig } from "../../src/platform/config.ts";
import { weakenPasswordsForTests } from "../../src/platform/crypto/passwords.ts";
import type { Log } from "../../src/platform/log.ts";
import { redact } from "../../src/platform/redacted.ts";
import { createTestDatabase, stopOwnPostgres } from "../postgres.ts";

export async function openFuzzHouse() {
  // Slow on purpose, and on a busy machine slow enough to look stuck.
  weakenPasswordsForTests();
  const database = await createTestDatabase();
  const rootKey = redact(Buffer.alloc(32, 7));
  const bugs: string[] = [];
  const note = (fields: unknown) => {
    const { reason, stack } = fields as { reason?: string; stack?: string };
    bugs.push(stack ?? reason ?? JSON.stringify(fields));
  };
  const nothing = () => undefined;
  const log = { debug: nothing, info: nothing, warn: nothing, error: note, fatal: note } as unknown as Log;
  const config = readConfig({
    PORT: "0",
    KEYWARD_RATE_LIMIT_READ: "0",
    KEYWARD_RATE_LIMIT_WRITE: "0",
    KEYWARD_RATE_LIMIT_LOGIN: "0",
    KEYWARD_ALLOW_PRIVATE_TARGETS: "127.0.0.0/8",
    DATABASE_URL: "postgres://unused",
    KEYWARD_ROOT_KEY: rootKey.open().toString("base64"),
  });
  const house = await openHouse({
    config,
    clock: steppedClock(),
    log,
    connection: database.connection,
    rootKey,
  });
  const base = `http://127.0.0.1:${await house.listen()}`;
  const close = async (): Promise<void> => {
    await house.close();
    await database.drop();
    await stopOwnPostgres();
  };
  return { house, base, bugs, close };
}
