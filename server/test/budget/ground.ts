/**
 * A server of its own whose event loop is watched. Each bound is driven to its worst accepted case; no single stretch
 * may last 50 ms. The best of a few rounds counts: the first one compiles, and a collection of the whole heap can fall
 * into any.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { clientOf, OWNER, type Answer, type Client, type Tenant } from "../harness.ts";
import { createTestDatabase, stopOwnPostgres, withClient } from "../postgres.ts";
import type { Stretch } from "./watch.ts";

const MAIN = fileURLToPath(new URL("../../src/main.js", import.meta.url));
const WATCH = new URL("./watch.js", import.meta.url).href;

export const BAR_MS = 50;
const ROUNDS = 4;

export const canWatch = existsSync(`/proc/${process.pid}/task/${process.pid}/schedstat`);

type Work = (round: number) => Promise<unknown>;
interface Rounds {
  readonly prepare?: Work;
  readonly rounds?: number;
}

export interface Ground {
  readonly base: string;
  readonly owner: Tenant;
  as(token: string): Client;
  /** For what would take long to make by requests. */
  fill(statement: string, values?: readonly unknown[]): Promise<void>;
  /**
   * `work` is done in rounds until one of them stays below the bar; it says how often it was done before. What can be
   * done only once is prepared anew for each round, unwatched: a round in which nothing happens would always pass.
   */
  withinBudget(what: string, work: Work, more?: Rounds): Promise<void>;
  close(): Promise<void>;
}

export function accepted(answer: Answer): Answer["body"] {
  assert.equal(answer.status, 200, JSON.stringify(answer.body).slice(0, 1000));
  return answer.body;
}

async function launch(env: Record<string, string>) {
  const { PATH = "", HOME = "", KEYWARD_BUDGET_PROFILE = "" } = process.env;
  const child = spawn(process.execPath, ["--enable-source-maps", "--import", WATCH, MAIN], {
    env: { PATH, HOME, PORT: "0", KEYWARD_BUDGET_PROFILE, ...env },
    stdio: ["ignore", "pipe", "inherit", "ipc"],
  });
  const end = () => child.kill("SIGKILL");
  process.once("exit", end);
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  void exited.then(() => process.off("exit", end));
  const base = await new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout as NodeJS.ReadableStream }).on("line", (line) => {
      const { url, msg } = JSON.parse(line) as { url?: string; msg?: string };
      if (msg === "Keyward is ready" && url) resolve(url);
    });
    void exited.then(() => reject(new Error("the server ended")));
  });
  const watched = async (work: () => Promise<unknown>): Promise<Stretch> => {
    child.send("watch");
    await work();
    const said = new Promise<Stretch>((resolve) => child.once("message", (m) => resolve(m as Stretch)));
    child.send("stop");
    return said;
  };
  return {
    base,
    watched,
    async stop() {
      child.kill("SIGTERM");
      await exited;
    },
  };
}

export async function openGround(): Promise<Ground> {
  const database = await createTestDatabase();
  const { host, port, user } = database.server;
  const server = await launch({
    DATABASE_URL: `postgres://${user}@localhost:${port}/${database.connection.database}?host=${encodeURIComponent(host)}&sslmode=disable`,
    KEYWARD_ROOT_KEY: randomBytes(32).toString("base64"),
    KEYWARD_RATE_LIMIT_READ: "0",
    KEYWARD_RATE_LIMIT_WRITE: "0",
    KEYWARD_RATE_LIMIT_LOGIN: "0",
    KEYWARD_LOG_LEVEL: "info",
  });
  const booted = await clientOf(server.base).post("/api/v1/admin/bootstrap", { ...OWNER, organization: "A" });
  const token = booted.body.identity.credentials.token as string;
  const owner: Tenant = {
    ...clientOf(server.base, token),
    token,
    orgId: booted.body.organization.id,
    orgSlug: booted.body.organization.slug,
    identityId: booted.body.identity.id,
  };
  return {
    base: server.base,
    owner,
    as: (other) => clientOf(server.base, other),
    fill: (statement, values = []) =>
      withClient(database.server, database.connection.database, async (client) => {
        await client.query(statement, [...values]);
        await client.query("ANALYZE");
      }),
    async withinBudget(what, work, { prepare, rounds = ROUNDS } = {}) {
      let best: Stretch = { milliseconds: Number.POSITIVE_INFINITY, ran: [] };
      const all: number[] = [];
      for (let round = 0; round < rounds && best.milliseconds >= BAR_MS; round += 1) {
        await prepare?.(round);
        const stretch = await server.watched(() => work(round));
        all.push(Math.round(stretch.milliseconds));
        if (stretch.milliseconds < best.milliseconds) best = stretch;
      }
      // For whoever looks for the causes: all cases in one run, whatever came of each.
      if (process.env["KEYWARD_BUDGET_SHOW"])
        return void process.stderr.write(`${[`${what}: ${all.join(", ")} ms`, ...best.ran].join("\n  ")}\n`);
      assert.ok(
        best.milliseconds < BAR_MS,
        `${what}: one stretch of ${Math.round(best.milliseconds)} ms (${all.join(", ")})\n${best.ran.join("\n")}`,
      );
    },
    async close() {
      await server.stop();
      await database.drop();
      await stopOwnPostgres();
    },
  };
}
