// A process of its own: it starts others and runs long.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, chownSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { systemClock } from "../clock.ts";
import { Problem } from "../problem.ts";
import type { EmbeddedPostgres } from "@keyward/embedded-postgres";
import { startOwnPostgres } from "./embedded.ts";
import { openDatabase, slowSql, sql, type Database } from "./index.ts";

interface Where {
  readonly isStandby: boolean;
}
const WHERE = `SELECT pg_is_in_recovery() AS "isStandby"`;
const quick = sql<Where>(WHERE);
const slow = slowSql<Where>(WHERE);
const change = sql(`CREATE TABLE made ()`);

/** One address for two databases, as a name or a load balancer is: new connections go where the primary is said to be. */
async function openSwitchboard(): Promise<{ port: number; lead(to: EmbeddedPostgres): void; close(): void }> {
  let target: EmbeddedPostgres | undefined;
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const { host = "", port = 0 } = target?.connection ?? {};
    const database = connect(`${host}/.s.PGSQL.${port}`);
    for (const [one, other] of [
      [client, database],
      [database, client],
    ] as const) {
      sockets.add(one);
      one.on("error", () => other.destroy()).on("close", () => other.destroy());
      one.pipe(other);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    lead: (to) => (target = to),
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

describe("a database that fails over", () => {
  const folders: string[] = [];
  const servers: EmbeddedPostgres[] = [];
  let database: Database;
  let switchboard: Awaited<ReturnType<typeof openSwitchboard>>;

  const folder = (): string => {
    const made = mkdtempSync(join(tmpdir(), "keyward-standby-"));
    chmodSync(made, 0o755);
    folders.push(made);
    return made;
  };
  const start = async (dataDir: string): Promise<EmbeddedPostgres> => {
    const started = await startOwnPostgres({ dataDir, log: () => undefined, durable: false });
    servers.push(started);
    return started;
  };

  before(async () => {
    const [primary, standby] = [folder(), folder()];
    await (await start(primary)).stop();
    assert.equal(spawnSync("cp", ["-a", join(primary, "postgres"), standby]).status, 0);
    const signal = join(standby, "postgres", "standby.signal");
    writeFileSync(signal, "");
    const { uid, gid } = statSync(join(standby, "postgres"));
    chownSync(signal, uid, gid);
    await start(primary);
    await start(standby);
    switchboard = await openSwitchboard();
    const { user, database: name } = (servers[1] as EmbeddedPostgres).connection;
    database = openDatabase({
      connection: { host: "127.0.0.1", port: switchboard.port, user, database: name, ssl: false },
      connections: 2,
      clock: systemClock,
      onError: () => undefined,
    });
  });
  after(async () => {
    await database.close();
    switchboard.close();
    for (const server of servers) await server.stop();
    for (const made of folders) rmSync(made, { recursive: true, force: true });
  });

  it("is read from the standby, and from the primary as soon as there is one", async () => {
    const [, primary, standby] = servers as [EmbeddedPostgres, EmbeddedPostgres, EmbeddedPostgres];
    const look = () =>
      Promise.all(
        [quick, quick, slow, slow].map(
          async (statement) => (await database.read((q) => q.first(statement), { tenant: "org" }))?.isStandby,
        ),
      );
    switchboard.lead(standby);
    assert.deepEqual(await look(), [true, true, true, true]);
    await assert.rejects(
      database.write((tx) => tx.rows(change), { audited: false }),
      (error: unknown) => error instanceof Problem && error.status === 503,
    );
    switchboard.lead(primary);
    assert.deepEqual(await look(), [false, false, false, false]);
    await database.write((tx) => tx.rows(change), { audited: false });
  });
});
