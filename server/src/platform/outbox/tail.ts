/**
 * Every node reads the outbox from its end, in one order, each fact once. Two difficulties make this more than a
 * SELECT in a loop:
 *
 * 1. A transaction draws its sequence number before it commits, so number 7 may become visible before number 6.
 *    Reading past a hole would lose 6 for ever. So at a hole we stop and write down which transactions of this
 *    database are running; once all of those have ended, the hole is either filled or was rolled back. (Of this
 *    database and role only: someone else's long transaction on the same server is none of our business.)
 * 2. NOTIFY inside a write transaction takes a global lock and halves the write rate. So the doorbell is rung
 *    after the commit, from outside: at once for the first commit, then coalesced. A short poll is the net for a
 *    bell that was never rung because its node died right after COMMIT.
 *
 * The tail is also what makes caches safe: a cached decision may be used only while the tail is fresh, that is
 * while we know of every change that was committed until less than a second ago.
 */
import type pg from "pg";
import type { Clock } from "../clock.ts";
import { sever, type Database } from "../db/index.ts";
import type { Log } from "../log.ts";
import type { Fact } from "./fact.ts";

export interface NumberedFact extends Fact {
  readonly seq: number;
  /** The transaction that stated it: with a snapshot, this tells what was committed before and what after. */
  readonly xid: number;
}

export interface Tail {
  /** In order, once, on every node. */
  onFacts(listener: (facts: readonly NumberedFact[]) => void): void;
  /** Facts as soon as this node knows of them: its own at commit, others' when they are read. May repeat. */
  onHint(listener: (fact: Fact) => void): void;
  /** This node was away for so long that facts were swept unseen: whoever promised to see all must start over. */
  onGap(listener: () => void): void;
  isFresh(): boolean;
  /** The newest fact that the listeners have been told of. */
  position(): number;
  start(): Promise<void>;
  stop(): Promise<void>;
}

export const CHANNEL = "keyward_outbox";
export const RETENTION_SECONDS = 120;
const POLL_MS = 200;
const HOLE_POLL_MS = 3;
const HOLE_HUNCH_MS = 20;
const FRESH_MS = 1000;
const BELL_INTERVAL_MS = 10;
const BATCH = 2000;
/**
 * A hole is filled or dead within milliseconds. This only bounds the wait for a transaction that lingers, and is
 * longer than the database lets any of ours live.
 */
const HOLE_PATIENCE_MS = 60_000;

interface Page {
  /** The highest number that was swept: nothing below it will ever be seen again. */
  readonly swept: number;
  /** The last number that was drawn. */
  readonly drawn: number | null;
  readonly facts: NumberedFact[] | null;
}

const PAGE = `
  SELECT (SELECT seq FROM outbox_swept) AS swept, pg_sequence_last_value('outbox_seq_seq') AS drawn,
         (SELECT json_agg(f) FROM (SELECT seq, xid::text::bigint AS xid, name, data FROM outbox WHERE seq > $1 ORDER BY seq LIMIT ${BATCH}) f) AS facts`;

// Every transaction that has an id holds a lock on it until after its commit is visible, and a number is drawn only
// by a transaction that has its id (see the outbox table). So whoever may still fill a hole is in this list.
const RUNNING = `
  SELECT l.transactionid::text AS xid FROM pg_locks l JOIN pg_stat_activity a USING (pid)
  WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted
    AND a.datname = current_database() AND a.usename = current_user`;

interface Hole {
  readonly seq: number;
  /** Transactions that were running when we asked and have not been seen to end. */
  suspects: Set<string> | undefined;
  readonly since: number;
}

export interface TailNeeds {
  readonly database: Database;
  readonly clock: Clock;
  readonly log: Log;
}

export function createTail(needs: TailNeeds): Tail {
  return new OutboxTail(needs);
}

class OutboxTail implements Tail {
  readonly #needs: TailNeeds;
  readonly #factListeners: ((facts: readonly NumberedFact[]) => void)[] = [];
  readonly #hintListeners: ((fact: Fact) => void)[] = [];
  readonly #gapListeners: (() => void)[] = [];
  #client: pg.Client | undefined;
  #bell: pg.Client | undefined;
  #last = 0;
  #hole: Hole | undefined;
  #syncedAt = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;
  #isRinging = false;
  #isBellOwed = false;
  #polling = false;
  #again = false;
  #stopped = false;

