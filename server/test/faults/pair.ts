/**
 * A primary and a streaming standby from the npm package's PostgreSQL: stopped, copied, told whom to follow. Loss is
 * made as it comes about in life: the standby stops receiving, the primary goes on and dies, the standby is promoted.
 */
import { spawnSync } from "node:child_process";
import { appendFileSync, chmodSync, chownSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import type { EmbeddedPostgres } from "@keyward/embedded-postgres";
import { startOwnPostgres } from "../../src/platform/db/embedded.ts";
import { holds } from "./ground.ts";

interface Side {
  readonly dataDir: string;
  postgres: EmbeddedPostgres | undefined;
}

const folder = (): string => {
  const made = mkdtempSync(join(tmpdir(), "keyward-pair-"));
  chmodSync(made, 0o755);
  return made;
};

async function start(side: Side): Promise<EmbeddedPostgres> {
  side.postgres = await startOwnPostgres({
    dataDir: side.dataDir,
    log: () => undefined,
    durable: false,
    settings: { max_connections: "150", wal_keep_size: "256MB" },
  });
  return side.postgres;
}

function writeAs(path: string, text: string, like: string): void {
  writeFileSync(path, text);
  const { uid, gid } = statSync(like);
  chownSync(path, uid, gid);
}

export class Pair {
  #primary: Side = { dataDir: folder(), postgres: undefined };
  #standby: Side | undefined;
  readonly #folders: string[] = [];
  /** Where connections go: the same object for life, so that whoever connects by it follows the primary. */
  readonly address = { host: "", port: 0 };

  private constructor() {
    this.#folders.push(this.#primary.dataDir);
  }

  static async open(): Promise<Pair> {
    const pair = new Pair();
    await start(pair.#primary);
    appendFileSync(join(pair.#primary.dataDir, "postgres", "pg_hba.conf"), "local replication all trust\n");
    await pair.follow();
    return pair;
  }

  get connection(): EmbeddedPostgres["connection"] {
    const { postgres } = this.#primary;
    if (!postgres) throw new Error("there is no primary");
    return postgres.connection;
  }

  async query<Row extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<Row[]> {
    return ask<Row>(this.connection, text, values);
  }

  #lead(): void {
    const { host, port } = this.connection;
    Object.assign(this.address, { host, port });
  }

  /** A standby is made of the primary as it is, which is stopped for it. */
  async follow(): Promise<void> {
    await this.#primary.postgres?.stop();
    await this.#standby?.postgres?.stop();
    const standby: Side = { dataDir: folder(), postgres: undefined };
    this.#folders.push(standby.dataDir);
    const from = join(this.#primary.dataDir, "postgres");
    if (spawnSync("cp", ["-a", from, standby.dataDir]).status !== 0) throw new Error("no copy was made");
    const to = join(standby.dataDir, "postgres");
    const { connection } = await start(this.#primary);
    writeAs(join(to, "standby.signal"), "", to);
    const follows = `host=${connection.host} port=${connection.port} user=${connection.user}`;
    writeAs(join(to, "postgresql.auto.conf"), `primary_conninfo = '${follows}'\n`, to);
    this.#standby = standby;
    await start(standby);
    this.#lead();
    await this.caughtUp();
  }

  get #follower(): EmbeddedPostgres {
    const postgres = this.#standby?.postgres;
    if (!postgres) throw new Error("there is no standby");
    return postgres;
  }

  /** Everything that is committed now is with the standby. */
  async caughtUp(): Promise<void> {
    const [row] = await this.query<{ lsn: string }>("SELECT pg_current_wal_flush_lsn()::text AS lsn");
    const isThere = async (): Promise<boolean> =>
      (
        await ask<{ there: boolean }>(
          this.#follower.connection,
          "SELECT coalesce(pg_last_wal_replay_lsn() >= $1::pg_lsn, false) AS there",
          [row?.lsn],
        )
      )[0]?.there === true;
    if (!(await holds(isThere, 30))) throw new Error("the standby does not follow");
  }

  /** From now on nothing reaches the standby: asynchronous replication over a wire that broke. */
  async stopReceiving(): Promise<void> {
    const { connection } = this.#follower;
    await ask(connection, "ALTER SYSTEM SET primary_conninfo = ''");
    await ask(connection, "SELECT pg_reload_conf()");
    const isOver = async (): Promise<boolean> =>
      (await ask(connection, "SELECT 1 FROM pg_stat_wal_receiver")).length === 0;
    if (!(await holds(isOver, 10))) throw new Error("the standby goes on receiving");
  }

  /** From now on a commit waits until the standby has it. */
  async synchronous(): Promise<void> {
    await this.query("ALTER SYSTEM SET synchronous_standby_names = '*'");
    await this.query("SELECT pg_reload_conf()");
    const isSynchronous = async (): Promise<boolean> =>
      (await this.query("SELECT FROM pg_stat_replication WHERE sync_state = 'sync'")).length > 0;
    if (!(await holds(isSynchronous, 20))) throw new Error("the standby is not synchronous");
  }

  /** The standby is stopped, or its receiver alone stands still on an open connection; answers how to bring it back. */
  async standbyAway(how: "gone" | "frozen"): Promise<() => Promise<void>> {
    const standby = this.#standby as Side;
    if (how === "gone") {
      await standby.postgres?.stop();
      return async () => void (await start(standby));
    }
    const [receiver] = await ask<{ pid: number }>(
      this.#follower.connection,
      "SELECT pid FROM pg_stat_wal_receiver",
    );
    if (!receiver) throw new Error("the standby does not receive");
    process.kill(receiver.pid, "SIGSTOP");
    return async () => void process.kill(receiver.pid, "SIGCONT");
  }

  /** The primary dies at once, or is stopped in order, which hands the standby all it has. */
  async endPrimary(how: "killed" | "in order"): Promise<void> {
    const { postgres } = this.#primary;
    if (how === "in order") return void (await postgres?.stop());
    process.kill(postgres?.pid ?? 0, "SIGQUIT");
    await postgres?.exited;
  }

  async restart(): Promise<void> {
    await start(this.#primary);
    this.#lead();
  }

  async promote(): Promise<void> {
    await ask(this.#follower.connection, "SELECT pg_promote(true, 30)");
    this.#primary = this.#standby as Side;
    this.#standby = undefined;
    this.#lead();
  }

  async close(): Promise<void> {
    await this.#standby?.postgres?.stop();
    await this.#primary.postgres?.stop();
    for (const each of this.#folders) rmSync(each, { recursive: true, force: true });
  }
}

async function ask<Row extends pg.QueryResultRow>(
  connection: EmbeddedPostgres["connection"],
  text: string,
  values: unknown[] = [],
): Promise<Row[]> {
  const client = new pg.Client({ ...connection, ssl: false });
  client.on("error", () => undefined);
  await client.connect();
  try {
    return (await client.query<Row>(text, values)).rows;
  } finally {
    await client.end();
  }
}
