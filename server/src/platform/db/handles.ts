/**
 * What other rooms may do with the database: `read`, `write`, and add rows with `groupCommit`. There is no
 * other way in, so a query cannot miss its transaction.
 */
import type { Actor } from "../actor.ts";
import type { Fact } from "../outbox/fact.ts";
import type { QuickStatement, Statement } from "./statement.ts";

// Properties, not methods: only then does the compiler reject a slow statement on a handle for quick ones.
export interface Query {
  readonly rows: <Row>(statement: QuickStatement<Row>, values?: readonly unknown[]) => Promise<Row[]>;
  readonly first: <Row>(
    statement: QuickStatement<Row>,
    values?: readonly unknown[],
  ) => Promise<Row | undefined>;
}

/** Also runs statements that may take long or return much; they wait for their tenant's turn. */
export interface SlowQuery extends Query {
  readonly rows: <Row>(statement: Statement<Row>, values?: readonly unknown[]) => Promise<Row[]>;
  readonly first: <Row>(statement: Statement<Row>, values?: readonly unknown[]) => Promise<Row | undefined>;
}

/** In whose turn a slow read runs: an organisation's, or the server's own for background jobs. */
export interface TurnOf {
  readonly tenant: string;
}
/** Maintenance: it has connections of its own and more time than a person would wait. */
export const MAINTENANCE_TURN: TurnOf = { tenant: "upkeep" };

export interface AuditEntry {
  readonly event: string;
  readonly orgId: string | null;
  readonly projectId?: string | null;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/** Statements of a change that return no rows. */
export interface WriteTx {
  /**
   * For a statement whose rows nobody needs: it is sent with the audit rows and COMMIT, so that a use case made of
   * such statements costs one round trip. If it fails, the whole write fails.
   */
  defer(statement: Statement<unknown>, values: readonly unknown[]): void;
  emit(fact: Fact): void;
  audit(actor: Actor, entry: AuditEntry): void;
}

export interface Tx extends SlowQuery, WriteTx {
  /** Called once when the transaction is over, however it ended. */
  atEnd(done: () => void): void;
}

export interface Db {
  read<T>(look: (q: Query) => Promise<T>): Promise<T>;
  /** With slow statements: organisations take turns. */
  read<T>(look: (q: SlowQuery) => Promise<T>, turn: TurnOf): Promise<T>;
  /** `audited: false` is for maintenance that changes nothing a person did: clean-ups, counters, leases. */
  write<T>(change: (tx: Tx) => Promise<T>, options?: WriteOptions): Promise<T>;
  /**
   * For a change that reads nothing and whose rows nobody else writes: new rows, mostly. Those of several callers
   * share a transaction under load, and still each of them succeeds or fails alone.
   */
  groupCommit(change: (tx: WriteTx) => void, options?: WriteOptions): Promise<void>;
}

export interface WriteOptions {
  readonly audited?: boolean;
  /**
   * Something a node stores now and then, and can store later as well: it has connections of its own and gives up
   * soon, so that it never takes one that somebody's change waits for.
   */
  readonly isChore?: boolean;
  /** The writer retries if it fails: then the outcome of the first try is looked up before (see `unlessMade`). */
  readonly isTraced?: boolean;
  /** The tenant, where one organisation may send many slow or conflicting writes: it never gets all connections. */
  readonly tenant?: string;
}
