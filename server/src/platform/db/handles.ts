/**
 * What the rest of the house may do with the database: look (`read`), change (`write`), add (`append`). There is no
 * other way in, so a query cannot miss its transaction.
 */
import type { Actor } from "../actor.ts";
import type { Fact } from "../outbox/fact.ts";
import type { QuickStatement, Statement } from "./statement.ts";

// Properties, not methods: only so does the compiler keep a slow statement away from who may ask quick ones only.
export interface Query {
  readonly rows: <Row>(statement: QuickStatement<Row>, values?: readonly unknown[]) => Promise<Row[]>;
  readonly first: <Row>(
    statement: QuickStatement<Row>,
    values?: readonly unknown[],
  ) => Promise<Row | undefined>;
}

/** Also asks what may take long or bring much, and waits for somebody's turn to do so. */
export interface SlowQuery extends Query {
  readonly rows: <Row>(statement: Statement<Row>, values?: readonly unknown[]) => Promise<Row[]>;
  readonly first: <Row>(statement: Statement<Row>, values?: readonly unknown[]) => Promise<Row | undefined>;
}

/** In whose turn a slow look is taken: an organisation's, or the house's own for what it does unasked. */
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

/** What a change says without looking. */
export interface WriteTx {
  /**
   * For a statement whose rows nobody needs: it travels with the audit rows and COMMIT, so that a use case made of
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
  /** With slow statements among its looks: organisations take turns. */
  read<T>(look: (q: SlowQuery) => Promise<T>, turn: TurnOf): Promise<T>;
  /** `audited: false` is for maintenance that changes nothing a person did: sweeps, counters, leases. */
  write<T>(change: (tx: Tx) => Promise<T>, options?: WriteOptions): Promise<T>;
  /**
   * For a change that looks at nothing and whose rows nobody else writes: new rows, mostly. Those of several callers
   * share a transaction when there is much to do, and each of them stands or falls by itself all the same.
   */
  groupCommit(change: (tx: WriteTx) => void, options?: WriteOptions): Promise<void>;
}

export interface WriteOptions {
  readonly audited?: boolean;
  /**
   * Something a node writes down now and then, and can write later as well: it has connections of its own and gives up
   * soon, so that it never takes one that somebody's change waits for.
   */
  readonly isChore?: boolean;
  /** Whoever writes it writes it again if it fails: then what became of it is found out first (see `unlessMade`). */
  readonly isTraced?: boolean;
  /** Whose change it is, where one organisation may send many that take long or wait for each other: it never has all connections. */
  readonly tenant?: string;
}
