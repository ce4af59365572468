/**
 * The database, seen through two words. `read` lends a handle that can only look; `write` lends the one
 * transaction, which can also state facts and must leave an audit row. There is no third way in, so a query
 * cannot miss its transaction.
 *
 * A write sends BEGIN along with its first statement, and its audit rows, outbox rows and COMMIT in one go: a use
 * case with one statement costs two round trips, not five.
 */
import pg from "pg";
import type { Actor } from "../actor.ts";
import type { Clock } from "../clock.ts";
import { newId } from "../ids.ts";
import type { Measure } from "../measure.ts";
import type { Fact, NumberedFact } from "../outbox/fact.ts";
import { isAway, isFull, isRetryable, translate } from "./errors.ts";
import { createAppender } from "./append.ts";
import type { AuditEntry, Db, Query, Tx } from "./handles.ts";
import { openLanes } from "./lanes.ts";
import { SessionClient, type SessionConfig } from "./session.ts";
import { sql, type Statement } from "./statement.ts";
import { NeverRan, Wire } from "./wire.ts";

export interface Database extends Db {
  /** Told of a transaction's facts right after its commit, on the node that made it. */
  onCommitted(listener: (facts: readonly NumberedFact[], isCurrent: boolean) => void): void;
  /**
   * The address may lead to another server than before: connections that were asked for earlier are not used again,
   * and what is still committed on one of them is told of as not current.
   */
  renew(): void;
  /** A connection of its own, for LISTEN and for migrations; only the latter may take as long as they need. */
  connect(options?: { readonly isPatient?: boolean }): Promise<pg.Client>;
  readonly measures: readonly Measure[];
  /** Are the limits in force that we connect with? Not behind a pooler that ignores them. */
  hasOwnSettings(): Promise<boolean>;
  close(): Promise<void>;
}

export interface DatabaseOptions {
  readonly connection: pg.ClientConfig;
  readonly connections: number;
  readonly clock: Clock;
  readonly onError: (error: Error) => void;
  /** A listener failed: a fault of ours, while a connection that ends is the world's. */
  readonly onFault?: (error: unknown) => void;
}

const READING_LANES = 4;
/** Statements on the lanes are quick ones; a lane that is silent for this long holds up everyone behind it. */
const LANE_SILENCE_MS = 10_000;
const ATTEMPTS = 4;
const STATEMENT_MS = 30_000;
/**
 * Our own patience, a little longer than the database's. A database that is alive ends a slow statement itself; only
 * behind a wire that swallows everything (a pulled cable, a firewall that forgot us) would we wait for ever.
 */
const WIRE_MS = STATEMENT_MS + 5000;
const TAIL_WIRE_MS = 10_000;

/** What a role or a database may be set to differently, and what our statements and their reading rely on. */
const UNIFORM = {
  TimeZone: "UTC",
  DateStyle: "ISO",
  IntervalStyle: "postgres",
  default_transaction_isolation: "read committed",
};
const LIMITS = {
  ...UNIFORM,
  statement_timeout: STATEMENT_MS,
  lock_timeout: 10_000,
  idle_in_transaction_session_timeout: 15_000,
  max_parallel_workers_per_gather: 0,
};
const LOOK_ONLY = { default_transaction_read_only: "on" };
const PATIENT = { statement_timeout: 0, lock_timeout: 0, idle_in_transaction_session_timeout: 0 };

// int8 arrives as text because it may pass 2^53; our counters never do.
pg.types.setTypeParser(pg.types.builtins.INT8, Number);

const insertFact = sql<{ seq: number; xid: number; at: number }>(
  "INSERT INTO outbox (name, data) VALUES ($1, $2) RETURNING seq, xid::text::bigint AS xid, (extract(epoch FROM at) * 1000000)::bigint AS at",
);
const insertAudit = sql(`
  INSERT INTO audit_log (id, at, org_id, project_id, event, actor_type, actor_id, actor_name, ip, user_agent, request_id, metadata)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`);

type Send = <Row>(statement: Statement<Row>, values: readonly unknown[]) => Promise<Row[]>;

const asQuery = (send: Send): Query => ({
  rows: (statement, values = []) => send(statement, values),
  first: async (statement, values = []) => (await send(statement, values))[0],
});

/** Prepared statements live as long as their connection, and so does what we know of them. */
const wires = new WeakMap<pg.ClientBase, Wire>();
function wireOf(client: pg.ClientBase): Wire {
  const known = wires.get(client);
  if (known) return known;
  const wire = new Wire(client);
  wires.set(client, wire);
  return wire;
}

interface Pending {
  readonly statements: { readonly statement: Statement<unknown>; readonly values: readonly unknown[] }[];
  readonly facts: Fact[];
  readonly audits: unknown[][];
}

