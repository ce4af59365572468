/**
 * One transaction. BEGIN is sent with its first statement, and its audit rows, outbox rows and COMMIT together: a use
 * case with one statement costs two round trips, not five.
 */
import type pg from "pg";
import type { Clock } from "../clock.ts";
import type { Fact, NumberedFact } from "../outbox/fact.ts";
import { auditRow, insertAudit, type AuditRow } from "./audit-rows.ts";
import { isAway, isUncertain } from "./errors.ts";
import type { SlowQuery, Tx, WriteOptions } from "./handles.ts";
import { borrow, isCurrent } from "./pools.ts";
import { sql, type Statement } from "./statement.ts";
import { becameOf, lostAnswer, ownTransactionId, type Ask, type UnconfirmedCommits } from "./unconfirmed.ts";
import { NeverRan, Pipeline } from "@keyward/pg-pipeline";

const insertFact = sql<{ seq: number; xid: number; at: number }>(
  "INSERT INTO outbox (name, data) VALUES ($1, $2) RETURNING seq, xid::text::bigint AS xid, (extract(epoch FROM at) * 1000000)::bigint AS at",
);
type Send = <Row>(statement: Statement<Row>, values: readonly unknown[]) => Promise<Row[]>;

export const asQuery = (send: Send): SlowQuery => ({
  rows: (statement, values = []) => send(statement, values),
  first: async (statement, values = []) => (await send(statement, values))[0],
});

/** Prepared statements live as long as their connection, and so does what we know of them. */
const pipelines = new WeakMap<pg.ClientBase, Pipeline>();
function pipelineOf(client: pg.ClientBase): Pipeline {
  const known = pipelines.get(client);
  if (known) return known;
  const pipeline = new Pipeline(client);
  pipelines.set(client, pipeline);
  return pipeline;
}

interface Pending {
  readonly statements: { readonly statement: Statement<unknown>; readonly values: readonly unknown[] }[];
  readonly facts: Fact[];
  readonly audits: AuditRow[];
  readonly ends: (() => void)[];
}

const planAnew = sql("SET LOCAL plan_cache_mode = force_custom_plan");

function asTx(pipeline: Pipeline, pending: Pending, clock: Clock): Tx {
  let isPlannedAnew = false;
  /** A transaction may hold a statement whose plan depends on its values, too; from there on it is planned with them. */
  const mind = (statement: Statement<unknown>, send: (first: Statement<unknown>) => void): void => {
    if (!statement.isSlow || isPlannedAnew) return;
    isPlannedAnew = true;
    send(planAnew);
  };
  return {
    ...asQuery((statement, values) => {
      mind(statement, (first) => void pipeline.run(first).catch(() => undefined));
      return pipeline.rows(statement, values);
    }),
    defer: (statement, values) => {
      mind(statement, (first) => void pending.statements.push({ statement: first, values: [] }));
      pending.statements.push({ statement, values });
    },
    emit: (fact) => void pending.facts.push(fact),
    audit: (actor, entry) => void pending.audits.push(auditRow(clock.now(), actor, entry)),
    atEnd: (done) => void pending.ends.push(done),
  };
}

const begin = sql("BEGIN");
const end = sql("COMMIT");
const undo = sql("ROLLBACK");

async function commit(pipeline: Pipeline, pending: Pending): Promise<NumberedFact[]> {
  const facts: NumberedFact[] = [];
  const state = async ({ name, data }: Fact): Promise<void> => {
    const text = JSON.stringify(data);
    const [row] = await pipeline.rows(insertFact, [name, text]);
    // Read back, so that listeners here get exactly what other nodes get.
    if (row) facts.push({ ...row, name, data: JSON.parse(text) as Fact["data"] });
  };
  const sent: Promise<unknown>[] = [
    ...pending.statements.map(({ statement, values }) => pipeline.rows(statement, values)),
    ...pending.audits.map((row) => pipeline.rows(insertAudit, row)),
    ...pending.facts.map(state),
    // PostgreSQL answers COMMIT of a failed transaction with a friendly ROLLBACK; that is not a success.
    pipeline.run(end).then((tag) => {
      if (tag !== "COMMIT") throw new Error("the transaction was rolled back at commit");
    }),
  ];
  const failed = (await Promise.allSettled(sent)).find((outcome) => outcome.status === "rejected");
  if (failed) throw failed.reason;
  return facts;
}

interface Ledger {
  readonly clock: Clock;
  readonly commits: UnconfirmedCommits;
  readonly ask: Ask;
}

export async function transact<T>(
  pool: pg.Pool,
  { clock, commits, ask }: Ledger,
  change: (tx: Tx) => Promise<T>,
  { audited: mustAudit = true, isTraced = false }: Pick<WriteOptions, "audited" | "isTraced">,
) {
  const client = await borrow(pool);
  const pipeline = pipelineOf(client);
  let broken = false;
  let committing: Promise<NumberedFact[]> | undefined;
  /** Looked up when the answer to COMMIT was lost. */
  let isMade: Promise<boolean> | undefined;
  // pg reports the failure of a checked-out connection only to listeners.
  const lost = () => {
    broken = true;
  };
  client.on("error", lost);
  const pending: Pending = { statements: [], facts: [], audits: [], ends: [] };
  try {
    // Waits for the first statement and is sent with it.
    const begun = pipeline.run(begin);
    begun.catch(() => undefined); // a failure shows again at the first statement; this one must not go unhandled
    // Before anything is sent that is to be committed: with the answer to COMMIT this one would be lost, too.
    const own = isTraced ? (await pipeline.rows(ownTransactionId, []))[0] : undefined;
    const value = await change(asTx(pipeline, pending, clock));
    if (mustAudit && pending.audits.length === 0) throw new Error("a write left no audit row");
    committing = commit(pipeline, pending);
    isMade = committing.then(
      () => true,
      (error: unknown) => (own !== undefined && isAway(error) ? becameOf(ask, own) : false),
    );
    const facts = await commits.watch(client, committing, isMade);
    await begun;
    return { value, facts, isCurrent: isCurrent(pool, client) };
  } catch (failure) {
    const error = failure instanceof NeverRan ? failure.cause : failure;
    broken = isAway(error);
    if (!broken && !commits.isHeld(client)) {
      await pipeline.run(undo).catch(() => {
        broken = true;
      });
    }
    throw isMade && broken && isUncertain(error) ? lostAnswer(isMade) : error;
  } finally {
    const release = () => {
      client.release(broken);
      client.removeListener("error", lost);
      for (const done of pending.ends) done();
    };
    // It answers at some time, or its connection ends; only then can the next transaction use it.
    if (committing && commits.isHeld(client)) void committing.catch(() => undefined).then(release);
    else release();
  }
}
