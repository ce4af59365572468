/**
 * Slow reads: searches whose plan depends on their values, and answers of many megabytes. They have connections of
 * their own, for which organisations take turns: a caller that sends sixty at once waits behind itself. Maintenance has
 * its own connections and more time, because nobody waits for it.
 */
import pg from "pg";
import { badRequest, Problem } from "../problem.ts";
import { createFairQueue } from "../fair-queue.ts";
import { MAINTENANCE_TURN, type TurnOf } from "./handles.ts";
import { SessionClient, streamOf, type SessionConfig } from "@keyward/pg-pipeline";
import type { Statement } from "./statement.ts";

const SLOW_LOOKS = 4;
const MAINTENANCE_LOOKS = 3;
/** Nobody waits for longer in front of a screen, and others need the slot. */
const SLOW_LOOK_MS = 15_000;
const MAINTENANCE_LOOK_MS = 30_000;
/** See database.ts: for a connection that drops everything. */
const PIPELINE_MS = 5000;
/** Together with the read itself, still before a proxy gives up. */
const TURN_MS = 9000;

interface SlowLooks {
  readonly pools: readonly pg.Pool[];
  rows<Row>(turn: TurnOf, statement: Statement<Row>, values: readonly unknown[]): Promise<Row[]>;
  close(): Promise<void>;
}

const tookTooLong = (cause: unknown): Problem =>
  new Problem(
    503,
    "ServiceUnavailable",
    `This took the database longer than ${SLOW_LOOK_MS / 1000} seconds and was ended. Ask for less at a time, or later.`,
    { retryAfterSeconds: 5, cause },
  );

/**
 * Bytes of one read, as received. The rows of a page are bounded in number almost everywhere, and so is what a row may
 * hold; this is for the product of the two, which would fill the memory that everybody shares. The largest list of
 * secrets (64 MB, each byte as two hex digits) fits.
 */
const MOST_BYTES = 192 * 1024 * 1024;
const tooLarge = (): Problem =>
  badRequest(
    `The answer would be made from more than ${MOST_BYTES / 1024 / 1024} MB. Ask for less at a time: a smaller limit, a filter, one folder.`,
  );

/** Closes a connection that returns more; answers whether it did. */
function boundAnswer(client: pg.PoolClient): { readonly end: () => void; readonly isPassed: () => boolean } {
  const stream = streamOf(client);
  let bytes = 0;
  const count = (chunk: Buffer): void => {
    bytes += chunk.length;
    if (bytes > MOST_BYTES) stream.destroy();
  };
  stream.on("data", count);
  return { end: () => void stream.off("data", count), isPassed: () => bytes > MOST_BYTES };
}

interface SlowNeeds {
  readonly config: SessionConfig;
  readonly onError: (error: Error) => void;
  readonly borrow: (pool: pg.Pool) => Promise<pg.PoolClient>;
}

function openPool({ config, onError }: SlowNeeds, max: number, lookMs: number): pg.Pool {
  const pool = new pg.Pool({
    ...config,
    settings: { ...config.settings, statement_timeout: lookMs },
    query_timeout: lookMs + PIPELINE_MS,
    Client: SessionClient,
    max,
    idleTimeoutMillis: 30_000,
  } as pg.PoolConfig);
  pool.on("error", onError);
  // The pool listens to its idle connections only; one that is lent out and breaks would end the process.
  pool.on("connect", (client) => void client.on("error", onError));
  return pool;
}

export function openSlowLooks(needs: SlowNeeds): SlowLooks {
  const pool = openPool(needs, SLOW_LOOKS, SLOW_LOOK_MS);
  const maintenance = openPool(needs, MAINTENANCE_LOOKS, MAINTENANCE_LOOK_MS);
  const turns = createFairQueue({
    what: "searches and large answers are under way",
    places: SLOW_LOOKS,
    perTenant: SLOW_LOOKS / 2,
    waitingPerTenant: 64,
    waiting: 1024,
    patienceMs: TURN_MS,
  });
  // It waits here and not for a connection, which would time out after a few seconds.
  const maintenanceTurns = createFairQueue({
    what: "looks of maintenance are under way",
    places: MAINTENANCE_LOOKS,
    waitingPerTenant: 10_000,
    waiting: 10_000,
    patienceMs: 60_000,
  });

  const look = async <Row>(from: pg.Pool, statement: Statement<Row>, values: readonly unknown[]) => {
    const { name, text } = statement;
    const client = await needs.borrow(from);
    let isOver = true;
    const bound = boundAnswer(client);
    try {
      const { rows } = await client.query({ name, text, values } as pg.QueryConfig);
      isOver = (client as unknown as SessionClient).isStandby; // see openReadPipelines
      return rows as Row[];
    } catch (error) {
      if (bound.isPassed()) throw tooLarge();
      // The session can be used again.
      const isTimeUp = (error as { readonly code?: string }).code === "57014";
      isOver = !isTimeUp;
      throw isTimeUp && from === pool ? tookTooLong(error) : error;
    } finally {
      bound.end();
      client.release(isOver);
    }
  };

  return {
    pools: [pool, maintenance],
    rows: ({ tenant }, statement, values) =>
      tenant === MAINTENANCE_TURN.tenant
        ? maintenanceTurns.run(tenant, () => look(maintenance, statement, values))
        : turns.run(tenant, () => look(pool, statement, values)),
    async close() {
      await Promise.all([pool.end(), maintenance.end()]);
    },
  };
}
