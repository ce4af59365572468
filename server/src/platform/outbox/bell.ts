/**
 * How a node tells the others that there is something new to read: a NOTIFY from outside the write transaction, at
 * once for the first commit and then at most one in a few milliseconds, however many there are. A node that is alone
 * rings for nobody, so it does not ring. Nothing depends on a bell being heard: every node looks by itself as well.
 */
import type pg from "pg";
import type { Clock } from "../clock.ts";
import { sever, type Database } from "../db/index.ts";

export const CHANNEL = "keyward_outbox";
/** Between the beginnings of two bells. */
const BELL_INTERVAL_MS = 5;
const COMPANY_INTERVAL_MS = 1000;

// Whoever listens holds this lock for as long as its connection lives, shared with all others that do: its holders
// are the nodes there are, without a table that a crash would leave wrong.
const [LISTENERS, OF_OUTBOX] = [0x6b657977, 1];
const JOIN = `SELECT pg_advisory_lock_shared(${LISTENERS}, ${OF_OUTBOX})`;
const COMPANY = `
  SELECT EXISTS (
    SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = ${LISTENERS} AND objid = ${OF_OUTBOX} AND objsubid = 2
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND pid <> pg_backend_pid()) AS "hasCompany"`;

export class Bell {
  readonly #database: Database;
  readonly #clock: Clock;
  #client: pg.Client | undefined;
  #isRinging = false;
  #isOwed = false;
  #isStopped = false;
  /** Does another node listen? Until we have looked: yes. */
  #hasCompany = true;
  #companyAt = Number.NEGATIVE_INFINITY;

  constructor(database: Database, clock: Clock) {
    this.#database = database;
    this.#clock = clock;
  }

  /** On the connection that is to hear the others' bells. */
  async listen(client: pg.Client): Promise<void> {
    await client.query(`LISTEN ${CHANNEL}`);
    await client.query(JOIN);
  }

  /** Our own bell tells us nothing: we looked when we committed. */
  isOwn({ processId }: pg.Notification): boolean {
    return processId === (this.#client as { processID?: number } | undefined)?.processID;
  }

  /** To be called often, on the connection that listens; looks now and then whether anyone else does. */
  async lookForCompany(client: pg.Client): Promise<void> {
    const now = this.#clock.elapsed();
    if (now - this.#companyAt < COMPANY_INTERVAL_MS) return;
    const query = { name: "outbox-company", text: COMPANY };
    const { rows } = await client.query<{ hasCompany: boolean }>(query);
    this.#hasCompany = rows[0]?.hasCompany ?? true;
    this.#companyAt = now;
  }

  ring(): void {
    if (!this.#hasCompany) return;
    this.#isOwed = true;
    if (!this.#isRinging) void this.#ringWhileOwed();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#client?.end().catch(() => undefined);
  }

  async #ringWhileOwed(): Promise<void> {
    this.#isRinging = true;
    while (this.#isOwed && !this.#isStopped) {
      this.#isOwed = false;
      const rungAt = this.#clock.elapsed();
      await this.#ringOnce().catch(() => undefined); // the others' poll is the net
      const rest = rungAt + BELL_INTERVAL_MS - this.#clock.elapsed();
      if (rest > 0) await new Promise((resolve) => setTimeout(resolve, rest));
    }
    this.#isRinging = false;
  }

  async #ringOnce(): Promise<void> {
    const client = this.#client ?? (await this.#open());
    try {
      await client.query(`NOTIFY ${CHANNEL}`);
    } catch (error) {
      // It may be waiting for an answer that never comes; the next ring takes a new one.
      if (this.#client === client) this.#client = undefined;
      sever(client);
      throw error;
    }
  }

  async #open(): Promise<pg.Client> {
    const client = await this.#database.connect();
    const drop = () => {
      if (this.#client === client) this.#client = undefined;
    };
    client.on("error", drop);
    client.on("end", drop);
    this.#client = client;
    if (this.#isStopped) await client.end();
    return client;
  }
}
