/**
 * Commits that wait for a synchronous standby which is down. PostgreSQL lets them wait for ever, and no time-out of ours
 * ends that: so after a few seconds we ask the server what the commit waits for. If it is the standby, the caller is told
 * that the outcome is unknown, and the connection is kept aside until the server answers: a new one in its place would only
 * be one more that waits. While one is kept aside no other write is started, because it could not be confirmed
 * either; and an earlier write that waits for a lock of one that is kept aside is answered as well, instead of waiting
 * for the lock time-out on top.
 */
import { setTimeout as pause } from "node:timers/promises";
import type pg from "pg";
import { Problem } from "../problem.ts";
import { sql, type QuickStatement } from "./statement.ts";
import { sever } from "@keyward/pg-pipeline";

const LOOK_MS = 1000;
/** A commit that takes longer is asked about. */
const SLOW_MS = 5000;
/** Where another is known to wait for the standby already. */
const KNOWN_MS = 1000;
/** One that is kept aside and no longer waits for the standby has its answer by then, or never. */
const ANSWERED_MS = 5000;
/** A query that takes longer meets the same silence, and other commits have to be checked meanwhile. */
const ASK_MS = 3000;

const waitsFor = sql<{ event: string | null }>(
  `SELECT wait_event AS event FROM pg_stat_activity WHERE pid = $1`,
);
/** Also of other nodes, whose locks somebody here may wait for. */
const anybodyWaits = sql<{ pid: number }>(
  `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'SyncRep' LIMIT 1`,
);

const CAUSE = "The database's synchronous standby does not confirm changes at the moment.";

/** It may still be committed: it must not be sent again before that is known. */
export class Unconfirmed extends Problem {
  /** Was it committed after all? */
  readonly isMade: Promise<boolean>;

  constructor(isMade: Promise<boolean>, cause: string = CAUSE) {
    super(
      503,
      "ServiceUnavailable",
      `${cause} Whether this one was made is not certain: look before you repeat it.`,
      { retryAfterSeconds: 5 },
    );
    this.isMade = isMade;
  }
}

const isMadeBy = (change: Promise<unknown>): Promise<boolean> =>
  change.then(
    () => true,
    (error: unknown) => (error instanceof Unconfirmed ? error.isMade : false),
  );

/** Which transaction it is. Its number alone is not enough: after a fail-over another one may get the same. */
interface TransactionId {
  readonly xid: string;
  readonly timeline: string;
}
const TIMELINE = "left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)";
export const ownTransactionId = sql<TransactionId>(
  `SELECT pg_current_xact_id()::text AS xid, ${TIMELINE} AS timeline`,
);
const fate = sql<{ status: string | null }>(
  `SELECT CASE WHEN ${TIMELINE} = $2 THEN pg_xact_status($1::text::xid8) ELSE 'elsewhere' END AS status`,
);
const FATE_MS = 500;
/** For how long the server is asked again; a transaction has ended long before. */
const FATE_TRIES = 1200;

/**
 * The outcome of a transaction whose COMMIT was sent and never answered: the server knows. A server that took over
 * does not; then it counts as not committed: a row written twice is better than a lost one.
 */
export async function becameOf(ask: Ask, { xid, timeline }: TransactionId): Promise<boolean> {
  for (let tries = 0; tries < FATE_TRIES; tries += 1) {
    const [row] = await ask(fate, [xid, timeline]).catch(() => []);
    if (row && row.status !== "in progress") return row.status === "committed";
    await pause(FATE_MS, undefined, { ref: false });
  }
  return false;
}

export const lostAnswer = (isMade: Promise<boolean>): Unconfirmed =>
  new Unconfirmed(isMade, "The database's answer was lost.");

/** For background writers (with `isTraced`): a failed write is queued again once it is known that it was not committed. */
export async function unlessMade(error: unknown, putBack: () => void): Promise<void> {
  if (!(error instanceof Unconfirmed) || !(await error.isMade)) putBack();
}

export const notBegun = (): Problem =>
  new Problem(503, "ServiceUnavailable", `${CAUSE} No further change is begun until it does.`, {
    retryAfterSeconds: 5,
  });

export type Ask = <Row>(statement: QuickStatement<Row>, values: readonly unknown[]) => Promise<Row[]>;

