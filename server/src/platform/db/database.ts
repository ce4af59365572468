/**
 * The database behind two functions. `read` lends a handle that can only read; `write` lends the one
 * transaction, which can also state facts and must leave an audit row. There is no third way in, so a query
 * cannot miss its transaction.
 */
import { openReadPipelines, SessionClient, type SessionConfig } from "@keyward/pg-pipeline";
import pg from "pg";
import type { Clock } from "../clock.ts";
import type { Measure } from "../measure.ts";
import type { NumberedFact } from "../outbox/fact.ts";
import { isAway, isRetryable, translate } from "./errors.ts";
import { createGroupCommit } from "./group-commit.ts";
import type { Db, SlowQuery, TurnOf } from "./handles.ts";
import { borrow, renewPool } from "./pools.ts";
import { openSlowLooks } from "./slow.ts";
import { Standstill } from "./standstill.ts";
import { sql } from "./statement.ts";
import { asQuery, transact } from "./transaction.ts";
import { createFairQueue } from "../fair-queue.ts";
import { notBegun, UnconfirmedCommits, type Ask } from "./unconfirmed.ts";

/** What a dedicated connection is for; only migrations may take as long as they need. */
export type Purpose = "listen" | "look" | "migrate";

export interface Database extends Db {
  /** Called with a transaction's facts right after its commit, on the node that made it. */
  onCommitted(listener: (facts: readonly NumberedFact[], isCurrent: boolean) => void): void;
  /**
   * The address may lead to another server than before: connections that were opened earlier are not used again,
   * and what is still committed on one of them is announced as not current.
   */
  renew(): void;
  /** Why writes cannot be made at the moment, for people. */
  obstacles(): readonly string[];
  connect(purpose?: Purpose): Promise<pg.Client>;
  readonly measures: readonly Measure[];
  /** Are our session settings in force? Not behind a pooler that ignores them. */
  hasOwnSettings(): Promise<boolean>;
  close(): Promise<void>;
}

interface DatabaseOptions {
  readonly connection: pg.ClientConfig;
  readonly connections: number;
  readonly clock: Clock;
  readonly onError: (error: Error) => void;
  /** A listener failed: that is a bug, while a lost connection is not. */
  readonly onFault?: (error: unknown) => void;
}

const READ_PIPELINES = 4;
/** Statements on read pipelines are quick; a read pipeline that is silent for this long delays everyone behind it. */
const PIPELINE_SILENCE_MS = 10_000;
/** Last uses and rate counts: each at most one at a time. */
const CHORES = 2;
const CHORE_LIMITS = { statement_timeout: 5000, lock_timeout: 1000 };
/** The database ends it before that, so that the read pipeline and its other statements go on. */
const PIPELINE_LOOK_MS = 8000;
const ATTEMPTS = 4;
const STATEMENT_MS = 20_000;
/**
 * Our own time-out, a little longer than the database's. A database that is alive ends a slow statement itself; only
 * on a connection that drops everything (a pulled cable, a firewall that forgot us) would we wait for ever. Proxies
 * usually give up after thirty seconds: the caller should get our answer first.
 */
const ANSWER_MS = 22_000;
/** A write that has no connection by then is answered 503, before a proxy's time-out. */
const WRITE_TURN_MS = 7000;
const OWN_PIPELINE_MS = 10_000;

