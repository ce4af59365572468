/**
 * The audit table is partitioned by month: writing stays fast however long the past is, and deleting a month is
 * dropping a table. Months are made ahead of time; a row whose month was never made falls into the default
 * partition and is as readable there.
 */
import type { Clock } from "../platform/clock.ts";
import type { Db } from "../platform/db/index.ts";
import type { Log } from "../platform/log.ts";
import { monthsFrom, type Month } from "./model.ts";
import * as store from "./partitions.store.ts";

export interface PartitionNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly log: Log;
}

export interface AuditPartitions {
  /** Makes this month's partition and the next two months', if they are missing; safe on every node at once. */
  ensurePartitions(): Promise<void>;
}

const MONTHS_AHEAD = 3;

export function createAuditPartitions({ db, clock, log }: PartitionNeeds): AuditPartitions {
  const reported = new Set<string>();
  const leaveInDefault = (month: Month): void => {
    if (reported.has(month.partition)) return;
    reported.add(month.partition);
    const words =
      "audit rows of this month lie in the default partition; they stay there, and the month's others join them";
    log.warn({ month: month.partition }, words);
  };

  const make = async (month: Month): Promise<void> => {
    try {
      await db.write(
        async (tx) => {
          await store.takePartitionLock(tx);
          if ((await store.partitionNames(tx)).includes(month.partition)) return;
          if (await store.hasStrayRows(tx, month)) return leaveInDefault(month);
          await store.attachMonth(tx, month);
        },
        { audited: false },
      );
    } catch (error) {
      if (store.isStrayRowError(error)) return leaveInDefault(month); // it came between the look and the attachment
      if (!store.isLockBusy(error)) throw error;
      log.warn(
        { month: month.partition },
        "the audit log is too busy to add a month; the next run tries again",
      );
    }
  };

  return {
    async ensurePartitions() {
      const present = new Set(await db.read(store.partitionNames));
      const missing = monthsFrom(clock.now(), MONTHS_AHEAD).filter(
        ({ partition }) => !present.has(partition),
      );
      for (const month of missing) await make(month);
    },
  };
}
