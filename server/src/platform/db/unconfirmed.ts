/**
 * Commits that wait for a synchronous standby which is away. PostgreSQL lets them wait for ever, and no time-out of ours
 * ends that: so after a few seconds we ask the server what the commit waits for. If it is the standby, the caller hears
 * that nothing is certain, and the connection is kept aside until the server answers: a new one in its place would only
 * be one more that waits.
 */
import type pg from "pg";
import { Problem } from "../problem.ts";
import { sql, type QuickStatement } from "./statement.ts";
import { sever } from "./wire.ts";

const LOOK_MS = 1000;
/** A commit that takes longer is asked about. */
const SLOW_MS = 5000;

const waitsFor = sql<{ event: string | null }>(
  `SELECT wait_event AS event FROM pg_stat_activity WHERE pid = $1`,
);

const CAUSE = "The database's synchronous standby does not confirm changes at the moment.";

/** No connection is free before the standby is back; nothing was sent. */
export const noneIsFree = (): Problem =>
  new Problem(503, "ServiceUnavailable", CAUSE, { retryAfterSeconds: 5 });

/** It may be made yet: the one thing nobody may do is to send it again before that is known. */
export class Unconfirmed extends Problem {
  /** Was it made after all? */
  readonly isMade: Promise<boolean>;

  constructor(commit: Promise<unknown>) {
    super(
      503,
      "ServiceUnavailable",
      `${CAUSE} Whether this one was made is not certain: look before you repeat it.`,
      { retryAfterSeconds: 5 },
    );
    this.isMade = commit.then(
      () => true,
      () => false,
    );
  }
}

/** For whoever writes in the background: what failed is put back, unless it was made, or as soon as it is known that it was not. */
export function unlessMade(error: unknown, putBack: () => void): void {
  if (error instanceof Unconfirmed) void error.isMade.then((isMade) => isMade || putBack());
  else putBack();
}

type Ask = <Row>(statement: QuickStatement<Row>, values: readonly unknown[]) => Promise<Row[]>;

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
  #timer: NodeJS.Timeout | undefined;
  #isLooking = false;
  #heldCount = 0;

  constructor(ask: Ask, patienceMs: number) {
    this.#ask = ask;
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

  /** What the commit answers; rejects early, with the connection held, if it waits for a standby. */
  watch<T>(client: pg.ClientBase, commit: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const since = performance.now();
      const giveUp = () => reject(new Unconfirmed(commit));
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
    if (this.#open.size === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
    }
    if (this.#isLooking) return;
    this.#isLooking = true;
    const slow = [...this.#open].filter(([, { since }]) => performance.now() - since > SLOW_MS);
    await Promise.all(slow.map(([client, commit]) => this.#lookAt(client, commit)));
    this.#isLooking = false;
  }

  /** A server that has nothing to say about it for too long is taken for gone. */
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
    } else if (performance.now() - commit.heardAt > this.#patienceMs) sever(client);
  }
}
