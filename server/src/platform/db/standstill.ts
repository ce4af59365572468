/**
 * Writes that all wait: for connections that drop everything, a lock that nobody releases, a disk that hangs. Reads may
 * be answered meanwhile, so nobody notices but those who wait. A single slow write is no standstill: when none got
 * through for a while and a client asked for one, we probe with a write that changes nothing.
 *
 * A database that refuses (read-only, full) has answered.
 */
import type pg from "pg";
import { isUnanswered } from "./errors.ts";
import { Problem } from "../problem.ts";
import { borrow } from "./pools.ts";
import { sever } from "@keyward/pg-pipeline";

const LOOK_MS = 1000;
/** From then on we probe. */
const SUSPECT_MS = 5000;
const STANDSTILL_MS = 10_000;
const TRIAL_MS = 4000;

/**
 * What every write needs, and nothing that stays: a row of the audit log, in this month's partition (the outbox's lock
 * alone: its numbers leave no gaps for nothing), and something that is on disk when it is committed. It does not wait for
 * standbys: see unconfirmed.ts.
 */
const TRIAL = `
  BEGIN;
  SET LOCAL synchronous_commit = local;
  SET LOCAL lock_timeout = ${TRIAL_MS - 500};
  SAVEPOINT trial;
  INSERT INTO audit_log (id, at, event, actor_type, actor_name, metadata)
  VALUES (gen_random_uuid(), now(), 'trial', 'system', 'trial', '{}');
  LOCK TABLE ONLY outbox IN ROW EXCLUSIVE MODE;
  ROLLBACK TO trial;
  SELECT pg_logical_emit_message(true, 'keyward', '');
  COMMIT`;

async function tryOne(pool: pg.Pool): Promise<void> {
  const client = await borrow(pool);
  try {
    await client.query({ text: TRIAL, query_timeout: TRIAL_MS } as pg.QueryConfig);
    client.release();
  } catch (error) {
    sever(client);
    client.release(true);
    throw error;
  }
}

export class Standstill {
  readonly #pool: pg.Pool;
  /** While commits wait for a standby, that is reported instead; a probe would only wait too. */
  readonly #isKnown: () => boolean;
  #underWay = 0;
  /** When the first write was requested since the last one that succeeded. */
  #since: number | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isTrying = false;

  constructor(pool: pg.Pool, isKnown: () => boolean) {
    this.#pool = pool;
    this.#isKnown = isKnown;
  }

  mind<T>(change: Promise<T>): Promise<T> {
    this.#underWay += 1;
    this.#since ??= performance.now();
    this.#timer ??= setInterval(() => this.#look(), LOOK_MS).unref();
    const end = (isAnswered: boolean): void => {
      this.#underWay -= 1;
      if (isAnswered) this.#noteAnswer();
    };
    // A refusal of ours says nothing about the database: its reads may have been answered and no write made.
    change.then(
      () => end(true),
      (error: unknown) => end(!(error instanceof Problem) && !isUnanswered(error)),
    );
    return change;
  }

  obstacles(): string[] {
    const ms = this.#ms();
    return ms > STANDSTILL_MS
      ? [`no change got through for ${Math.floor(ms / 1000)} s, though some were asked for`]
      : [];
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #ms(): number {
    return this.#since === undefined ? 0 : performance.now() - this.#since;
  }

  #noteAnswer(): void {
    this.#since = this.#underWay > 0 ? performance.now() : undefined;
  }

  #look(): void {
    if (this.#since === undefined) {
      clearInterval(this.#timer);
      this.#timer = undefined;
    }
    if (this.#ms() < SUSPECT_MS || this.#isTrying || this.#isKnown()) return;
    this.#isTrying = true;
    tryOne(this.#pool)
      .then(() => this.#noteAnswer())
      .catch((error: unknown) => {
        if (!isUnanswered(error)) this.#noteAnswer();
      })
      .finally(() => {
        this.#isTrying = false;
      });
  }
}