/** What a role or a database may be set to differently, and what our statements and their reading rely on. */
const UNIFORM = {
  TimeZone: "UTC",
  DateStyle: "ISO",
  IntervalStyle: "postgres",
  default_transaction_isolation: "read committed",
  // Nothing here runs for so long that compiling it would pay. Before PostgreSQL 18 a table that can only be read whole
  // counts as so expensive, with enable_seqscan off, that reading a hundred roles was JIT-compiled for 300 ms.
  jit: "off",
};
const LIMITS = {
  ...UNIFORM,
  statement_timeout: STATEMENT_MS,
  lock_timeout: 10_000,
  idle_in_transaction_session_timeout: 15_000,
  max_parallel_workers_per_gather: 0,
};
const LOOK_ONLY = { default_transaction_read_only: "on" };
/** A lost connection must not hold the migration lock for the hours that TCP takes to notice. */
const NOTICED = { tcp_keepalives_idle: 15, tcp_keepalives_interval: 5, tcp_keepalives_count: 3 };
const OWN_SETTINGS = {
  listen: UNIFORM,
  look: { ...UNIFORM, ...NOTICED, statement_timeout: 8000, lock_timeout: 5000 },
  migrate: {
    ...UNIFORM,
    ...NOTICED,
    ...{ statement_timeout: 0, lock_timeout: 0, idle_in_transaction_session_timeout: 0 },
  },
} as const;

// int8 arrives as text because it may pass 2^53; our counters never do.
pg.types.setTypeParser(pg.types.builtins.INT8, Number);
// Nothing in them is ever quoted or null, and a list of secrets may hold half a million.
const UUID_LIST = 2951;
pg.types.setTypeParser(UUID_LIST as Parameters<typeof pg.types.setTypeParser>[0], (text: string) =>
  text === "{}" ? [] : text.slice(1, -1).split(","),
);

const ownSettings = sql<{ timeout: string; isReadOnly: string }>(
  `SELECT current_setting('statement_timeout') AS timeout, current_setting('default_transaction_read_only') AS "isReadOnly"`,
);
const measuresOf = (pool: pg.Pool): Measure[] => [
  {
    name: "keyward_database_connections",
    help: "Connections of this node for writing, busy and idle, and how many changes wait for one.",
    kind: "gauge",
    labels: ["state"],
    read: () => [
      { of: ["busy"], value: pool.totalCount - pool.idleCount },
      { of: ["idle"], value: pool.idleCount },
      { of: ["awaited"], value: pool.waitingCount },
    ],
  },
];

function openPool(config: SessionConfig, max: number, onError: (error: Error) => void): pg.Pool {
  const pool = new pg.Pool({
    ...config,
    Client: SessionClient,
    max,
    idleTimeoutMillis: 60_000,
  } as pg.PoolConfig);
  pool.on("error", onError);
  // The pool listens to its idle connections only. One that is lent out can break between two statements, when
  // nobody waits for an answer; without a listener of its own that would end the process.
  pool.on("connect", (client) => void client.on("error", onError));
  return pool;
}

const sessionOf = (connection: pg.ClientConfig): SessionConfig => ({
  ...connection,
  application_name: "keyward",
  connectionTimeoutMillis: 5000,
  keepAlive: true,
  // Read pipelines may be idle for hours; firewalls in between forget a silent connection within minutes.
  keepAliveInitialDelayMillis: 30_000,
  query_timeout: ANSWER_MS,
  settings: LIMITS,
});