interface Open {
  readonly since: number;
  readonly reject: () => void;
  isHeld: boolean;
  /** When the server last said that it is at it. */
  heardAt: number;
}

export class UnconfirmedCommits {
  readonly #ask: Ask;
  readonly #patienceMs: number;
  readonly #open = new Map<pg.ClientBase, Open>();
  readonly #underWay = new Map<object, Pick<Open, "since" | "reject">>();
  #timer: NodeJS.Timeout | undefined;
  #isLooking = false;
  #heldCount = 0;

  constructor(ask: Ask, patienceMs: number) {
    this.#ask = async (statement, values) => {
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<never>((_resolve, reject) => {
        timer = setTimeout(() => reject(new Error("no answer in time")), ASK_MS);
      });
      return Promise.race([ask(statement, values), late]).finally(() => clearTimeout(timer));
    };
    this.#patienceMs = patienceMs;
  }

  /** Is the connection kept aside, although its caller has been answered? */
  isHeld(client: pg.ClientBase): boolean {
    return this.#open.get(client)?.isHeld ?? false;
  }

  /** How many connections are kept aside. */
  get heldCount(): number {
    return this.#heldCount;
  }

  /** What the whole change answers; rejects early if it is held up while another's commit waits for a standby. */
  mind<T>(change: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const key = {};
      const giveUp = () => reject(new Unconfirmed(isMadeBy(change)));
      this.#underWay.set(key, { since: performance.now(), reject: giveUp });
      this.#timer ??= setInterval(() => void this.#look(), LOOK_MS).unref();
      change.then(resolve, reject).finally(() => this.#underWay.delete(key));
    });
  }

  /** What the commit answers; rejects early, with the connection held, if it waits for a standby. */
  watch<T>(client: pg.ClientBase, commit: Promise<T>, isMade = isMadeBy(commit)): Promise<T> {
    return new Promise((resolve, reject) => {
      const since = performance.now();
      const giveUp = () => reject(new Unconfirmed(isMade));
      this.#open.set(client, { since, reject: giveUp, isHeld: false, heardAt: since });
      this.#timer ??= setInterval(() => void this.#look(), LOOK_MS).unref();
      const end = () => {
        if (this.isHeld(client)) this.#heldCount -= 1;
        this.#open.delete(client);
      };
      commit.then(resolve, reject).finally(end);
    });
  }

  async #look(): Promise<void> {
    if (this.#open.size === 0 && this.#underWay.size === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
    }
    // Not behind the questions, which may meet the same silence.
    for (const [client, { isHeld, heardAt }] of this.#open)
      if (!isHeld && performance.now() - heardAt > this.#patienceMs) sever(client);
    if (this.#isLooking) return;
    this.#isLooking = true;
    const patience = this.#heldCount > 0 ? KNOWN_MS : SLOW_MS;
    const slow = [...this.#open].filter(([, { since }]) => performance.now() - since > patience);
    await Promise.all(slow.map(([client, commit]) => this.#lookAt(client, commit)));
    await this.#release();
    this.#isLooking = false;
  }

  /** Writes that are blocked by a lock of a write that waits for the standby, on any node. */
  async #release(): Promise<void> {
    const olderThan = (ms: number) =>
      [...this.#underWay.values()].filter(({ since }) => performance.now() - since > ms);
    const late =
      this.#heldCount > 0
        ? olderThan(KNOWN_MS)
        : // One question for all of them, and only if somebody has waited for long.
          olderThan(SLOW_MS).length > 0 && (await this.#ask(anybodyWaits, []).catch(() => [])).length > 0
          ? olderThan(SLOW_MS)
          : [];
    for (const { reject } of late) reject();
  }

  /** A server that no longer waits for the standby and has nothing to say for too long is taken for gone. */
  async #lookAt(client: pg.ClientBase, commit: Open): Promise<void> {
    const { processID } = client as unknown as { readonly processID: number | null };
    const rows = await this.#ask(waitsFor, [processID]).catch(() => []);
    if (this.#open.get(client) !== commit) return;
    if (rows[0]?.event === "SyncRep") {
      commit.heardAt = performance.now();
      if (commit.isHeld) return;
      commit.isHeld = true;
      this.#heldCount += 1;
      commit.reject();
    } else if (commit.isHeld && performance.now() - commit.heardAt > ANSWERED_MS) sever(client);
  }
}
