import type { Clock } from "../platform/clock.ts";
import type { Config } from "../platform/config.ts";
import type { Db } from "../platform/db/index.ts";
import { printOpenApi, type Endpoint } from "../platform/http/index.ts";
import { Problem, unavailable } from "../platform/problem.ts";
import { VERSION } from "../version.ts";
import { ping } from "./store.ts";

interface StatusNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly config: Config;
  /** Why this node is not ready; normally empty. */
  readonly obstacles: () => readonly string[];
}

const notReady = (reasons: readonly string[]): Problem =>
  new Problem(503, "ServiceUnavailable", `This node is not ready: ${reasons.join("; ")}.`, {
    retryAfterSeconds: 1,
  });

const PATIENCE_MS = 3000;

/** A status request wants an answer now: a database that has not answered by then counts as unreachable. */
async function answered<T>(look: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(unavailable()), PATIENCE_MS);
  });
  try {
    return await Promise.race([look, late]);
  } finally {
    clearTimeout(timer);
  }
}

export type StatusService = ReturnType<typeof createStatus>;

export function createStatus({ db, clock, config, obstacles }: StatusNeeds) {
  let document: Promise<string> | undefined;
  return {
    async check() {
      await answered(db.read(ping));
      return { date: clock.now(), message: "Ok", emailConfigured: config.smtpUrl !== undefined };
    },
    async ready() {
      const reasons = obstacles();
      if (reasons.length > 0) throw notReady(reasons);
      try {
        await answered(db.read(ping));
      } catch (error) {
        throw error instanceof Problem && error.status === 503 ? notReady(["the database is away"]) : error;
      }
      return { status: "ready" as const };
    },
    /** Printed once, at the first request: most nodes are never asked. */
    openApi(endpoints: readonly Endpoint[]): Promise<string> {
      document ??= printOpenApi(endpoints, config.publicUrl ?? `http://localhost:${config.port}`, VERSION);
      return document;
    },
  };
}