export function openDatabase(options: DatabaseOptions): Database {
  const { connection, connections, clock, onError, onFault = onError as (error: unknown) => void } = options;
  const base = sessionOf(connection);
  // Our named statements are probes by key whose plan does not depend on the values: planned once per connection. On a
  // young installation that is while the tables are nearly empty, when reading all of one looks cheapest; the plan would
  // be kept until the first autoanalyze, however much was written meanwhile.
  const quick = { ...LIMITS, plan_cache_mode: "force_generic_plan", enable_seqscan: "off" };
  const pool = openPool({ ...base, settings: quick }, connections, onError);
  const chores = openPool({ ...base, settings: { ...quick, ...CHORE_LIMITS } }, CHORES, onError);
  const slow = openSlowLooks({
    config: { ...base, settings: { ...LIMITS, ...LOOK_ONLY } },
    onError,
    borrow,
  });
  const readPipelines = openReadPipelines(
    {
      ...base,
      settings: { ...quick, ...LOOK_ONLY, statement_timeout: PIPELINE_LOOK_MS },
      query_timeout: PIPELINE_SILENCE_MS,
    },
    { count: READ_PIPELINES, isAway },
  );
  const ask: Ask = (statement, values) => readPipelines.rows(statement, values);
  const commits = new UnconfirmedCommits(ask, ANSWER_MS);
  const standstill = new Standstill(pool, () => commits.heldCount > 0);
  const listeners: Parameters<Database["onCommitted"]>[0][] = [];

  const lookingFor = (turn: TurnOf | undefined): SlowQuery =>
    asQuery(async (statement, values) => {
      try {
        if (!statement.isSlow) return await readPipelines.rows(statement, values);
        // The compiler prevents this.
        if (!turn) throw new Error("a slow look needs somebody's turn: db.read(look, { tenant })");
        return await slow.rows(turn, statement, values);
      } catch (error) {
        throw translate(error);
      }
    });
  const looking = lookingFor(undefined);

  /** It is committed: the writer gets that answer, even if a listener fails. */
  const tell: (typeof listeners)[number] = (facts, isCurrentOne) => {
    for (const listener of listeners) {
      try {
        listener(facts, isCurrentOne);
      } catch (error) {
        onFault(error);
      }
    }
  };

  const transactAndTell: Db["write"] = async (change, wishes) => {
    const from = wishes?.isChore ? chores : pool;
    const transaction = transact(from, { clock, commits, ask }, change, wishes ?? {});
    // Maintenance has its own connections: its failures say nothing about other requests.
    const done = await (wishes?.isChore ? transaction : standstill.mind(transaction));
    if (done.facts.length > 0) tell(done.facts, done.isCurrent);
    return done.value;
  };

  const writing: Db["write"] = async (change, wishes) => {
    for (let attempt = 1; ; attempt += 1) {
      try {
        // It could not be confirmed before the standby is back: answer at once.
        if (commits.heldCount > 0) throw notBegun();
        return await commits.mind(transactAndTell(change, wishes));
      } catch (error) {
        if (!isRetryable(error) || attempt >= ATTEMPTS) throw translate(error);
      }
    }
  };

  const turns = createFairQueue({
    what: "changes are being written",
    places: connections,
    perTenant: Math.max(1, connections - Math.ceil(connections / 4)),
    waitingPerTenant: 2000,
    waiting: 10_000,
    patienceMs: WRITE_TURN_MS,
  });
  const write: Db["write"] = (change, options) =>
    options?.tenant === undefined
      ? writing(change, options)
      : turns.run(options.tenant, () => writing(change, options));

  return {
    read: <T>(look: (q: SlowQuery) => Promise<T>, turn?: TurnOf) => look(turn ? lookingFor(turn) : looking),
    write,
    groupCommit: createGroupCommit(write),
    onCommitted: (listener) => void listeners.push(listener),
    renew() {
      for (const each of [pool, chores, ...slow.pools]) renewPool(each);
      readPipelines.renew();
    },
    measures: measuresOf(pool),
    obstacles: () =>
      commits.heldCount > 0
        ? ["changes wait for a synchronous standby that does not confirm them"]
        : standstill.obstacles(),
    async hasOwnSettings() {
      const shown = await looking.first(ownSettings);
      return shown?.timeout === `${PIPELINE_LOOK_MS / 1000}s` && shown.isReadOnly === "on";
    },
    async connect(purpose = "listen") {
      const { query_timeout: _ours, ...patient } = base;
      const config = purpose === "migrate" ? patient : { ...base, query_timeout: OWN_PIPELINE_MS };
      try {
        const client = new SessionClient({ ...config, settings: OWN_SETTINGS[purpose] });
        client.on("error", onError);
        await client.connect();
        return client;
      } catch (error) {
        throw translate(error);
      }
    },
    async close() {
      standstill.stop();
      await Promise.all([pool.end(), chores.end(), slow.close(), readPipelines.close()]);
    },
  };
}
