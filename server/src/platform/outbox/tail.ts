/**
 * Every node reads the outbox from its end, in one order, each fact once. Two difficulties make this more than a
 * SELECT in a loop:
 *
 * 1. A transaction draws its sequence number before it commits, so number 7 may become visible before number 6.
 *    Reading past a hole would lose 6 for ever. So at a hole we stop and write down which transactions of this
 *    database are running; once all of those have ended, the hole is either filled or was rolled back. (Of this
 *    database and role only: someone else's long transaction on the same server is none of our business.)
 * 2. NOTIFY inside a write transaction takes a global lock and halves the write rate. So the doorbell is rung
 *    after the commit, from outside (see bell.ts). A short poll is the net for a bell that was never rung: because
 *    its node died right after COMMIT, or did not know yet that it has company.
 *
 * What this node committed itself it need not read back: if it is the very next number, it is told of at once. Only
 * at a hole (another node's fact, or a transaction of our own that is about to end) does it take a look.
 *
 * The tail is also what makes caches safe: a cached decision may be used only while the tail is fresh, that is
 * while we know of every change that was committed until less than a second ago.
 */
import type pg from "pg";
import type { Clock } from "../clock.ts";
import { sever, type Database } from "../db/index.ts";
import { reasonOf, type Log } from "../log.ts";
import type { Measure } from "../measure.ts";
import { Bell } from "./bell.ts";
import type { Fact, NumberedFact } from "./fact.ts";

export interface Tail {
  /** In order, once, on every node. */
  onFacts(listener: (facts: readonly NumberedFact[]) => void): void;
  /** Facts as soon as this node knows of them: its own at commit, others' when they are read. May repeat. */
  onHint(listener: (fact: Fact) => void): void;
  /** This node was away for so long that facts were swept unseen: whoever promised to see all must start over. */
  onGap(listener: () => void): void;
  isFresh(): boolean;
  /** For how many milliseconds the outbox could not be read. */
  deafMs(): number;
  readonly measures: readonly Measure[];
  /** The newest fact that the listeners have been told of. */
  position(): number;
  start(): Promise<void>;
  stop(): Promise<void>;
}

