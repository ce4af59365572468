/**
 * Background jobs. A job is a name, an interval and a function; the table `jobs` holds when each is
 * next due, and a claim with a lease makes sure that of all nodes exactly one runs it. A node that dies in the
 * middle loses its lease and another takes over, so a job must be safe to run again.
 */
import type { Clock } from "../clock.ts";
import type { Db } from "../db/index.ts";
import { sql } from "../db/index.ts";
import { newId } from "../ids.ts";
import { reasonOf, type Log } from "../log.ts";
import type { Measure } from "../measure.ts";

export interface Job {
  readonly name: string;
  readonly everySeconds: number;
  /** How long a run may take before another node may assume that this one died. */
  readonly leaseSeconds?: number;
  /** Long jobs check now and then whether the node is about to stop. */
  run(isStopping?: () => boolean): Promise<void>;
}

export interface Jobs {
  add(...jobs: readonly Job[]): void;
  readonly measures: readonly Measure[];
  start(): void;
  /** Runs whatever is due now and answers the names; tests call it instead of waiting. */
  runDue(): Promise<string[]>;
  /** Starts no more runs, and asks running ones to end: other nodes can take them. */
  rest(): void;
  stop(): Promise<void>;
}

/** Before the first run, and the least that a node waits after a job was not due. */
const TICK_MS = 1000;
/** After a run that failed because the database was unreachable. */
const TRY_AGAIN_MS = 10_000;
/** For how long a stop waits for a job. It is safe to run again, so it is also safe to be cut off. */
const STOP_PATIENCE_MS = 500;
/** How far nodes' clocks may differ before one is called wrong. */
const CLOCK_SLACK_MS = 300_000;

// A time further ahead than interval, lease and honest differences of clocks can reach was written by a clock that ran
// ahead: it does not bind.
const claim = sql<{ name: string }>(`
  INSERT INTO jobs AS j (name, next_at, leased_until, leased_by) VALUES ($1, $2, $3, $4)
  ON CONFLICT (name) DO UPDATE SET leased_until = $3, leased_by = $4
    WHERE (j.next_at <= $2 OR j.next_at > $5) AND (j.leased_until IS NULL OR j.leased_until <= $2 OR j.leased_until > $5)
  RETURNING name`);
const finish = sql(
  `UPDATE jobs SET next_at = $2, leased_until = NULL, leased_by = NULL, last_finished_at = $3, last_error = $4 WHERE name = $1 AND leased_by = $5`,
);

const whenDue = sql<{ at: Date }>(`SELECT greatest(next_at, leased_until) AS at FROM jobs WHERE name = $1`);
const letGo = sql(`UPDATE jobs SET leased_until = NULL, leased_by = NULL WHERE leased_by = $1`);
const states = sql<{ name: string; finishedAt: Date | null; isFailing: boolean }>(
  `SELECT name, last_finished_at AS "finishedAt", last_error IS NOT NULL AS "isFailing" FROM jobs WHERE last_finished_at IS NOT NULL`,
);

/** Of the whole instance, whichever node ran them. */
const measuresOf = (db: Db): Measure[] => [
  {
    name: "keyward_job_finished_timestamp_seconds",
    help: "When a job last ran to its end, well or not.",
    kind: "gauge",
    labels: ["job"],
    read: async () =>
      (await db.read((q) => q.rows(states))).map(({ name, finishedAt }) => ({
        of: [name],
        value: (finishedAt?.getTime() ?? 0) / 1000,
      })),
  },
  {
    name: "keyward_job_failing",
    help: "1 if a job's last run failed.",
    kind: "gauge",
    labels: ["job"],
    read: async () =>
      (await db.read((q) => q.rows(states))).map(({ name, isFailing }) => ({
        of: [name],
        value: Number(isFailing),
      })),
  },
];

export function createJobs(needs: { readonly db: Db; readonly clock: Clock; readonly log: Log }): Jobs {
  const { db, clock, log } = needs;
  const node = newId();
  const jobs: Job[] = [];
  const timers = new Map<string, NodeJS.Timeout>();
  const underWay = new Set<Promise<void>>();
  let isStarted = false;
  let isStopping = false;

  const runOne = async (job: Job): Promise<boolean> => {
    const now = clock.now();
    const lease = new Date(now.getTime() + (job.leaseSeconds ?? 60) * 1000);
    const furthest = new Date(lease.getTime() + job.everySeconds * 1000 + CLOCK_SLACK_MS);
    const claimed = await db.write((tx) => tx.first(claim, [job.name, now, lease, node, furthest]), {
      audited: false,
    });
    if (!claimed) return false;
    let failure: string | null = null;
    try {
      await job.run(() => isStopping);
    } catch (error) {
      failure = reasonOf(error);
      log.error({ job: job.name, reason: failure }, "a job failed; it runs again at its next time");
    }
    const next = new Date(clock.millis() + job.everySeconds * 1000);
    await db.write((tx) => tx.rows(finish, [job.name, next, clock.now(), failure, node]), { audited: false });
    return true;
  };

  /**
   * In how many milliseconds to try a job again: when it is due, as the node that ran it last has stored.
   * Not simply an interval after we tried: that is a moment too early, and the try would be in vain.
   */
  const pauseOf = async (job: Job): Promise<number> => {
    const due = await db.read((q) => q.first(whenDue, [job.name]));
    const left = (due?.at.getTime() ?? 0) - clock.millis();
    return Math.min(Math.max(left, TICK_MS), job.everySeconds * 1000);
  };

  const takeTurn = async (job: Job): Promise<number> => {
    try {
      await runOne(job);
      return await pauseOf(job);
    } catch (error) {
      if (isStarted) log.warn({ job: job.name, reason: reasonOf(error) }, "a job could not be claimed");
      return Math.min(TRY_AGAIN_MS, job.everySeconds * 1000);
    }
  };

  /** Each job has its own loop: one that takes an hour (thousands of renewals) delays no other. */
  const takeTurnIn = (job: Job, ms: number): void => {
    const begin = (): void => {
      const turn = takeTurn(job).then((pauseMs) => {
        underWay.delete(turn);
        if (isStarted) takeTurnIn(job, pauseMs);
      });
      underWay.add(turn);
    };
    timers.set(job.name, setTimeout(begin, ms).unref());
  };

  const rest = (): void => {
    isStarted = false;
    isStopping = true;
    for (const timer of timers.values()) clearTimeout(timer);
  };

  return {
    add: (...more) => void jobs.push(...more),
    measures: measuresOf(db),
    start() {
      isStarted = true;
      for (const job of jobs) takeTurnIn(job, TICK_MS);
    },
    async runDue() {
      const ran: string[] = [];
      for (const job of jobs) if (await runOne(job)) ran.push(job.name);
      return ran;
    },
    rest,
    async stop() {
      rest();
      if (underWay.size === 0) return;
      let patience: NodeJS.Timeout | undefined;
      const isOver = await Promise.race([
        Promise.all(underWay).then(() => true),
        new Promise<boolean>((resolve) => {
          patience = setTimeout(() => resolve(false), STOP_PATIENCE_MS);
        }),
      ]);
      clearTimeout(patience);
      // What is cut off need not wait for its lease to end.
      if (!isOver) await db.write((tx) => tx.rows(letGo, [node]), { audited: false }).catch(() => undefined);
    },
  };
}

const BATCH = 5000;

/** Large clean-ups in small chunks, each its own transaction: a backlog shrinks instead of timing out. */
export async function inBatches(chunk: (batch: number) => Promise<number>): Promise<void> {
  while ((await chunk(BATCH)) === BATCH);
}
