/**
 * What the rest of the house may do with the database: look (`read`), change (`write`), add (`append`). There is no
 * other way in, so a query cannot miss its transaction.
 */
import type { Actor } from "../actor.ts";
import type { Fact } from "../outbox/fact.ts";
import type { Statement } from "./statement.ts";

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

/** What a change says without looking. */
export interface Pen {
  /**
   * For a statement whose rows nobody needs: it travels with the audit rows and COMMIT, so that a use case made of
   * such statements costs one round trip. If it fails, the whole write fails.
   */
  later(statement: Statement<unknown>, values: readonly unknown[]): void;
  emit(fact: Fact): void;
  audit(actor: Actor, entry: AuditEntry): void;
}

export interface Tx extends Query, Pen {}

export interface Db {
  read<T>(look: (q: Query) => Promise<T>): Promise<T>;
  /** `audited: false` is for upkeep that changes nothing a person did: sweeps, counters, leases. */
  write<T>(change: (tx: Tx) => Promise<T>, options?: WriteOptions): Promise<T>;
  /**
   * For a change that looks at nothing and whose rows nobody else writes: new rows, mostly. Those of several callers
   * share a transaction when there is much to do, and each of them stands or falls by itself all the same.
   */
  append(change: (pen: Pen) => void, options?: WriteOptions): Promise<void>;
}

export interface WriteOptions {
  readonly audited?: boolean;
}