  constructor(needs: TailNeeds) {
    this.#needs = needs;
    needs.database.onCommitted((facts) => {
      for (const fact of facts) this.#hint(fact);
      this.#wake();
      this.#ringOthers();
    });
  }

  onFacts(listener: (facts: readonly NumberedFact[]) => void): void {
    this.#factListeners.push(listener);
  }

  onHint(listener: (fact: Fact) => void): void {
    this.#hintListeners.push(listener);
  }

  onGap(listener: () => void): void {
    this.#gapListeners.push(listener);
  }

  isFresh(): boolean {
    return this.#needs.clock.elapsed() - this.#syncedAt < FRESH_MS;
  }

  position(): number {
    return this.#last;
  }

  async start(): Promise<void> {
    await this.#connect();
    const client = this.#client as pg.Client;
    const { rows } = await client.query<{ last: number }>(
      "SELECT greatest(coalesce(max(seq), 0), (SELECT seq FROM outbox_swept)) AS last FROM outbox",
    );
    // Everything that is under way now must have ended before we say "from here on I see all".
    const suspects = await this.#running();
    const deadline = this.#needs.clock.elapsed() + HOLE_PATIENCE_MS;
    while (suspects.size > 0 && this.#needs.clock.elapsed() < deadline) {
      await new Promise((resolve) => setTimeout(resolve, HOLE_POLL_MS));
      await this.#clear(suspects);
    }
    this.#last = rows[0]?.last ?? 0;
    await this.#poll();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    while (this.#polling) await new Promise((resolve) => setTimeout(resolve, 1));
    await Promise.all([this.#client?.end().catch(() => undefined), this.#bell?.end().catch(() => undefined)]);
  }

  async #connect(): Promise<void> {
    const client = await this.#needs.database.connect();
    const drop = () => {
      if (this.#client === client) this.#client = undefined;
    };
    client.on("error", drop);
    client.on("end", drop);
    client.on("notification", ({ processId }) => {
      // Our own bell tells us nothing: we looked when we committed.
      if (processId !== (this.#bell as { processID?: number } | undefined)?.processID) this.#wake();
    });
    await client.query(`LISTEN ${CHANNEL}`);
    this.#client = client;
  }

  #hint(fact: Fact): void {
    for (const listener of this.#hintListeners) listener(fact);
  }

  #wake(): void {
    if (this.#polling) {
      this.#again = true;
      return;
    }
    void this.#poll();
  }

  /** At once, and then at most one bell in a few milliseconds, however many transactions commit. */
  #ringOthers(): void {
    this.#isBellOwed = true;
    if (!this.#isRinging) void this.#ringWhileOwed();
  }

  async #ringWhileOwed(): Promise<void> {
    this.#isRinging = true;
    while (this.#isBellOwed && !this.#stopped) {
      this.#isBellOwed = false;
      await this.#ring().catch(() => undefined); // the others' poll is the net
      await new Promise((resolve) => setTimeout(resolve, BELL_INTERVAL_MS));
    }
    this.#isRinging = false;
  }

  async #ring(): Promise<void> {
    const bell = this.#bell ?? (await this.#openBell());
    try {
      await bell.query(`NOTIFY ${CHANNEL}`);
    } catch (error) {
      // It may be waiting for an answer that never comes; the next ring takes a new one.
      if (this.#bell === bell) this.#bell = undefined;
      sever(bell);
      throw error;
    }
  }

  async #openBell(): Promise<pg.Client> {
    const bell = await this.#needs.database.connect();
    const drop = () => {
      if (this.#bell === bell) this.#bell = undefined;
    };
    bell.on("error", drop);
    bell.on("end", drop);
    this.#bell = bell;
    if (this.#stopped) await bell.end();
    return bell;
  }

  async #poll(): Promise<void> {
    if (this.#stopped || this.#polling) return;
    this.#polling = true;
    this.#again = false;
    clearTimeout(this.#timer);
    let delay = POLL_MS;
    try {
      if (!this.#client) await this.#connect();
      delay = await this.#read();
    } catch (error) {
      this.#needs.log.warn({ reason: (error as Error).message }, "the outbox cannot be read; trying again");
      // Not asked to end, which could wait for ever on a host that is gone: cut.
      if (this.#client) sever(this.#client);
      this.#client = undefined;
    } finally {
      this.#polling = false;
    }
    if (this.#stopped) return;
    if (this.#again) delay = 0;
    this.#timer = setTimeout(() => void this.#poll(), delay);
    this.#timer.unref();
  }

  /** One look; answers after how many milliseconds to look again. */
  async #read(): Promise<number> {
    const startedAt = this.#needs.clock.elapsed();
    // Before the look: whoever has ended by now is seen by it.
    if (this.#hole?.suspects) await this.#clear(this.#hole.suspects);
    const { rows } = await (this.#client as pg.Client).query<Page>({
      name: "outbox-tail",
      text: PAGE,
      values: [this.#last],
    });
    const page = rows[0];
    if (!page) throw new Error("the outbox query answered no row");
    this.#noticeGap(page);
    const ready: NumberedFact[] = [];
    const facts = page.facts ?? [];
    const isBlocked = this.#takeInOrder(facts, ready);
    // Invalidations first: whoever reacts to a fact must not find what it made stale in a cache.
    for (const fact of ready) this.#hint(fact);
    if (ready.length > 0) for (const listener of this.#factListeners) listener(ready);
    if (isBlocked) return this.#waitAtHole();
    // A full page says that there is more: only who has read everything may call itself fresh.
    if (facts.length === BATCH) return 0;
    this.#syncedAt = startedAt;
    return POLL_MS;
  }

  /** True if there is a hole that someone may still fill. */
  #takeInOrder(facts: readonly NumberedFact[], ready: NumberedFact[]): boolean {
    for (const fact of facts) {
      if (fact.seq !== this.#last + 1 && !this.#isDead(this.#last + 1)) {
        // Facts beyond the hole still spoil caches at once; only their order of delivery has to wait.
        for (const later of facts) if (later.seq > this.#last) this.#hint(later);
        return true;
      }
      this.#last = fact.seq;
      this.#hole = undefined;
      ready.push(fact);
    }
    return false;
  }

  #isDead(seq: number): boolean {
    if (this.#hole?.seq !== seq) return false;
    const { suspects, since } = this.#hole;
    return suspects?.size === 0 || this.#needs.clock.elapsed() - since > HOLE_PATIENCE_MS;
  }

  async #waitAtHole(): Promise<number> {
    const seq = this.#last + 1;
    const now = this.#needs.clock.elapsed();
    if (this.#hole?.seq !== seq) this.#hole = { seq, suspects: undefined, since: now };
    // Nearly always its transaction is just committing: looking again is cheaper than asking who is running.
    if (!this.#hole.suspects && now - this.#hole.since > HOLE_HUNCH_MS)
      this.#hole.suspects = await this.#running();
    return this.#hole.suspects?.size === 0 ? 0 : HOLE_POLL_MS;
  }

  async #running(): Promise<Set<string>> {
    const { rows } = await (this.#client as pg.Client).query<{ xid: string }>({
      name: "outbox-running",
      text: RUNNING,
    });
    return new Set(rows.map((row) => row.xid));
  }

  async #clear(suspects: Set<string>): Promise<void> {
    if (suspects.size === 0) return;
    const running = await this.#running();
    for (const xid of suspects) if (!running.has(xid)) suspects.delete(xid);
  }

  /**
   * Facts were swept before we saw them, or the database was set back to an older state than we have seen. Decided
   * by numbers, not by clocks: a stopwatch stands still while a machine sleeps.
   */
  #noticeGap(page: Page): void {
    const isSetBack = this.#last > 0 && (page.drawn ?? 0) < this.#last;
    const isSwept = page.swept > this.#last;
    if (!isSetBack && !isSwept) return;
    this.#needs.log.warn(
      { isSetBack, isSwept },
      "facts were lost to this node; whoever depends on them starts over",
    );
    this.#last = isSetBack ? (page.drawn ?? 0) : page.swept;
    this.#hole = undefined;
    for (const listener of this.#gapListeners) listener();
  }
}
