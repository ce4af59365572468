/**
 * The tail in a jar: the real tail on a virtual clock, with a fake server behind it, driven through a history that a
 * seed decides: draws, commits, rollbacks, clean-ups, pauses, broken connections, fail-overs with and without loss. What
 * must hold is checked all the while, and at the end when everything has come to rest.
 */
import type { Fact, NumberedFact } from "../../src/platform/outbox/index.ts";
import { BATCH, type OutboxQuestion } from "../../src/platform/outbox/reading.ts";
import type { OutboxSource, Outlook, OutlookEvents } from "../../src/platform/outbox/source.ts";
import { OutboxTail } from "../../src/platform/outbox/tail.ts";
import { FakeServer } from "./server.ts";

const RETENTION_MS = 120_000;
const FRESH_MS = 1000;
/** After a promise is kept, those who waited for it need a few turns until they have asked for the next thing. */
const TURNS = 12;

export type Dice = (sides: number) => number;

export function diceOf(seed: number): Dice {
  let state = (seed * 2654435761 + 0x9e3779b9) >>> 0;
  return (sides) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state % sides;
  };
}

interface Due {
  at: number;
  readonly order: number;
  readonly isNodes: boolean;
  run(): void;
}

/** A virtual clock, and what is to happen when. */
export class Schedule {
  now = 0;
  #order = 0;
  #due: Due[] = [];
  /** The node does nothing until then, whatever is due. */
  #pausedUntil = 0;

