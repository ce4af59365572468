/**
 * Secrets under kill -9. Writers change secrets of their own folders through a real server process that is killed at
 * random moments. After each restart: every acknowledged change is there, the one whose answer never came happened
 * as a whole or not at all, and every history is complete. KEYWARD_SECRET_KILLS says how many kills (2, or 8 in the full run),
 * KEYWARD_FAULTS_SEED which ones.
 */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, test } from "node:test";
import { clientOf, OWNER, type Client } from "../harness.ts";
import { createTestDatabase, stopOwnPostgres, withClient } from "../postgres.ts";
import { startServer, type ServerProcess } from "../process.ts";
import { dice } from "./load.ts";
import { sized } from "../full-size.ts";

const KILLS = Number(process.env["KEYWARD_SECRET_KILLS"] ?? sized(2, 8));
const WRITERS = 4;
const KEYS = ["A", "B", "C", "D"];

after(() => stopOwnPostgres());

type State = ReadonlyMap<string, string>;
interface Attempt {
  readonly after: State;
  send(client: Client): Promise<{ status: number }>;
}

const SEED = Number(process.env["KEYWARD_FAULTS_SEED"] ?? Math.floor(Math.random() * 2 ** 31));

class Writer {
  readonly path: string;
  readonly #at: Record<string, unknown>;
  state: State = new Map();
  pending: Attempt | undefined;
  acknowledged = 0;
  #counter = 0;
  readonly #roll: (sides: number) => number;

  constructor(projectId: string, number: number) {
    this.#roll = dice(SEED * 100 + number);
    this.path = `/w${number}`;
    this.#at = { projectId, environment: "dev", secretPath: this.path };
  }

  #some(items: readonly string[]): string[] {
    return items.filter(() => this.#roll(2) === 0);
  }

