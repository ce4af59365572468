/**
 * A real PostgreSQL for the tests. The runner (scripts/test.mjs) starts one for all files and names it in the
 * environment; a file that is run alone starts its own. Every test house gets a database of its own, copied from a
 * template that has the migrations applied.
 */
import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { migrate, MIGRATIONS } from "../src/platform/db/index.ts";
import { startOwnPostgres } from "../src/platform/db/embedded.ts";

export const SERVER_VARIABLE = "KEYWARD_TEST_POSTGRES";
const TEMPLATE = "keyward_template";

export interface PostgresServer {
  readonly host: string;
  readonly port: number;
  readonly user: string;
}

export interface TestPostgres {
  readonly server: PostgresServer;
  stop(): Promise<void>;
}

export async function withClient<T>(
  server: PostgresServer,
  database: string,
  work: (client: pg.Client) => Promise<T>,
): Promise<T> {
  const client = new pg.Client({ ...server, database, ssl: false });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

export async function startTestPostgres(): Promise<TestPostgres> {
  const dataDir = await mkdtemp(join(tmpdir(), "keyward-test-"));
  const postgres = await startOwnPostgres({
    dataDir,
    log: () => undefined,
    durable: false,
    // No vacuum of its own: what it does depends on when it comes by.
    settings: { max_connections: "400", autovacuum: "off" },
  });
  const { host, port, user } = postgres.connection;
  const server = { host, port, user };
  await withClient(server, "postgres", (client) => client.query(`CREATE DATABASE ${TEMPLATE}`));
  await withClient(server, TEMPLATE, (client) => migrate(client, MIGRATIONS));
  return {
    server,
    async stop() {
      await postgres.stop();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

let own: Promise<TestPostgres> | undefined;

async function theServer(): Promise<PostgresServer> {
  const given = process.env[SERVER_VARIABLE];
  if (given !== undefined) return JSON.parse(given) as PostgresServer;
  own ??= startTestPostgres();
  return (await own).server;
}

/** Ends the server if this process started one. */
export async function stopOwnPostgres(): Promise<void> {
  await (await own)?.stop();
  own = undefined;
}

export interface TestDatabase {
  readonly server: PostgresServer;
  readonly connection: PostgresServer & { readonly database: string; readonly ssl: false };
  drop(): Promise<void>;
}

export async function createTestDatabase(): Promise<TestDatabase> {
  const server = await theServer();
  const database = `test_${randomBytes(6).toString("hex")}`;
  // Two copies of one template at the same moment refuse each other; the lock lines them up across processes.
  await withClient(server, "postgres", async (client) => {
    await client.query("SELECT pg_advisory_lock(4711)");
    await client.query(`CREATE DATABASE ${database} TEMPLATE ${TEMPLATE} STRATEGY FILE_COPY`);
  });
  return {
    server,
    connection: { ...server, database, ssl: false },
    drop: () =>
      withClient(
        server,
        "postgres",
        async (client) => void (await client.query(`DROP DATABASE IF EXISTS ${database} WITH (FORCE)`)),
      ),
  };
}