  get restsAt(): number {
    return Math.max(this.now, this.#pausedUntil);
  }

  in(ms: number, run: () => void, isNodes = false): Due {
    const due = { at: this.now + ms, order: (this.#order += 1), isNodes, run };
    this.#due.push(due);
    return due;
  }

  drop(due: unknown): void {
    const at = this.#due.indexOf(due as Due);
    if (at >= 0) this.#due.splice(at, 1);
  }

  pauseNode(ms: number): void {
    this.#pausedUntil = Math.max(this.#pausedUntil, this.now + ms);
  }

  #timeOf({ at, isNodes }: Due): number {
    return isNodes ? Math.max(at, this.#pausedUntil) : at;
  }

  async runUntil(end: number, isOver: () => boolean = () => false): Promise<void> {
    for (;;) {
      if (isOver()) return;
      let next: Due | undefined;
      for (const due of this.#due) {
        if (!next) next = due;
        const difference = this.#timeOf(due) - this.#timeOf(next);
        if (difference < 0 || (difference === 0 && due.order < next.order)) next = due;
      }
      if (!next || this.#timeOf(next) > end) break;
      this.drop(next);
      this.now = Math.max(this.now, this.#timeOf(next));
      next.run();
      for (let turn = 0; turn < TURNS; turn += 1) await Promise.resolve();
    }
    this.now = Math.max(this.now, end);
  }
}

interface Connection {
  readonly server: FakeServer;
  readonly events: OutlookEvents;
  isCut: boolean;
}

export interface JarOptions {
  readonly latencyMs?: number;
}

/** One node's tail, the servers it may talk to, and the judge of what it says. */
export class Jar {
  readonly schedule = new Schedule();
  readonly faults: string[] = [];
  readonly seen = { told: 0, gaps: 0, reconnects: 0, lossy: 0, looks: 0, bells: 0 };
  primary = new FakeServer();
  readonly tail: OutboxTail;
  readonly #roll: Dice;
  #connection: Connection | undefined;
  /** What the latest poll asked about. */
  #lookedOn: FakeServer | undefined;
  #commits: Parameters<OutboxSource["onCommitted"]>[0] = () => undefined;
  #renewedAt = -1;
  #isDown = false;
  /** Told since the start or the last gap. */
  #era: NumberedFact[] = [];
  #eraStart = 0;
  #hinted = new Set<string>();
  #forgotAt = 0;
  #forgotOn: FakeServer | undefined;
  readonly #latencyMs: number | undefined;

  constructor(roll: Dice, options: JarOptions = {}) {
    this.#roll = roll;
    this.#latencyMs = options.latencyMs;
    const { schedule } = this;
    this.tail = new OutboxTail({
      source: this.#source(),
      clock: { elapsed: () => schedule.now },
      log: { warn: () => undefined, error: (said: unknown) => void this.faults.push(JSON.stringify(said)) },
      timers: { set: (run, ms) => schedule.in(ms, run, true), clear: (due) => schedule.drop(due) },
    } as ConstructorParameters<typeof OutboxTail>[0]);
    this.tail.onInvalidate((fact) => this.#hint(fact));
    this.tail.onFacts((facts) => this.#tell(facts));
    this.tail.onReconnect(() => this.#forget());
    this.tail.onGap(() => {
      this.seen.gaps += 1;
      this.#era = [];
      this.#eraStart = this.tail.position();
    });
  }

  async start(): Promise<void> {
    let isStarted = false;
    void this.tail.start().then(
      () => (isStarted = true),
      (error: unknown) => this.faults.push(`no start: ${String(error)}`),
    );
    await this.schedule.runUntil(this.schedule.now + 200_000, () => isStarted || this.faults.length > 0);
    this.#eraStart = this.#era[0] ? this.#era[0].seq - 1 : this.tail.position();
    this.#forgotAt = this.schedule.now;
  }

  // What the world does.

  /** A transaction that states facts; of this node or of another, kept or rolled back, each at its own pace. */
  transact(options: {
    facts: number;
    isOwn: boolean;
    isKept: boolean;
    openMs: number;
    showMs: number;
  }): void {
    const { schedule, primary: server } = this;
    if (this.#isDown) return;
    const askedAt = schedule.now;
    const xid = server.begin(options.facts, schedule.now, () => `${server.timeline}-${this.#roll(2 ** 30)}`);
    schedule.in(options.openMs, () => {
      if (!options.isKept) return server.rollBack(xid);
      const rows = server.log(xid);
      schedule.in(options.showMs, () => {
        server.show(xid, schedule.now);
        // On a server that is no longer the primary such a commit is still answered, where it can be.
        if (options.isOwn)
          schedule.in(this.#roll(3), () => this.#commits(rows, askedAt > this.#renewedAt), true);
        else if (this.#roll(2) === 0 && server === this.primary) this.#connection?.events.onNotify();
      });
    });
  }

  sweep(): void {
    this.primary.sweep(this.schedule.now - RETENTION_MS);
  }

  /** The connection breaks; for so long nobody can make another. */
  cut(awayMs: number): void {
    const connection = this.#connection;
    if (connection) {
      connection.isCut = true;
      this.#connection = undefined;
      this.schedule.in(0, () => connection.events.onLost(), true);
    }
    if (awayMs === 0) return;
    this.#isDown = true;
    this.schedule.in(awayMs, () => (this.#isDown = false));
  }

  failOver(lostEntries: number, awayMs: number): void {
    if (lostEntries > 0) this.seen.lossy += 1;
    this.primary = this.primary.promote(lostEntries, this.schedule.now);
    this.cut(awayMs);
  }

  // What the tail sees.

  #source(): OutboxSource {
    return {
      open: (events) =>
        this.#later(undefined, () => {
          if (this.#isDown) throw new Error("no server");
          this.seen.reconnects += 1;
          const connection: Connection = { server: this.primary, events, isCut: false };
          this.#connection = connection;
          return this.#outlook(connection);
        }),
      notify: async () => void (this.seen.bells += 1),
      onCommitted: (listener) => (this.#commits = listener),
      renew: () => (this.#renewedAt = this.schedule.now),
      stop: async () => undefined,
    };
  }

  #outlook(connection: Connection): Outlook {
    const { server } = connection;
    return {
      begin: () =>
        this.#later(connection, () => ({
          system: "one",
          timeline: String(server.timeline),
          last: server.last,
        })),
      look: (question: OutboxQuestion) => {
        this.seen.looks += 1;
        const page = this.#later(connection, () => server.page(question, BATCH));
        void page.then(
          () => (this.#lookedOn = server),
          () => undefined,
        );
        return page;
      },
      writers: () => this.#later(connection, () => server.writers()),
      peers: () => this.#later(connection, () => 1),
      end: async () => undefined,
      cut: () => {
        connection.isCut = true;
        if (this.#connection === connection) this.#connection = undefined;
      },
    };
  }

  /** The server answers after a while what it finds then, and that takes a while to arrive. */
  #later<T>(connection: Connection | undefined, look: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      const ms = () => this.#latencyMs ?? this.#roll(4) / 2;
      this.schedule.in(ms(), () => {
        let found: T;
        try {
          found = look();
        } catch (error) {
          return void this.schedule.in(0, () => reject(error as Error), true);
        }
        const arrive = () => (connection?.isCut ? reject(new Error("cut")) : resolve(found));
        this.schedule.in(ms(), arrive, true);
      });
    });
  }

  // What must hold.

  #fault(what: string): void {
    if (this.faults.length < 5) this.faults.push(`${what} at ${this.schedule.now}`);
  }

  #hint(fact: Fact): void {
    this.#hinted.add(fact.name);
  }

  #tell(facts: readonly NumberedFact[]): void {
    for (const fact of facts) {
      const before = this.#era.at(-1);
      if (before && before.seq >= fact.seq) this.#fault(`told ${fact.seq} after ${before.seq}`);
      if (!this.#hinted.has(fact.name)) this.#fault(`told ${fact.seq} before its hint`);
      this.#era.push(fact);
    }
    this.seen.told += facts.length;
    const server = this.#connection?.server;
    if (!server) return;
    // Nothing is delivered after a fact that this server does not have.
    const lost = this.#era.find(({ seq, at }) => server.history.get(seq)?.at !== at);
    if (lost && !facts.includes(lost)) this.#fault(`went on after ${lost.seq} was lost`);
  }

  #forget(): void {
    this.#forgotAt = this.schedule.now;
    this.#forgotOn = this.#connection?.server;
    this.#hinted.clear();
  }

  /** A tail that calls itself fresh knows of everything that was visible a second ago. */
  checkFreshness(): boolean {
    if (!this.tail.isFresh()) return false;
    const server = this.#lookedOn;
    if (!server) return true;
    if (this.#forgotOn && server !== this.#forgotOn) this.#fault("fresh on another server with old memories");
    const limit = this.schedule.now - FRESH_MS;
    for (const { seq, name, visibleAt } of server.history.values())
      if (visibleAt > this.#forgotAt && visibleAt <= limit && !this.#hinted.has(name))
        this.#fault(`fresh without knowing of ${seq}, seen since ${visibleAt}`);
    return true;
  }

  /** Everything has come to rest: the history that was delivered is the one that happened. */
  async judge(): Promise<void> {
    await this.schedule.runUntil(this.schedule.now + 2500);
    this.checkFreshness();
    if (!this.tail.isFresh()) this.#fault("never fresh again");
    const happened = [...this.primary.history.values()]
      .filter(({ seq }) => seq > this.#eraStart)
      .sort((a, b) => a.seq - b.seq);
    const told = new Map(this.#era.map((fact) => [fact.seq, fact]));
    for (const { seq, at } of happened) if (told.get(seq)?.at !== at) this.#fault(`${seq} was never told`);
    if (told.size > happened.length) this.#fault("told what never happened");
  }
}

/** One history, short, as the dice fall. */
export async function runSchedule(seed: number): Promise<Jar> {
  const roll = diceOf(seed);
  const jar = new Jar(roll);
  const { schedule } = jar;
  for (let n = roll(3); n > 0; n -= 1)
    jar.transact({ facts: 1 + roll(3), isOwn: false, isKept: true, openMs: 0, showMs: roll(50) });
  await jar.start();
  const steps = 4 + roll(16);
  for (let step = 0; step < steps; step += 1) {
    const die = roll(100);
    if (die < 70)
      for (let n = 1 + roll(4); n > 0; n -= 1)
        jar.transact({
          facts: 1 + roll(roll(8) === 0 ? 40 : 2),
          isOwn: roll(2) === 0,
          isKept: roll(6) > 0,
          openMs: roll(30) === 0 ? roll(2000) : roll(12),
          showMs: roll(10) === 0 ? roll(80) : 0,
        });
    else if (die < 78) jar.cut(roll(3) === 0 ? roll(2500) : 0);
    else if (die < 84) jar.failOver(0, roll(300));
    else if (die < 92) jar.failOver(1 + roll(roll(3) === 0 ? jar.primary.logLength + 1 : 4), roll(1500));
    else if (die < 96) schedule.pauseNode(roll(4) === 0 ? 100_000 + roll(60_000) : roll(3000));
    else {
      await schedule.runUntil(schedule.now + (roll(8) === 0 ? RETENTION_MS + 1000 : 0));
      jar.sweep();
    }
    await schedule.runUntil(schedule.now + roll(roll(4) === 0 ? 400 : 30));
    jar.checkFreshness();
    if (jar.faults.length > 0) return jar;
  }
  await schedule.runUntil(schedule.restsAt + 2600);
  await jar.judge();
  return jar;
}