export const RETENTION_SECONDS = 120;
const POLL_MS = 200;
const HOLE_POLL_MS = 3;
const HOLE_HUNCH_MS = 20;
const FRESH_MS = 1000;
/** Between the beginnings of two looks: who is busy pays for a few hundred a second, not for more. */
const LOOK_INTERVAL_MS = 3;
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
  readonly #bell: Bell;
  readonly #factListeners: ((facts: readonly NumberedFact[]) => void)[] = [];
  readonly #hintListeners: ((fact: Fact) => void)[] = [];
  readonly #gapListeners: (() => void)[] = [];
  #client: pg.Client | undefined;
  #last = 0;
  #hole: Hole | undefined;
  /** From here on every number counts. */
  #isStarted = false;
  #isLookDue = false;
  /** Committed here and not told of yet: something before them is missing. */
  readonly #early = new Map<number, NumberedFact>();
  #syncedAt = Number.NEGATIVE_INFINITY;
  #heardAt = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;
  #lookedAt = Number.NEGATIVE_INFINITY;
  #polling = false;
  #again = false;
  #stopped = false;

  constructor(needs: TailNeeds) {
    this.#needs = needs;
    this.#bell = new Bell(needs.database, needs.clock);
    needs.database.onCommitted((facts) => {
      for (const fact of facts) {
        this.#hint(fact);
        if (this.#isStarted && fact.seq > this.#last) this.#early.set(fact.seq, fact);
      }
      this.#tellOwn();
      this.#bell.ring();
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

  readonly measures: readonly Measure[] = [
    {
      name: "keyward_outbox_deaf_seconds",
      help: "For how long this node could not read what other nodes changed; under a second is normal, after a minute its streams are ended.",
      kind: "gauge",
      read: () => [{ value: this.deafMs() / 1000 }],
    },
  ];

  deafMs(): number {
    return this.#needs.clock.elapsed() - this.#heardAt;
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
    this.#isStarted = true;
    await this.#poll();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    while (this.#polling) await new Promise((resolve) => setTimeout(resolve, 1));
    await Promise.all([this.#client?.end().catch(() => undefined), this.#bell.stop()]);
  }

  async #connect(): Promise<void> {
    const client = await this.#needs.database.connect();
    const drop = () => {
      if (this.#client === client) this.#client = undefined;
    };
    client.on("error", drop);
    client.on("end", drop);
    client.on("notification", (notification) => {
      if (!this.#bell.isOwn(notification)) this.#wake();
    });
    await this.#bell.listen(client);
    this.#client = client;
  }

  #hint(fact: Fact): void {
    for (const listener of this.#hintListeners) listener(fact);
  }

  /** Our own facts, as far as they follow on without a hole. */
  #tellOwn(): void {
    const ready: NumberedFact[] = [];
    for (let next; (next = this.#early.get(this.#last + 1));) {
      this.#early.delete(next.seq);
      this.#last = next.seq;
      this.#hole = undefined;
      ready.push(next);
    }
    this.#tell(ready);
    // Nearly always the missing one is ours too and commits within the millisecond; a look would be for nothing.
    if (this.#early.size === 0 || this.#polling || this.#isLookDue) return;
    this.#isLookDue = true;
    this.#pollIn(HOLE_POLL_MS);
  }

  #tell(ready: readonly NumberedFact[]): void {
    if (ready.length > 0) for (const listener of this.#factListeners) listener(ready);
  }

  #wake(): void {
    this.#again = true;
    if (!this.#polling) this.#pollIn(0);
  }

  /** Not sooner than a moment after the last look began. */
  #pollIn(ms: number): void {
    clearTimeout(this.#timer);
    const soonest = this.#lookedAt + LOOK_INTERVAL_MS - this.#needs.clock.elapsed();
    const delay = Math.max(ms, soonest);
    if (delay <= 0) return void this.#poll();
    this.#timer = setTimeout(() => void this.#poll(), delay);
    this.#timer.unref();
  }

  async #poll(): Promise<void> {
    if (this.#stopped || this.#polling) return;
    this.#polling = true;
    this.#again = false;
    this.#isLookDue = false;
    this.#lookedAt = this.#needs.clock.elapsed();
    clearTimeout(this.#timer);
    let delay = POLL_MS;
    try {
      if (!this.#client) await this.#connect();
      delay = await this.#read();
      // Only where reading works: a database that is away is not to be asked hundreds of times a second.
      if (this.#early.size > 0) delay = Math.min(delay, HOLE_POLL_MS);
    } catch (error) {
      this.#needs.log.warn({ reason: reasonOf(error) }, "the outbox cannot be read; trying again");
      // Not asked to end, which could wait for ever on a host that is gone: cut.
      if (this.#client) sever(this.#client);
      this.#client = undefined;
    } finally {
      this.#polling = false;
    }
    if (!this.#stopped) this.#pollIn(this.#again ? 0 : delay);
  }

  /** One look; answers after how many milliseconds to look again. */
  async #read(): Promise<number> {
    const startedAt = this.#needs.clock.elapsed();
    await this.#bell.lookForCompany(this.#client as pg.Client);
    // Before the look: whoever has ended by now is seen by it.
    if (this.#hole?.suspects) await this.#clear(this.#hole.suspects);
    const since = this.#last;
    const { rows } = await (this.#client as pg.Client).query<Page>({
      name: "outbox-tail",
      text: PAGE,
      values: [since],
    });
    const page = rows[0];
    if (!page) throw new Error("the outbox query answered no row");
    this.#heardAt = startedAt;
    this.#noticeGap(page, since);
    const ready: NumberedFact[] = [];
    const facts = page.facts ?? [];
    const isBlocked = this.#takeInOrder(facts, ready);
    // Invalidations first: whoever reacts to a fact must not find what it made stale in a cache.
    for (const fact of ready) this.#hint(fact);
    this.#tell(ready);
    for (const seq of this.#early.keys()) if (seq <= this.#last) this.#early.delete(seq);
    this.#tellOwn();
    if (isBlocked) return this.#waitAtHole();
    // A full page says that there is more: only who has read everything may call itself fresh.
    if (facts.length === BATCH) return 0;
    this.#syncedAt = startedAt;
    return POLL_MS;
  }

  /** True if there is a hole that someone may still fill. */
  #takeInOrder(facts: readonly NumberedFact[], ready: NumberedFact[]): boolean {
    for (const fact of facts) {
      // Committed here and told of while the look was under way.
      if (fact.seq <= this.#last) continue;
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
    const hole = this.#hole?.seq === seq ? this.#hole : { seq, suspects: undefined, since: now };
    this.#hole = hole;
    // Nearly always its transaction is just committing: looking again is cheaper than asking who is running.
    if (!hole.suspects && now - hole.since > HOLE_HUNCH_MS) hole.suspects = await this.#running();
    return hole.suspects?.size === 0 ? 0 : HOLE_POLL_MS;
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
  #noticeGap(page: Page, since: number): void {
    // Not compared with how far we are by now: our own commits may have brought us on while the look was under way.
    const isSetBack = since > 0 && (page.drawn ?? 0) < since;
    const isSwept = page.swept > this.#last;
    if (!isSetBack && !isSwept) return;
    this.#needs.log.warn(
      { isSetBack, isSwept },
      "facts were lost to this node; whoever depends on them starts over",
    );
    this.#last = isSetBack ? (page.drawn ?? 0) : page.swept;
    this.#hole = undefined;
    this.#early.clear();
    for (const listener of this.#gapListeners) listener();
  }
}