function auditRow(at: Date, actor: Actor, entry: AuditEntry): unknown[] {
  const { caller } = actor;
  return [
    newId(at.getTime()),
    at,
    entry.orgId,
    entry.projectId ?? null,
    entry.event,
    actor.kind,
    actor.id,
    actor.name,
    caller?.ip ?? null,
    caller?.userAgent ?? null,
    caller?.requestId ?? null,
    JSON.stringify(entry.metadata ?? {}),
  ];
}

const ownSettings = sql<{ timeout: string; isReadOnly: string }>(
  `SELECT current_setting('statement_timeout') AS timeout, current_setting('default_transaction_read_only') AS "isReadOnly"`,
);
const planAnew = sql("SET LOCAL plan_cache_mode = force_custom_plan");

function asTx(wire: Wire, pending: Pending, clock: Clock): Tx {
  let isPlannedAnew = false;
  /** A transaction may hold a statement whose plan depends on its values, too; from there on it is planned with them. */
  const mind = (statement: Statement<unknown>, send: (first: Statement<unknown>) => void): void => {
    if (!statement.isSlow || isPlannedAnew) return;
    isPlannedAnew = true;
    send(planAnew);
  };
  return {
    ...asQuery((statement, values) => {
      mind(statement, (first) => void wire.run(first).catch(() => undefined));
      return wire.rows(statement, values);
    }),
    later: (statement, values) => {
      mind(statement, (first) => void pending.statements.push({ statement: first, values: [] }));
      pending.statements.push({ statement, values });
    },
    emit: (fact) => void pending.facts.push(fact),
    audit: (actor, entry) => void pending.audits.push(auditRow(clock.now(), actor, entry)),
  };
}

const begin = sql("BEGIN");
const end = sql("COMMIT");
const undo = sql("ROLLBACK");

async function commit(wire: Wire, pending: Pending): Promise<NumberedFact[]> {
  const facts: NumberedFact[] = [];
  const state = async ({ name, data }: Fact): Promise<void> => {
    const text = JSON.stringify(data);
    const [row] = await wire.rows(insertFact, [name, text]);
    // Read back, so that who hears of it here is told exactly what other nodes are told.
    if (row) facts.push({ ...row, name, data: JSON.parse(text) as Fact["data"] });
  };
  const sent: Promise<unknown>[] = [
    ...pending.statements.map(({ statement, values }) => wire.rows(statement, values)),
    ...pending.audits.map((row) => wire.rows(insertAudit, row)),
    ...pending.facts.map(state),
    // PostgreSQL answers COMMIT of a failed transaction with a friendly ROLLBACK; that is not a success.
    wire.run(end).then((tag) => {
      if (tag !== "COMMIT") throw new Error("the transaction was rolled back at commit");
    }),
  ];
  const failed = (await Promise.allSettled(sent)).find((outcome) => outcome.status === "rejected");
  if (failed) throw failed.reason;
  return facts;
}

/** For how long we ask for no more connections where the database gave us none. */
const CONTENT_MS = 10_000;
const wished = new WeakMap<pg.Pool, number>();

/** Since when connections lead where the address leads now. */
const renewals = new WeakMap<pg.Pool, number>();
const isCurrent = (pool: pg.Pool, client: pg.PoolClient): boolean =>
  (client as unknown as SessionClient).askedAt >= (renewals.get(pool) ?? Number.NEGATIVE_INFINITY);

/** Where there are no more connections to be had, those that we have go round: one becomes free soon. */
async function borrow(pool: pg.Pool): Promise<pg.PoolClient> {
  for (;;) {
    try {
      const client = await pool.connect();
      if (isCurrent(pool, client)) return client;
      client.release(true);
    } catch (error) {
      const { options, totalCount } = pool;
      if (!isFull(error) || totalCount === 0) throw error;
      if (!wished.has(pool)) {
        wished.set(pool, options.max);
        setTimeout(() => {
          options.max = wished.get(pool) ?? options.max;
          wished.delete(pool);
        }, CONTENT_MS).unref();
      }
      options.max = Math.min(options.max, totalCount);
    }
  }
}

async function transact<T>(pool: pg.Pool, clock: Clock, change: (tx: Tx) => Promise<T>, mustAudit: boolean) {
  const client = await borrow(pool);
  const wire = wireOf(client);
  let broken = false;
  // pg takes a failure of a connection that is lent out for nobody's business unless someone listens.
  const lost = () => {
    broken = true;
  };
  client.on("error", lost);
  try {
    const pending: Pending = { statements: [], facts: [], audits: [] };
    // Waits for the first statement and travels with it.
    const begun = wire.run(begin);
    begun.catch(() => undefined); // a failure shows again at the first statement; this one must not go unhandled
    const value = await change(asTx(wire, pending, clock));
    if (mustAudit && pending.audits.length === 0) throw new Error("a write left no audit row");
    const facts = await commit(wire, pending);
    await begun;
    return { value, facts, isCurrent: isCurrent(pool, client) };
  } catch (failure) {
    const error = failure instanceof NeverRan ? failure.cause : failure;
    broken = isAway(error);
    if (!broken) {
      await wire.run(undo).catch(() => {
        broken = true;
      });
    }
    throw error;
  } finally {
    client.release(broken);
    client.removeListener("error", lost);
  }
}

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

