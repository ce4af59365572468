/**
 * Every node reads the outbox from its end, in one order, each fact once. Two difficulties make this more than a
 * SELECT in a loop:
 *
 * 1. A transaction draws its sequence number before it commits, so number 7 may become visible before number 6.
 *    Reading past a hole would lose 6 for ever. So at a hole we stop and remember which transactions were running
 *    (the snapshot's xmax); once all of those have ended, the hole is either filled or was rolled back.
 * 2. NOTIFY inside a write transaction takes a global lock and halves the write rate. So the doorbell is rung
 *    after the commit, from outside, and a short poll is the net for a bell that was never rung because its node
 *    died right after COMMIT.
 *
 * The tail is also what makes caches safe: a cached decision may be used only while the tail is fresh, that is
 * while we know of every change that was committed until less than a second ago.
 */
import type pg from "pg";
import type { Clock } from "../clock.ts";
import type { Database } from "../db/index.ts";
import type { Log } from "../log.ts";
import type { Fact } from "./fact.ts";

export interface NumberedFact extends Fact {
  readonly seq: number;
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
const FRESH_MS = 1000;
const BELL_INTERVAL_MS = 10;
const BATCH = 2000;
/** A hole is filled or dead within milliseconds; this only bounds the wait where a foreign transaction lingers. */
const HOLE_PATIENCE_MS = 5_000;

interface Page {
  readonly xmin: string;
  readonly xmax: string;
  readonly oldest: number | null;
  readonly facts: { seq: number; name: string; data: unknown }[] | null;
}

// One statement, so that the rows and the snapshot that explains their holes are of the same instant.
const PAGE = `
  SELECT pg_snapshot_xmin(s)::text AS xmin, pg_snapshot_xmax(s)::text AS xmax,
         (SELECT min(seq) FROM outbox) AS oldest,
         (SELECT json_agg(f) FROM (SELECT seq, name, data FROM outbox WHERE seq > $1 ORDER BY seq LIMIT ${BATCH}) f) AS facts
  FROM pg_current_snapshot() s`;

interface Hole {
  readonly seq: number;
  readonly xmax: bigint;
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
  #bellTimer: NodeJS.Timeout | undefined;
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
    // Everything that is under way now must have ended before we say "from here on I see all".
    const first = await client.query<{ xmax: string; last: number }>(
      "SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS xmax, coalesce((SELECT max(seq) FROM outbox), 0) AS last",
    );
    const { xmax = "0", last = 0 } = first.rows[0] ?? {};
    const deadline = this.#needs.clock.elapsed() + HOLE_PATIENCE_MS;
    for (;;) {
      const { rows } = await client.query<{ xmin: string }>("SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS xmin");
      if (BigInt(rows[0]?.xmin ?? "0") >= BigInt(xmax) || this.#needs.clock.elapsed() > deadline) break;
      await new Promise((resolve) => setTimeout(resolve, HOLE_POLL_MS));
    }
    this.#last = last;
    await this.#poll();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#bellTimer);
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
    client.on("notification", () => this.#wake());
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

  /** Coalesced: at most one bell in a few milliseconds, however many transactions commit. */
  #ringOthers(): void {
    if (this.#bellTimer || this.#stopped) return;
    this.#bellTimer = setTimeout(() => {
      this.#bellTimer = undefined;
      this.#ring().catch(() => {
        this.#bell = undefined; // the others' poll is the net
      });
    }, BELL_INTERVAL_MS);
  }

  async #ring(): Promise<void> {
    if (!this.#bell) {
      const bell = await this.#needs.database.connect();
      bell.on("error", () => (this.#bell = undefined));
      bell.on("end", () => (this.#bell = undefined));
      this.#bell = bell;
    }
    await this.#bell.query(`NOTIFY ${CHANNEL}`);
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
      await this.#client?.end().catch(() => undefined);
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
    const { rows } = await (this.#client as pg.Client).query<Page>({ name: "outbox-tail", text: PAGE, values: [this.#last] });
    const page = rows[0];
    if (!page) throw new Error("the outbox query answered no row");
    this.#noticeSweep(page, startedAt);
    const ready: NumberedFact[] = [];
    const facts = page.facts ?? [];
    const blocked = this.#takeInOrder(facts, page, ready);
    // Invalidations first: whoever reacts to a fact must not find what it made stale in a cache.
    for (const fact of ready) this.#hint(fact);
    if (ready.length > 0) for (const listener of this.#factListeners) listener(ready);
    if (!blocked) this.#syncedAt = startedAt;
    if (blocked) return HOLE_POLL_MS;
    return facts.length === BATCH ? 0 : POLL_MS;
  }

  #takeInOrder(facts: readonly NumberedFact[], page: Page, ready: NumberedFact[]): boolean {
    for (const fact of facts) {
      if (fact.seq !== this.#last + 1 && !this.#isDead(this.#last + 1, page)) {
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

  #isDead(seq: number, page: Page): boolean {
    const now = this.#needs.clock.elapsed();
    if (this.#hole?.seq !== seq) {
      this.#hole = { seq, xmax: BigInt(page.xmax), since: now };
      return false;
    }
    return BigInt(page.xmin) >= this.#hole.xmax || now - this.#hole.since > HOLE_PATIENCE_MS;
  }

  #noticeSweep(page: Page, now: number): void {
    const away = now - this.#syncedAt;
    const sweptUnseen = page.oldest !== null && page.oldest > this.#last + 1 && away > (RETENTION_SECONDS * 1000) / 2;
    if (!Number.isFinite(away) || !sweptUnseen) return;
    this.#needs.log.warn({ awaySeconds: Math.round(away / 1000) }, "this node was away for longer than facts are kept");
    for (const listener of this.#gapListeners) listener();
  }
}
