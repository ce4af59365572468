/**
 * The audit table is cut into months: writing stays fast however long the past is, and forgetting a month is
 * dropping a table. Months are made ahead of time; a row whose month was never made falls into the default
 * partition and is as readable there.
 */
import type { Clock } from "../../platform/clock.ts";
import type { Db } from "../../platform/db/index.ts";
import type { Log } from "../../platform/log.ts";
import { cutoffOf, isOutlived, monthOfPartition, monthsFrom, type Month } from "../model.ts";
import * as store from "./store.ts";

export interface PartitionNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly log: Log;
  /** How long audit rows are kept; 0 = for ever. */
  readonly retentionDays: number;
}

export interface AuditPartitions {
  /** Makes this month's partition and the next two months', if they are missing; safe on every node at once. */
  ensurePartitions(): Promise<void>;
  /** Forgets what is older than the instance and its projects want to keep. */
  applyRetention(): Promise<void>;
}

const MONTHS_AHEAD = 3;
const BATCH = 5000;
/** A run ends after this many; the next one goes on. */
const MAX_BATCHES = 400;

const UPKEEP = { audited: false } as const;
/** check_violation: the default partition has rows of the month that was to be attached. */
const isStrayRowError = (error: unknown): boolean => (error as { code?: string } | null)?.code === "23514";

export function createAuditPartitions({ db, clock, log, retentionDays }: PartitionNeeds): AuditPartitions {
  const reported = new Set<string>();
  const leaveInDefault = (month: Month): void => {
    if (reported.has(month.partition)) return;
    reported.add(month.partition);
    log.warn(
      { month: month.partition },
      "audit rows of this month lie in the default partition already; they stay there, and so will the month's others",
    );
  };

  const make = async (month: Month): Promise<void> => {
    try {
      await db.write(async (tx) => {
        await store.takePartitionLock(tx);
        await store.beImpatient(tx);
        if ((await store.partitionNames(tx)).includes(month.partition)) return;
        if (await store.hasStrayRows(tx, month)) return leaveInDefault(month);
        await store.attachMonth(tx, month);
      }, UPKEEP);
    } catch (error) {
      if (!isStrayRowError(error)) throw error;
      leaveInDefault(month); // one came in between the look and the attachment
    }
  };

  const drop = async (month: Month): Promise<void> => {
    await db.write(async (tx) => {
      await store.takePartitionLock(tx);
      await store.beImpatient(tx);
      if ((await store.partitionNames(tx)).includes(month.partition)) await store.dropMonth(tx, month);
    }, UPKEEP);
    log.info(
      { month: month.partition },
      "a month of the audit log was dropped: it is older than the retention",
    );
  };

  /** Small transactions until nothing is left, so that nobody waits long behind one. */
  const inBatches = async (removeSome: (batch: number) => Promise<number>): Promise<number> => {
    let removed = 0;
    for (let run = 0; run < MAX_BATCHES; run += 1) {
      const count = await removeSome(BATCH);
      removed += count;
      if (count < BATCH) break;
    }
    return removed;
  };

  const applyInstanceRetention = async (): Promise<void> => {
    const cutoff = cutoffOf(clock.now(), retentionDays);
    const months = (await db.read(store.partitionNames)).flatMap((name) => monthOfPartition(name) ?? []);
    for (const month of months.filter((each) => isOutlived(each, cutoff))) await drop(month);
    const strays = await inBatches((batch) =>
      db.write((tx) => store.deleteStrayBefore(tx, cutoff, batch), UPKEEP),
    );
    if (strays > 0) log.info({ rows: strays }, "old audit rows outside of any month were deleted");
  };

  const applyProjectRetention = async (): Promise<void> => {
    for (const { id: projectId, days } of await db.read(store.projectsWithRetention)) {
      const cutoff = cutoffOf(clock.now(), days);
      const rows = await inBatches((batch) =>
        db.write((tx) => store.deleteOfProjectBefore(tx, projectId, cutoff, batch), UPKEEP),
      );
      if (rows > 0)
        log.info({ projectId, rows }, "audit rows older than the project's retention were deleted");
    }
  };

  return {
    async ensurePartitions() {
      const wanted = monthsFrom(clock.now(), MONTHS_AHEAD);
      const present = new Set(await db.read(store.partitionNames));
      for (const month of wanted.filter(({ partition }) => !present.has(partition))) await make(month);
    },
    async applyRetention() {
      if (retentionDays > 0) await applyInstanceRetention();
      await applyProjectRetention();
    },
  };
}
