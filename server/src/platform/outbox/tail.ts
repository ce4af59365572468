/**
 * Every node tails the outbox, in one order, each fact once. What may be delivered when is decided in
 * reading.ts; here is the rest: connecting, polling at the right time, delivering.
 *
 * NOTIFY inside a write transaction takes a global lock and halves the write rate. So the peers are notified after the
 * commit, outside the transaction, and only if they may be idle (see pace.ts). A slow poll covers a notification that was
 * never sent: because its node died right after COMMIT, or did not know yet that it has peers.
 *
 * What this node committed itself it need not read back: if it is the very next number, it is delivered at once. Only
 * at a gap (another node's fact, or a transaction of our own that is about to end) does it poll.
 *
 * The tail is also what makes caches safe: a cached decision may be used only while the tail is fresh, that is while
 * we know of every change that was committed until less than a second ago. For that a poll has to have read all there
 * was; that not all of it could be delivered yet, because of a gap, does not matter.
 *
 * After a lost connection the next one may lead to another server, and that one may not have what the old one
 * committed last. So with every new connection all caches are cleared, and the server is asked about
 * what we have delivered (told.ts). If its history differs, listeners that promised to see all must start over.
 */
import type { Clock } from "../clock.ts";
import type { Database } from "../db/index.ts";
import { reasonOf, type Log } from "../log.ts";
import type { Measure } from "../measure.ts";
import { Listeners } from "./listeners.ts";
import type { Fact, NumberedFact } from "./fact.ts";
import { PollSchedule, POLL_MS, realTimers, type Timers } from "./pace.ts";
import { BATCH, isWhole, Reading, type OutboxPage } from "./reading.ts";
import { openOutbox, type ServerIdentity, type OutboxSource, type Outlook } from "./source.ts";

export interface Tail {
  /** In order, once, on every node. */
  onFacts(listener: (facts: readonly NumberedFact[]) => void): void;
  /** Facts as soon as this node knows of them: its own at commit, others' when they are read. May repeat. */
  onInvalidate(listener: (fact: Fact) => void): void;
  /**
   * The database connection is new, and may lead to a server that lacks some commits: what was read
   * before has to be read again. A listener to all facts has missed none.
   */
  onReconnect(listener: () => void): void;
  /** This node may have missed facts: a listener that promised to see all must start over. Comes after `onReconnect`. */
  onGap(listener: () => void): void;
  isFresh(): boolean;
  /** For how many milliseconds the outbox could not be read. */
  lagMs(): number;
  readonly measures: readonly Measure[];
  /** The newest fact that was delivered to listeners. */
  position(): number;
  start(): Promise<void>;
  stop(): Promise<void>;
}

export const RETENTION_SECONDS = 120;
const FRESH_MS = 1000;
/** Nearly always a gap's transaction is just committing: polling again is cheaper than asking who is writing. */
const HUNCH_MS = 20;
const PEERS_MS = 30_000;
/** Gaps are filled or dead within milliseconds; this bounds the wait for a lingering transaction, beyond any of ours. */
const PATIENCE_MS = 60_000;

interface TailNeeds {
  readonly database: Database;
  readonly clock: Clock;
  readonly log: Log;
}

export function createTail({ database, clock, log }: TailNeeds): Tail {
  return new OutboxTail({ source: openOutbox(database), clock, log, timers: realTimers });
}

interface OutboxTailNeeds {
  readonly source: OutboxSource;
  readonly clock: Pick<Clock, "elapsed">;
  readonly log: Pick<Log, "warn" | "error">;
  readonly timers: Timers;
}

export class OutboxTail implements Tail {
  readonly #needs: OutboxTailNeeds;
  readonly #reading = new Reading();
  readonly #pace = new PollSchedule();
  readonly #facts: Listeners<readonly NumberedFact[]>;
  readonly #hints: Listeners<Fact>;
  readonly #reconnects: Listeners<void>;
  readonly #gaps: Listeners<void>;
  #outlook: Outlook | undefined;
  #identity: ServerIdentity = { system: null, timeline: null };
  /** From here on every number counts. */
  #isStarted = false;
  #hole: { readonly seq: number; readonly since: number } | undefined;
  #inquestSince = 0;
  #narrowedAt = Number.NEGATIVE_INFINITY;
  #peersAt = Number.NEGATIVE_INFINITY;
  #syncedAt = Number.NEGATIVE_INFINITY;
  #heardAt = Number.NEGATIVE_INFINITY;
  #timer: unknown;
  #lookedAt = Number.NEGATIVE_INFINITY;
  #isLookDue = false;
  #polling: Promise<void> | undefined;
  #again = false;
  #stopped = false;