  #attempt(): Attempt {
    const value = `${this.path}-${(this.#counter += 1)}`;
    const present = [...this.state.keys()];
    const absent = KEYS.filter((key) => !this.state.has(key));
    const next = new Map(this.state);
    const chosen = this.#some(present);
    const kind = ["create", "update", "delete", "rename"][this.#roll(4)];
    if (kind === "update" && chosen.length > 0) {
      for (const key of chosen) next.set(key, value);
      return {
        after: next,
        send: (c) =>
          c.patch("/api/v4/secrets/batch", {
            ...this.#at,
            secrets: chosen.map((secretKey) => ({ secretKey, secretValue: value })),
          }),
      };
    }
    if (kind === "delete" && chosen.length > 0) {
      for (const key of chosen) next.delete(key);
      return {
        after: next,
        send: (c) =>
          c.delete("/api/v4/secrets/batch", {
            ...this.#at,
            secrets: chosen.map((secretKey) => ({ secretKey })),
          }),
      };
    }
    const [from] = chosen;
    const [to] = absent;
    if (kind === "rename" && from !== undefined && to !== undefined) {
      next.delete(from);
      next.set(to, this.state.get(from) ?? "");
      return {
        after: next,
        send: (c) => c.patch(`/api/v4/secrets/${from}`, { ...this.#at, newSecretName: to }),
      };
    }
    const fresh = absent.length === 0 ? [] : [absent[0] as string, ...this.#some(absent.slice(1))];
    if (fresh.length === 0) return { after: next, send: (c) => c.get("/api/status") };
    for (const key of fresh) next.set(key, value);
    return {
      after: next,
      send: (c) =>
        c.post("/api/v4/secrets/batch", {
          ...this.#at,
          secrets: fresh.map((secretKey) => ({ secretKey, secretValue: value })),
        }),
    };
  }

  async run(client: Client, isOver: () => boolean): Promise<void> {
    while (!isOver()) {
      this.pending = this.#attempt();
      try {
        const answer = await this.pending.send(client);
        assert.equal(answer.status, 200);
      } catch (error) {
        if (error instanceof assert.AssertionError) throw error;
        return; // the server was killed: nobody knows whether it happened
      }
      this.state = this.pending.after;
      this.pending = undefined;
      this.acknowledged += 1;
    }
  }

  async settle(client: Client): Promise<void> {
    const seen = await client.get(
      `/api/v4/secrets?projectId=${String(this.#at["projectId"])}&environment=dev&secretPath=${this.path}`,
    );
    assert.equal(seen.status, 200);
    const now: [string, string][] = seen.body.secrets.map((s: { secretKey: string; secretValue: string }) => [
      s.secretKey,
      s.secretValue,
    ]);
    const text = (state: Iterable<[string, string]>) => JSON.stringify([...state].sort());
    const allowed = [text(this.state), ...(this.pending ? [text(this.pending.after)] : [])];
    assert.ok(
      allowed.includes(text(now)),
      `${this.path} shows ${text(now)}, which is none of ${allowed.join(" or ")}`,
    );
    this.state = new Map(now);
    this.pending = undefined;
  }
}

const BROKEN = `
  SELECT 'gap' AS fault FROM secret_versions GROUP BY secret_id HAVING max(version) <> count(*) OR min(version) <> 1
  UNION ALL SELECT 'torn' FROM secrets s WHERE s.version <> (SELECT max(v.version) FROM secret_versions v WHERE v.secret_id = s.id)
  UNION ALL SELECT 'undead' FROM secrets s JOIN secret_versions v ON v.secret_id = s.id AND v.version = s.version WHERE v.change = 'delete'
  UNION ALL SELECT 'lost' FROM (SELECT DISTINCT ON (secret_id) secret_id, change FROM secret_versions ORDER BY secret_id, version DESC) v
    WHERE v.change <> 'delete' AND NOT EXISTS (SELECT 1 FROM secrets s WHERE s.id = v.secret_id)
  UNION ALL SELECT 'unaudited' WHERE (SELECT count(DISTINCT created_at) FROM secret_versions) > (SELECT count(*) FROM audit_log WHERE event IN ('create-secrets', 'update-secrets', 'delete-secrets', 'update-secret'))`;

test(`R-01 ${KILLS} kills under concurrent writers (KEYWARD_FAULTS_SEED=${SEED}): nothing acknowledged is lost, nothing is half done, no history has a gap`, async () => {
  const database = await createTestDatabase();
  const { host, port, user } = database.server;
  const env = {
    DATABASE_URL: `postgres://${user}@localhost:${port}/${database.connection.database}?host=${encodeURIComponent(host)}&sslmode=disable`,
    KEYWARD_ROOT_KEY: randomBytes(32).toString("base64"),
    KEYWARD_RATE_LIMIT_READ: "0",
    KEYWARD_RATE_LIMIT_WRITE: "0",
    KEYWARD_LOG_LEVEL: "info",
  };
  let server: ServerProcess = await startServer(env);
  const { token } = (
    await clientOf(server.base).post("/api/v1/admin/bootstrap", { ...OWNER, organization: "Owner" })
  ).body.identity.credentials;
  const { id: projectId } = (
    await clientOf(server.base, token).post("/api/v1/projects", { projectName: "Under fire" })
  ).body.project;
  const writers = Array.from({ length: WRITERS }, (_, number) => new Writer(projectId, number));
  for (const { path } of writers)
    await clientOf(server.base, token).post("/api/v2/folders", {
      projectId,
      environment: "dev",
      name: path.slice(1),
    });
  const roll = dice(SEED);
  const acknowledged = (): number => writers.reduce((sum, writer) => sum + writer.acknowledged, 0);
  for (let kill = 0; kill < KILLS; kill += 1) {
    let isOver = false;
    const before = acknowledged();
    const client = clientOf(server.base, token);
    const running = writers.map((writer) => writer.run(client, () => isOver));
    // Not before there is something to lose, however slow the machine; then at any moment.
    const deadline = performance.now() + 10_000;
    while (acknowledged() === before && performance.now() < deadline)
      await new Promise((resolve) => setTimeout(resolve, 1));
    await new Promise((resolve) => setTimeout(resolve, roll(250)));
    await server.kill();
    isOver = true;
    await Promise.all(running);
    server = await startServer(env);
    for (const writer of writers) await writer.settle(clientOf(server.base, token));
    const { rows } = await withClient(database.server, database.connection.database, (pg) =>
      pg.query(BROKEN),
    );
    assert.deepEqual(rows, []);
  }
  await server.stop();
  assert.ok(
    writers.every((writer) => writer.acknowledged > 0),
    "every writer got something done",
  );
  await database.drop();
});
