/**
 * Migrations: numbered SQL files, forward only, each in its own transaction, all under one advisory lock so that
 * of several nodes starting at once exactly one does the work and the others wait for it. Most starts find nothing to
 * do and never ask for the lock.
 */
import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type pg from "pg";
import { takeMigrationLock, type OnWait } from "./migration-lock.ts";

/** Where the files are, seen from the compiled server. */
export const MIGRATIONS = fileURLToPath(new URL("../../../../migrations", import.meta.url));

export class MigrationError extends Error {
  override readonly name = "MigrationError";
}

interface Migration {
  readonly id: string;
  readonly text: string;
  readonly digest: string;
}

async function readMigrations(folder: string): Promise<Migration[]> {
  const names = (await readdir(folder)).filter((name) => /^\d{4}_[a-z0-9_-]+\.sql$/.test(name)).sort();
  return Promise.all(
    names.map(async (name) => {
      const text = await readFile(join(folder, name), "utf8");
      return { id: name.slice(0, -4), text, digest: createHash("sha256").update(text).digest("hex") };
    }),
  );
}

async function apply(client: pg.Client, migration: Migration): Promise<void> {
  await client.query("BEGIN");
  try {
    await client.query(migration.text);
    await client.query("INSERT INTO migrations (id, digest) VALUES ($1, $2)", [
      migration.id,
      migration.digest,
    ]);
    await client.query("COMMIT");
  } catch (error) {
    await client.query("ROLLBACK").catch(() => undefined);
    throw new MigrationError(
      `Migration ${migration.id} failed and was rolled back: ${(error as Error).message}`,
      { cause: error },
    );
  }
}

const OLDEST_VERSION = 15;

/** Checked here, because later it would be a riddle: a syntax error in a migration, or a text that cannot be stored. */
async function checkServer(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ number: string; version: string; encoding: string }>(
    `SELECT current_setting('server_version_num') AS number, current_setting('server_version') AS version,
            current_setting('server_encoding') AS encoding`,
  );
  const [server] = rows;
  if (!server) return;
  if (Number(server.number) < OLDEST_VERSION * 10_000)
    throw new MigrationError(
      `The database is PostgreSQL ${server.version}; Keyward needs ${OLDEST_VERSION} or newer.`,
    );
  if (server.encoding !== "UTF8")
    throw new MigrationError(
      `The database stores text as ${server.encoding}; Keyward needs UTF8 (CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0).`,
    );
}

const hasTable = async (client: pg.Client): Promise<boolean> => {
  const { rows } = await client.query<{ name: string | null }>("SELECT to_regclass('migrations') AS name");
  return rows[0]?.name !== null;
};

async function dueOf(client: pg.Client, wanted: readonly Migration[]): Promise<Migration[]> {
  const { rows } = (await hasTable(client))
    ? await client.query<{ id: string; digest: string }>("SELECT id, digest FROM migrations ORDER BY id")
    : { rows: [] };
  const applied = new Map(rows.map((row) => [row.id, row.digest]));
  const known = new Set(wanted.map((migration) => migration.id));
  const foreign = rows.find((row) => !known.has(row.id));
  if (foreign)
    throw new MigrationError(
      `The database has migration ${foreign.id}, which this version does not know: it was used by a newer Keyward. Start that version instead.`,
    );
  const edited = wanted.find(
    (migration) => applied.has(migration.id) && applied.get(migration.id) !== migration.digest,
  );
  if (edited)
    throw new MigrationError(
      `Migration ${edited.id} differs from the one that this database was built with.`,
    );
  return wanted.filter((migration) => !applied.has(migration.id));
}

/** Is the schema that of this version? Asks without any lock. */
export async function isUpToDate(client: pg.Client, folder: string): Promise<boolean> {
  await checkServer(client);
  return (await dueOf(client, await readMigrations(folder))).length === 0;
}

interface MigrationWishes {
  /** Called every few seconds while somebody else holds the lock. */
  readonly onWait?: OnWait;
  /** Asked under the lock, before anything is changed. */
  readonly first?: () => Promise<void>;
}

/** Brings the schema up to date and answers the ids it applied. */
export async function migrate(
  client: pg.Client,
  folder: string,
  { onWait, first }: MigrationWishes = {},
): Promise<string[]> {
  await checkServer(client);
  const wanted = await readMigrations(folder);
  const isDone = async () => (await dueOf(client, wanted)).length === 0;
  if (await isDone()) return [];
  const unlock = await takeMigrationLock(client, { isDone, onWait });
  try {
    await first?.();
    const due = await dueOf(client, wanted);
    if (due.length === 0) return [];
    if (!(await hasTable(client)))
      await client.query(
        "CREATE TABLE migrations (id text PRIMARY KEY, digest text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())",
      );
    for (const migration of due) await apply(client, migration);
    return due.map((migration) => migration.id);
  } finally {
    await unlock().catch(() => undefined);
  }
}