  constructor(needs: OutboxTailNeeds) {
    this.#needs = needs;
    this.#facts = new Listeners(needs.log);
    this.#hints = new Listeners(needs.log);
    this.#reconnects = new Listeners(needs.log);
    this.#gaps = new Listeners(needs.log);
    needs.source.onCommitted((facts, isCurrent) => this.#committed(facts, isCurrent));
  }

  onFacts(listener: (facts: readonly NumberedFact[]) => void): void {
    this.#facts.add(listener);
  }

  onInvalidate(listener: (fact: Fact) => void): void {
    this.#hints.add(listener);
  }

  onReconnect(listener: () => void): void {
    this.#reconnects.add(listener);
  }

  onGap(listener: () => void): void {
    this.#gaps.add(listener);
  }

  isFresh(): boolean {
    return this.#needs.clock.elapsed() - this.#syncedAt < FRESH_MS;
  }

  readonly measures: readonly Measure[] = [
    // The second name is the first one's of old, kept for one release: dashboards and alerts were made with it.
    ...(["keyward_outbox_lag_seconds", "keyward_outbox_deaf_seconds"] as const).map((name) => ({
      name,
      help: "For how long this node could not read what other nodes changed; under a second is normal, after a minute its streams are ended.",
      kind: "gauge" as const,
      read: () => [{ value: this.lagMs() / 1000 }],
    })),
    {
      name: "keyward_outbox_unsynced_seconds",
      help: "Since when this node may not know of every change; from one second on it reads everything from the database instead of its memory.",
      kind: "gauge",
      read: () => [{ value: (this.#needs.clock.elapsed() - this.#syncedAt) / 1000 }],
    },
  ];

  lagMs(): number {
    return this.#needs.clock.elapsed() - this.#heardAt;
  }

  position(): number {
    return this.#reading.last;
  }

  async start(): Promise<void> {
    const { outlook, use } = await this.#open();
    const beginning = await outlook.begin();
    // Every transaction that is open now must have ended before we say "from here on I see all".
    const writers = await outlook.writers();
    const deadline = this.#needs.clock.elapsed() + PATIENCE_MS;
    while (writers.size > 0 && this.#needs.clock.elapsed() < deadline) {
      await new Promise<void>((resolve) => void this.#needs.timers.set(resolve, this.#pace.shortest));
      const now = await outlook.writers();
      for (const writer of writers) if (!now.has(writer)) writers.delete(writer);
    }
    const mark = { seq: beginning.last, count: 0, sum: 0 };
    const { claimed } = await outlook.look({
      above: null,
      holes: [],
      claim: { ...mark, from: null, to: mark.seq, end: mark },
    });
    this.#identity = beginning;
    this.#reading.startAt({ ...mark, ...claimed });
    this.#isStarted = true;
    use();
    await this.#poll();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#needs.timers.clear(this.#timer);
    await this.#polling;
    await Promise.all([this.#outlook?.end().catch(() => undefined), this.#needs.source.stop()]);
  }

  /** Used only once the server is known: until then, the number of our own commit may be another fact's. */
  async #open(): Promise<{ readonly outlook: Outlook; use(): void }> {
    let isLost = false;
    // It may be lost before it is there.
    let opened: Outlook | undefined;
    const outlook = await this.#needs.source.open({
      onLost: () => {
        isLost = true;
        if (opened && this.#outlook === opened) this.#outlook = undefined;
      },
      onNotify: () => this.#wake(),
      onPeers: () => {
        this.#peersAt = Number.NEGATIVE_INFINITY;
        this.#pace.peers = Math.max(1, this.#pace.peers);
      },
    });
    opened = outlook;
    const use = (): void => {
      if (isLost) throw new Error("the connection was lost again");
      this.#outlook = outlook;
    };
    return { outlook, use };
  }

  #committed(facts: readonly NumberedFact[], isCurrent: boolean): void {
    for (const fact of facts) {
      // On a connection to an unknown server: a poll will find out whether the fact is there.
      const isNew = this.#isStarted && isCurrent && this.#outlook ? this.#reading.own(fact) : true;
      if (isNew) this.#hint(fact);
    }
    this.#advance();
    const { clock } = this.#needs;
    if (this.#pace.mustRing(clock.elapsed())) void this.#ring();
    if (!isCurrent) return this.#wake();
    // Nearly always the missing one is ours too and commits within the millisecond; a poll would be for nothing.
    if (!this.#reading.isBlocked || this.#polling || this.#isLookDue) return;
    this.#isLookDue = true;
    this.#pollIn(this.#pace.shortest);
  }

  async #ring(): Promise<void> {
    // The peers' poll is the safety net.
    await this.#needs.source.notify().catch(() => this.#pace.notifyFailed());
  }

  #hint(fact: Fact): void {
    // A listener that failed may have stale entries; nobody knows which, so all caches are cleared.
    if (!this.#hints.tell(fact)) this.#reconnects.tell();
  }

  #advance(): void {
    const ready = this.#reading.advance();
    if (ready.length > 0) this.#facts.tell(ready);
  }

  #wake(): void {
    this.#again = true;
    if (!this.#polling) this.#pollIn(0);
  }

  /** Not sooner than a moment after the last poll began. */
  #pollIn(ms: number): void {
    const { timers, clock } = this.#needs;
    timers.clear(this.#timer);
    const soonest = this.#lookedAt + this.#pace.shortest - clock.elapsed();
    const delay = Math.max(ms, soonest);
    if (delay <= 0) return void this.#poll();
    this.#timer = timers.set(() => void this.#poll(), delay);
  }

  #poll(): Promise<void> {
    if (!this.#isStarted || this.#stopped || this.#polling) return Promise.resolve();
    this.#polling = this.#lookAndPlan();
    return this.#polling;
  }

  async #lookAndPlan(): Promise<void> {
    const { clock, timers, log } = this.#needs;
    this.#again = false;
    this.#isLookDue = false;
    this.#lookedAt = clock.elapsed();
    timers.clear(this.#timer);
    let delay = POLL_MS;
    try {
      const outlook = this.#outlook ?? (await this.#reconnect());
      delay = await this.#look(outlook);
    } catch (error) {
      log.warn({ reason: reasonOf(error) }, "the outbox cannot be read; trying again");
      this.#outlook?.cut();
      this.#outlook = undefined;
    } finally {
      this.#polling = undefined;
    }
    if (!this.#stopped) this.#pollIn(this.#again ? 0 : delay);
  }

  /**
   * Order matters: first old connections are not used any more, then what was read on them is dropped, and
   * only then does a poll make us fresh again.
   */
  async #reconnect(): Promise<Outlook> {
    const { outlook, use } = await this.#open();
    this.#syncedAt = Number.NEGATIVE_INFINITY;
    this.#needs.source.renew();
    this.#reading.reconnect();
    this.#hole = undefined;
    this.#peersAt = Number.NEGATIVE_INFINITY;
    this.#reconnects.tell();
    try {
      await this.#prove(outlook);
      use();
    } catch (error) {
      outlook.cut();
      throw error;
    }
    return outlook;
  }

  /** Is this the server whose facts we have delivered, or one that has all of them? */
  async #prove(outlook: Outlook): Promise<void> {
    const beginning = await outlook.begin();
    const isOther = beginning.system !== this.#identity.system;
    const question = this.#reading.wholeQuestion();
    const page = await outlook.look(question);
    const verdict = this.#reading.judge(page, question.claim);
    if (isOther || verdict !== "same") this.#gap(page, isOther ? "another server" : "another history");
    this.#identity = beginning;
  }

  /** One poll; answers after how many milliseconds to poll again. */
  async #look(outlook: Outlook): Promise<number> {
    const startedAt = this.#needs.clock.elapsed();
    const wasOver = await this.#pursueInquest(outlook, startedAt);
    const question = this.#reading.question();
    const page = await outlook.look(question);
    if (this.#outlook !== outlook) throw new Error("the connection was lost");
    this.#heardAt = startedAt;
    const verdict = this.#reading.judge(page, question.claim);
    if (verdict === "unsaid") await this.#prove(outlook);
    const fresh = verdict === "same" ? this.#reading.take(page) : undefined;
    if (!fresh && verdict !== "unsaid") {
      this.#gap(page, "facts are missing");
      // Perhaps our commit went to another server, and this one is the old primary: resolve the address again.
      throw new Error("the server tells another story than before");
    }
    // Invalidations first: a listener that reacts to a fact must not find stale entries in a cache.
    for (const fact of fresh ?? []) this.#hint(fact);
    if (fresh && fresh.length > 0) this.#pace.sawForeign(this.#needs.clock.elapsed());
    const isComplete = fresh !== undefined && isWhole(page, question);
    // All gaps were queried, whatever else there is to read: behind a dead one more may wait than we hold.
    if (wasOver && fresh !== undefined && page.late.length < BATCH) this.#reading.closeInquest();
    this.#advance();
    // Only a complete poll makes us fresh. What may not be delivered yet has invalidated caches already.
    if (isComplete) this.#syncedAt = startedAt;
    await this.#countPeers(outlook);
    if (!isComplete && question.above !== null) return 0;
    return this.#reading.isBlocked || this.#reading.hasGivenUp
      ? this.#waitAtHole(outlook)
      : this.#pace.next(this.#needs.clock.elapsed());
  }

  /** Before a poll: it sees every transaction that has ended by now. Answers whether none is left that could fill a gap. */
  async #pursueInquest(outlook: Outlook, now: number): Promise<boolean> {
    if (!this.#reading.hasInquest) return false;
    if (!this.#reading.isInquestOver && now - this.#narrowedAt >= HUNCH_MS) {
      this.#narrowedAt = now;
      this.#reading.narrow(await outlook.writers());
    }
    if (!this.#reading.isInquestOver && now - this.#inquestSince > PATIENCE_MS) {
      this.#needs.log.warn({ hole: this.#reading.hole }, "a transaction keeps a number; going on without it");
      this.#reading.giveUp();
    }
    return this.#reading.isInquestOver;
  }

  async #waitAtHole(outlook: Outlook): Promise<number> {
    const now = this.#needs.clock.elapsed();
    const seq = this.#reading.hole ?? (this.#reading.hasGivenUp ? 0 : undefined);
    if (seq === undefined) this.#hole = undefined;
    else if (this.#hole?.seq !== seq) this.#hole = { seq, since: now };
    if (this.#hole && !this.#reading.hasInquest && now - this.#hole.since > HUNCH_MS) {
      const writers = await outlook.writers();
      this.#reading.beginInquest(writers);
      this.#inquestSince = this.#narrowedAt = now;
      if (writers.size === 0) return 0;
    }
    return this.#reading.isBlocked
      ? this.#pace.atHole(now - (this.#hole?.since ?? now))
      : this.#pace.next(now);
  }

  /** Rarely, and never while nothing happens: it only decides how often to poll and whether to notify. */
  async #countPeers(outlook: Outlook): Promise<void> {
    const now = this.#needs.clock.elapsed();
    const isKnown = now - this.#peersAt < PEERS_MS;
    if (isKnown || (this.#peersAt > Number.NEGATIVE_INFINITY && !this.#pace.isBusy(now))) return;
    this.#pace.peers = await outlook.peers();
    this.#peersAt = now;
  }

  /** All that is still there is delivered again: a number below the newest may belong to an open transaction. */
  #gap({ swept, gone }: OutboxPage, why: string): void {
    this.#needs.log.warn(
      { why, told: this.#reading.last },
      "facts may be lost to this node; whoever depends on them starts over",
    );
    this.#syncedAt = Number.NEGATIVE_INFINITY;
    this.#reading.startAt({ seq: swept, ...gone });
    this.#hole = undefined;
    this.#reconnects.tell();
    this.#gaps.tell();
  }
}
