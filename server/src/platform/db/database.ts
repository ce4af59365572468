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
import type { Fact } from "../outbox/fact.ts";
import { corkForThisTick } from "./cork.ts";
import { isAway, isRetryable, translate } from "./errors.ts";
import { openLanes } from "./lanes.ts";
import { sql, type Statement } from "./statement.ts";

export interface Query {
  rows<Row>(statement: Statement<Row>, values?: readonly unknown[]): Promise<Row[]>;
  first<Row>(statement: Statement<Row>, values?: readonly unknown[]): Promise<Row | undefined>;
}

export interface AuditEntry {
  readonly event: string;
  readonly orgId: string | null;
  readonly projectId?: string | null;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

export interface Tx extends Query {
  /**
   * For a statement whose rows nobody needs: it travels with the audit rows and COMMIT, so that a use case made of
   * such statements costs one round trip. If it fails, the whole write fails.
   */
  later(statement: Statement<unknown>, values: readonly unknown[]): void;
  emit(fact: Fact): void;
  audit(actor: Actor, entry: AuditEntry): void;
}

export interface Db {
  read<T>(look: (q: Query) => Promise<T>): Promise<T>;
  /** `audited: false` is for upkeep that changes nothing a person did: sweeps, counters, leases. */
  write<T>(change: (tx: Tx) => Promise<T>, options?: { readonly audited?: boolean }): Promise<T>;
}

export interface Database extends Db {
  /** Told of a transaction's facts right after its commit, on the node that made it. */
  onCommitted(listener: (facts: readonly Fact[]) => void): void;
  /** A connection of its own, for LISTEN and for migrations; only the latter may take as long as they need. */
  connect(options?: { readonly isPatient?: boolean }): Promise<pg.Client>;
  close(): Promise<void>;
}

export interface DatabaseOptions {
  readonly connection: pg.ClientConfig;
  readonly connections: number;
  readonly clock: Clock;
  readonly onError: (error: Error) => void;
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

// int8 arrives as text because it may pass 2^53; our counters never do.
pg.types.setTypeParser(pg.types.builtins.INT8, Number);

const insertFact = sql("INSERT INTO outbox (name, data) VALUES ($1, $2)");
const insertAudit = sql(`
  INSERT INTO audit_log (id, at, org_id, project_id, event, actor_type, actor_id, actor_name, ip, user_agent, request_id, metadata)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`);

type Send = <Row>(statement: Statement<Row>, values: readonly unknown[]) => Promise<Row[]>;

const asQuery = (send: Send): Query => ({
  rows: (statement, values = []) => send(statement, values),
  first: async (statement, values = []) => (await send(statement, values))[0],
});

const senderOf =
  (client: pg.ClientBase): Send =>
  async <Row>(statement: Statement<Row>, values: readonly unknown[]) => {
    corkForThisTick(client);
    const query = {
      name: statement.name,
      text: statement.text,
      values: values as unknown[],
    } as pg.QueryConfig;
    return (await client.query(query)).rows as Row[];
  };

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

function asTx(client: pg.ClientBase, pending: Pending, clock: Clock): Tx {
  return {
    ...asQuery(senderOf(client)),
    later: (statement, values) => void pending.statements.push({ statement, values }),
    emit: (fact) => void pending.facts.push(fact),
    audit: (actor, entry) => void pending.audits.push(auditRow(clock.now(), actor, entry)),
  };
}

async function commit(client: pg.ClientBase, pending: Pending): Promise<void> {
  corkForThisTick(client);
  const send = senderOf(client);
  const sent: Promise<unknown>[] = [
    ...pending.statements.map(({ statement, values }) => send(statement, values)),
    ...pending.audits.map((row) => send(insertAudit, row)),
    ...pending.facts.map((fact) => send(insertFact, [fact.name, JSON.stringify(fact.data)])),
    // PostgreSQL answers COMMIT of a failed transaction with a friendly ROLLBACK; that is not a success.
    client.query("COMMIT").then((result) => {
      if (result.command !== "COMMIT") throw new Error("the transaction was rolled back at commit");
    }),
  ];
  const failed = (await Promise.allSettled(sent)).find((outcome) => outcome.status === "rejected");
  if (failed) throw failed.reason;
}

async function transact<T>(pool: pg.Pool, clock: Clock, change: (tx: Tx) => Promise<T>, mustAudit: boolean) {
  const client = await pool.connect();
  let broken = false;
  // pg takes a failure of a connection that is lent out for nobody's business unless someone listens.
  const lost = () => {
    broken = true;
  };
  client.on("error", lost);
  try {
    const pending: Pending = { statements: [], facts: [], audits: [] };
    corkForThisTick(client);
    const begun = client.query("BEGIN");
    begun.catch(() => undefined); // a failure shows again at the first statement; this one must not go unhandled
    const value = await change(asTx(client, pending, clock));
    if (mustAudit && pending.audits.length === 0) throw new Error("a write left no audit row");
    await commit(client, pending);
    await begun;
    return { value, facts: pending.facts };
  } catch (error) {
    broken = isAway(error);
    if (!broken) {
      await client.query("ROLLBACK").catch(() => {
        broken = true;
      });
    }
    throw error;
  } finally {
    client.release(broken);
    client.removeListener("error", lost);
  }
}

export function openDatabase({ connection, connections, clock, onError }: DatabaseOptions): Database {
  const limits = `-c statement_timeout=${STATEMENT_MS} -c lock_timeout=10000 -c idle_in_transaction_session_timeout=15000`;
  const base: pg.ClientConfig = {
    ...connection,
    application_name: "keyward",
    connectionTimeoutMillis: 5000,
    keepAlive: true,
    query_timeout: WIRE_MS,
  };
  const pool = new pg.Pool({
    ...base,
    options: limits,
    max: connections,
    idleTimeoutMillis: 60_000,
    pipeline: true,
  } as pg.PoolConfig);
  const slowPool = new pg.Pool({
    ...base,
    options: `${limits} -c default_transaction_read_only=on`,
    max: 4,
    idleTimeoutMillis: 30_000,
  });
  for (const each of [pool, slowPool]) {
    each.on("error", onError);
    // The pool listens to its idle connections only. One that is lent out can break between two statements, when
    // nobody waits for an answer; without a listener of its own that would end the process.
    each.on("connect", (client) => void client.on("error", onError));
  }
  const lanes = openLanes(
    { ...base, options: `${limits} -c default_transaction_read_only=on`, query_timeout: LANE_SILENCE_MS },
    READING_LANES,
  );
  const listeners: ((facts: readonly Fact[]) => void)[] = [];

  const looking = asQuery(async (statement, values) => {
    try {
      if (!statement.isSlow) return await lanes.rows(statement, values);
      return (
        await slowPool.query({
          name: statement.name,
          text: statement.text,
          values: values as unknown[],
        } as pg.QueryConfig)
      ).rows;
    } catch (error) {
      throw translate(error);
    }
  });

  return {
    read: (look) => look(looking),
    async write(change, options) {
      for (let attempt = 1; ; attempt += 1) {
        try {
          const { value, facts } = await transact(pool, clock, change, options?.audited !== false);
          if (facts.length > 0) for (const listener of listeners) listener(facts);
          return value;
        } catch (error) {
          if (!isRetryable(error) || attempt >= ATTEMPTS) throw translate(error);
        }
      }
    },
    onCommitted: (listener) => void listeners.push(listener),
    async connect(options) {
      const { query_timeout: _ours, ...patient } = base;
      const client = new pg.Client(options?.isPatient ? patient : { ...base, query_timeout: TAIL_WIRE_MS });
      client.on("error", onError);
      try {
        await client.connect();
      } catch (error) {
        throw translate(error);
      }
      return client;
    },
    async close() {
      await Promise.all([pool.end(), slowPool.end(), lanes.close()]);
    },
  };
}
