/**
 * Retention. The instance drops whole months, which costs nothing; a project that wants a shorter retention
 * has its rows deleted in small chunks, so that no write waits long behind one.
 */
import type { Clock } from "../platform/clock.ts";
import type { Db, Tx } from "../platform/db/index.ts";
import { takingTurns } from "../platform/jobs/index.ts";
import type { Log } from "../platform/log.ts";
import { cutoffOf, isOutlived, monthOfPartition, type Month } from "./model.ts";
import { dropMonth, isLockBusy, partitionNames, takePartitionLock } from "./partitions.store.ts";
import {
  deleteOfProjectBefore,
  deleteStrayBefore,
  projectsWithRetention,
  type ProjectRetention,
} from "./retention.store.ts";

export interface RetentionNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly log: Log;
  /** How long audit rows are kept; 0 = for ever. */
  readonly retentionDays: number;
}

export interface AuditRetention {
  /** Deletes what is older than the instance, or a project of it, wants to keep. */
  applyRetention(): Promise<void>;
}

const BATCH = 5000;
/** A run ends after this many chunks; the next one goes on. */
const MAX_BATCHES = 400;
const MAINTENANCE = { audited: false } as const;

export function createAuditRetention({ db, clock, log, retentionDays }: RetentionNeeds): AuditRetention {
  const drop = async (month: Month): Promise<void> => {
    try {
      await db.write(async (tx) => {
        await takePartitionLock(tx);
        if ((await partitionNames(tx)).includes(month.partition)) await dropMonth(tx, month);
      }, MAINTENANCE);
      log.info(
        { month: month.partition },
        "a month of the audit log was dropped: all of it is older than the retention",
      );
    } catch (error) {
      if (!isLockBusy(error)) throw error;
      log.warn(
        { month: month.partition },
        "the audit log is too busy to drop a month; the next run tries again",
      );
    }
  };

  const inBatches = async (removeSome: (tx: Tx) => Promise<number>): Promise<number> => {
    let removed = 0;
    for (let run = 0; run < MAX_BATCHES; run += 1) {
      const count = await db.write(removeSome, MAINTENANCE);
      removed += count;
      if (count < BATCH) break;
    }
    return removed;
  };

  const ofInstance = async (): Promise<void> => {
    const cutoff = cutoffOf(clock.now(), retentionDays);
    const months = (await db.read(partitionNames)).flatMap((name) => monthOfPartition(name) ?? []);
    for (const month of months.filter((each) => isOutlived(each, cutoff))) await drop(month);
    const rows = await inBatches((tx) => deleteStrayBefore(tx, cutoff, BATCH));
    if (rows > 0) log.info({ rows }, "old audit rows outside of any month were deleted");
  };

  async function* ofProject({ id: projectId, days }: ProjectRetention): AsyncGenerator<void> {
    const cutoff = cutoffOf(clock.now(), days);
    let rows = 0;
    for (let run = 0; run < MAX_BATCHES; run += 1) {
      const count = await db.write((tx) => deleteOfProjectBefore(tx, projectId, cutoff, BATCH), MAINTENANCE);
      rows += count;
      if (count < BATCH) break;
      yield;
    }
    if (rows > 0) log.info({ projectId, rows }, "audit rows older than the project's retention were deleted");
  }

  const ofProjects = async (): Promise<void> =>
    takingTurns((await db.read(projectsWithRetention)).map(ofProject));

  return {
    async applyRetention() {
      if (retentionDays > 0) await ofInstance();
      await ofProjects();
    },
  };
}
