/**
 * Who was refused what. A refusal is worth a row, but whoever is refused can come back a thousand times a second: the
 * same caller from the same address at the same endpoint of the same project is one row for a minute, with how often
 * and from when to when. What is gathered is bounded, written in the background, and written down when the house closes.
 */
import type { MemberActor } from "../../platform/actor.ts";
import type { Clock } from "../../platform/clock.ts";
import { unlessMade, type Db } from "../../platform/db/index.ts";
import { newId } from "../../platform/ids.ts";
import { reasonOf, type Log } from "../../platform/log.ts";
import { insertRefusals, type RefusalRow } from "./store.ts";

export interface Refusal {
  readonly actor: MemberActor;
  readonly endpoint: string;
  readonly projectId: string | null;
  readonly reason: string;
}

export interface RefusalNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly log: Log;
}

interface Group extends Refusal {
  readonly orgId: string;
  readonly firstAt: Date;
  lastAt: Date;
  count: number;
}

const GROUPED_MS = 60_000;
const MAX_GROUPS = 5000;
const BATCH = 500;

const toRow = ({ actor, orgId, projectId, endpoint, reason, firstAt, lastAt, count }: Group): RefusalRow => ({
  id: newId(firstAt.getTime()),
  at: firstAt,
  orgId,
  projectId,
  event: "request-refused",
  actorType: actor.kind,
  actorId: actor.id,
  actorName: actor.name,
  ip: actor.caller.ip,
  userAgent: actor.caller.userAgent,
  requestId: actor.caller.requestId,
  metadata: JSON.stringify({ endpoint, reason, count, firstAt, lastAt }),
});

export type Refusals = ReturnType<typeof createRefusals>;

export function createRefusals({ db, clock, log }: RefusalNeeds) {
  let groups = new Map<string, Group>();
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<void> = Promise.resolve();
  let forgotten = 0;

  const write = async (closed: Group[]): Promise<void> => {
    while (closed.length > 0) {
      const batch = closed.splice(0, BATCH);
      try {
        await db.write((tx) => insertRefusals(tx, batch.map(toRow)), { audited: false });
      } catch (error) {
        unlessMade(error, () => {
          keep(batch);
          flushLater();
        });
        throw error;
      }
    }
  };

  /** What could not be written waits for the next time, as far as there is room. */
  const keep = (closed: readonly Group[]): void => {
    for (const group of closed)
      if (groups.size < MAX_GROUPS) groups.set(`${newId()}`, group);
      else forgotten += group.count;
  };

  const flush = (): Promise<void> => {
    clearTimeout(timer);
    timer = undefined;
    const closed = [...groups.values()];
    groups = new Map();
    if (closed.length === 0) return writing;
    writing = writing
      .catch(() => undefined)
      .then(() =>
        write(closed).catch((error: unknown) => {
          keep(closed);
          log.warn(
            { waiting: closed.length, forgotten, reason: reasonOf(error) },
            "refusals could not be written to the audit log",
          );
          throw error;
        }),
      );
    return writing;
  };
  const flushLater = (): void => {
    timer ??= setTimeout(() => {
      flush().catch(() => flushLater());
    }, GROUPED_MS).unref();
  };

  return {
    /** Everything noted so far is durable when this resolves. */
    flush,

    note(refusal: Refusal): void {
      const { actor, endpoint, projectId } = refusal;
      if (actor.orgId === null) return;
      const now = clock.now();
      const key = `${actor.id} ${endpoint} ${projectId ?? ""} ${actor.caller.ip}`;
      const known = groups.get(key);
      if (known && now.getTime() - known.firstAt.getTime() < GROUPED_MS) {
        known.count += 1;
        known.lastAt = now;
        return;
      }
      // An old one that has not been written yet stays beside the new one.
      if (known) groups.set(`${key} ${known.firstAt.getTime()}`, known);
      groups.set(key, { ...refusal, orgId: actor.orgId, firstAt: now, lastAt: now, count: 1 });
      if (groups.size >= MAX_GROUPS) flush().catch(() => flushLater());
      else flushLater();
    },
  };
}