async function lookSlowly<Row>(
  pool: pg.Pool,
  { name, text }: Statement<Row>,
  values: readonly unknown[],
): Promise<Row[]> {
  const client = await borrow(pool);
  let isOver = true;
  try {
    const { rows } = await client.query({ name, text, values } as pg.QueryConfig);
    isOver = (client as unknown as SessionClient).isStandby; // see lanes.ts
    return rows as Row[];
  } finally {
    client.release(isOver);
  }
}

export function openDatabase(options: DatabaseOptions): Database {
  const { connection, connections, clock, onError, onFault = onError as (error: unknown) => void } = options;
  const base: SessionConfig = {
    ...connection,
    application_name: "keyward",
    connectionTimeoutMillis: 5000,
    keepAlive: true,
    // Lanes may rest for hours; what is between us and the database forgets a silent connection within minutes.
    keepAliveInitialDelayMillis: 30_000,
    query_timeout: WIRE_MS,
    settings: LIMITS,
  };
  // Our named statements are probes by key whose plan does not depend on the values: planned once per connection.
  const quick = { ...LIMITS, plan_cache_mode: "force_generic_plan" };
  const pool = new pg.Pool({
    ...base,
    settings: quick,
    Client: SessionClient,
    max: connections,
    idleTimeoutMillis: 60_000,
  } as pg.PoolConfig);
  const slowPool = new pg.Pool({
    ...base,
    settings: { ...LIMITS, ...LOOK_ONLY },
    Client: SessionClient,
    max: 4,
    idleTimeoutMillis: 30_000,
  } as pg.PoolConfig);
  for (const each of [pool, slowPool]) {
    each.on("error", onError);
    // The pool listens to its idle connections only. One that is lent out can break between two statements, when
    // nobody waits for an answer; without a listener of its own that would end the process.
    each.on("connect", (client) => void client.on("error", onError));
  }
  const lanes = openLanes(
    { ...base, settings: { ...quick, ...LOOK_ONLY }, query_timeout: LANE_SILENCE_MS },
    READING_LANES,
  );
  const listeners: Parameters<Database["onCommitted"]>[0][] = [];

  const looking = asQuery(async (statement, values) => {
    try {
      return await (statement.isSlow
        ? lookSlowly(slowPool, statement, values)
        : lanes.rows(statement, values));
    } catch (error) {
      throw translate(error);
    }
  });

  /** It is committed: whatever a listener makes of it, the writer is told so. */
  const tell: (typeof listeners)[number] = (facts, isCurrentOne) => {
    for (const listener of listeners) {
      try {
        listener(facts, isCurrentOne);
      } catch (error) {
        onFault(error);
      }
    }
  };

  const write: Db["write"] = async (change, wishes) => {
    for (let attempt = 1; ; attempt += 1) {
      try {
        const done = await transact(pool, clock, change, wishes?.audited !== false);
        if (done.facts.length > 0) tell(done.facts, done.isCurrent);
        return done.value;
      } catch (error) {
        if (!isRetryable(error) || attempt >= ATTEMPTS) throw translate(error);
      }
    }
  };

  return {
    read: (look) => look(looking),
    write,
    append: createAppender(write),
    onCommitted: (listener) => void listeners.push(listener),
    renew() {
      for (const each of [pool, slowPool]) renewals.set(each, performance.now());
      lanes.renew();
    },
    measures: measuresOf(pool),
    async hasOwnSettings() {
      const shown = await looking.first(ownSettings);
      return shown?.timeout === `${STATEMENT_MS / 1000}s` && shown.isReadOnly === "on";
    },
    async connect(wishes) {
      const { query_timeout: _ours, ...patient } = { ...base, settings: { ...UNIFORM, ...PATIENT } };
      try {
        const client = new SessionClient(
          wishes?.isPatient ? patient : { ...base, settings: UNIFORM, query_timeout: TAIL_WIRE_MS },
        );
        client.on("error", onError);
        await client.connect();
        return client;
      } catch (error) {
        throw translate(error);
      }
    },
    async close() {
      await Promise.all([pool.end(), slowPool.end(), lanes.close()]);
    },
  };
}
