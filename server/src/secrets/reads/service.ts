/**
 * Who read which values. Readings come by the thousand, so they are written in batches: while one batch is being
 * committed the next one gathers. `async` answers at once and writes within a second; `strict` answers when the
 * batch is durable; `off` writes nothing. If the database does not take them, `async` keeps them and, once too many
 * wait, turns strict: a reading is never silently forgotten while the process lives.
 */
import type { MemberActor } from "../../platform/actor.ts";
import type { Clock } from "../../platform/clock.ts";
import { unlessMade, type Db } from "../../platform/db/index.ts";
import { newId } from "../../platform/ids.ts";
import type { Log } from "../../platform/log.ts";
import type { ProjectRow } from "../../projects/index.ts";
import { insertReads, type ReadEntry } from "./store.ts";

export type ReadAuditMode = "async" | "strict" | "off";

export interface ReadAuditNeeds {
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

export function createReadAudit({ db, clock, log, mode }: ReadAuditNeeds): ReadAudit {
  let waiting: ReadEntry[] = [];
  let sent = 0;
  let writing: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;

  const writeAll = async (): Promise<void> => {
    while (waiting.length > 0) {
      const batch = waiting.splice(0, BATCH);
      sent = batch.length;
      try {
        await db.write((tx) => insertReads(tx, batch), { audited: false });
      } catch (error) {
        unlessMade(error, () => {
          waiting = [...batch, ...waiting];
          flushLater();
        });
        throw error;
      } finally {
        sent = 0;
      }
    }
  };

  const flush = async (): Promise<void> => {
    clearTimeout(timer);
    timer = undefined;
    // Whoever comes while a batch is under way waits for it and then makes sure of its own.
    while (writing) await writing.catch(() => undefined);
    if (waiting.length === 0) return;
    writing = writeAll().finally(() => {
      writing = undefined;
    });
    await writing;
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

  return {
    flush,
    unwritten: () => waiting.length + sent,
    async note(actor, project, event, metadata) {
      if (mode === "off") return;
      const at = clock.now();
      const { caller } = actor;
      waiting.push({
        id: newId(at.getTime()),
        at,
        orgId: project.orgId,
        projectId: project.id,
        event,
        actorType: actor.kind,
        actorId: actor.id,
        actorName: actor.name,
        ip: caller.ip,
        userAgent: caller.userAgent,
        requestId: caller.requestId,
        metadata: JSON.stringify(metadata),
      });
      if (mode === "strict" || waiting.length > MAX_WAITING) return flush();
      flushLater();
    },
  };
}
