/**
 * Who read which values. There are thousands of reads, so they are written in batches: while one batch is being
 * committed the next one fills. `async` answers at once and writes within a second; `strict` answers when the
 * batch is durable; `grouped` writes one row for what the same reader reads from the same address again and again
 * within a minute; `off` writes nothing. If the database is unreachable, `async` and `grouped` keep them and, once
 * too many wait, answer only when there is room again: a read is never silently dropped while the process lives.
 */
import { setTimeout as pause } from "node:timers/promises";
import { createAuditGroups, noRoom } from "../audit/index.ts";
import type { MemberActor } from "../platform/actor.ts";
import type { Clock } from "../platform/clock.ts";
import {
  auditRow,
  insertAuditRows,
  Unconfirmed,
  unlessMade,
  type AuditRow,
  type Db,
} from "../platform/db/index.ts";
import type { Log } from "../platform/log.ts";
import type { ProjectRow } from "../projects/index.ts";

export type ReadAuditMode = "async" | "strict" | "grouped" | "off";

interface ReadAuditNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly log: Log;
  readonly mode: ReadAuditMode;
}

export interface ReadAudit {
  note(
    actor: MemberActor,
    project: ProjectRow,
    event: string,
    metadata: Readonly<Record<string, unknown>>,
  ): Promise<void>;
  /** Everything noted so far is durable when this resolves. */
  flush(): Promise<void>;
  /** How many would be lost if the process ended now. */
  unwritten(): number;
}

const DELAY_MS = 250;
const BATCH = 2000;
const MAX_WAITING = 50_000;
const FATE_MS = 10_000;

export function createReadAudit(needs: ReadAuditNeeds): ReadAudit {
  if (needs.mode === "off")
    return { note: async () => undefined, flush: async () => undefined, unwritten: () => 0 };
  return needs.mode === "grouped" ? createGroupedReads(needs) : createSingleReads(needs);
}

function createGroupedReads(needs: ReadAuditNeeds): ReadAudit {
  const groups = createAuditGroups({ ...needs, what: "readings", maxGroups: MAX_WAITING });
  return {
    flush: groups.flush,
    unwritten: groups.unwritten,
    note(actor, project, event, metadata) {
      const entry = { event, orgId: project.orgId, projectId: project.id, metadata };
      const key = JSON.stringify([actor.id, project.id, event, metadata, actor.caller.ip]);
      return groups.note(key, actor, entry);
    },
  };
}

interface Reading {
  readonly row: AuditRow;
  /** Of the batch it is in: resolves when that is durable. */
  fate: Promise<unknown> | undefined;
}

/** When the answer to COMMIT is lost, the outcome is looked up; callers do not wait for it for ever. */
async function orMade(error: unknown): Promise<void> {
  if (!(error instanceof Unconfirmed)) throw error;
  const isMade = await Promise.race([error.isMade, pause(FATE_MS, false, { ref: false })]);
  if (!isMade) throw error;
}

function createSingleReads({ db, clock, log, mode }: ReadAuditNeeds): ReadAudit {
  let waiting: Reading[] = [];
  /** Being written, or of a commit whose answer was lost. */
  let unsettled = 0;
  let writing: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;

  const writeAll = async (): Promise<void> => {
    while (waiting.length > 0) {
      const batch = waiting.splice(0, BATCH);
      unsettled += batch.length;
      const settle = () => void (unsettled -= batch.length);
      const rows = batch.map(({ row }) => row);
      const written = db.write((tx) => insertAuditRows(tx, rows), { audited: false, isTraced: true });
      const fate = written.catch(orMade);
      fate.catch(() => undefined); // for those who wait for it
      for (const reading of batch) reading.fate = fate;
      try {
        await written;
        settle();
      } catch (error) {
        void unlessMade(error, () => {
          // After those that a caller waits for and that have not been tried yet.
          waiting = [...waiting, ...batch];
          flushLater();
        }).then(settle);
        throw error;
      }
    }
  };

  const begin = (): Promise<void> =>
    (writing = writeAll().finally(() => {
      writing = undefined;
    }));

  const flush = async (): Promise<void> => {
    clearTimeout(timer);
    timer = undefined;
    // A caller that comes during a batch waits for it and then for its own.
    while (writing) await writing.catch(() => undefined);
    if (waiting.length > 0) await begin();
  };

  const flushLater = (): void => {
    timer ??= setTimeout(() => {
      flush().catch((error: unknown) => {
        log.warn(
          { waiting: waiting.length, reason: (error as Error).message },
          "readings could not be written to the audit log; trying again",
        );
        flushLater();
      });
    }, DELAY_MS).unref();
  };

  /** Each waits for the outcome of its own batch only. */
  const untilDurable = async (reading: Reading): Promise<void> => {
    while (!reading.fate) await (writing ?? begin()).catch(() => undefined);
    await reading.fate;
  };

  const unwritten = () => waiting.length + unsettled;
  const makeRoom = async (): Promise<void> => {
    await flush();
    if (unwritten() >= MAX_WAITING) throw noRoom();
  };

  return {
    flush,
    unwritten,
    async note(actor, project, event, metadata) {
      if (unwritten() >= MAX_WAITING) await makeRoom();
      const entry = { event, orgId: project.orgId, projectId: project.id, metadata };
      const reading: Reading = { row: auditRow(clock.now(), actor, entry), fate: undefined };
      waiting.push(reading);
      if (mode === "strict") return untilDurable(reading);
      flushLater();
    },
  };
}
