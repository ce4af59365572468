/**
 * What happens so often that a row each would flood the audit log: what is the same within a minute is one row, with
 * how often (`count`) and from when to when (`firstAt`, `lastAt`). What is gathered is bounded, written in the
 * background, and written down when the server stops.
 */
import type { Actor } from "../../platform/actor.ts";
import type { Clock } from "../../platform/clock.ts";
import { auditRow, insertAuditRows, unlessMade, type AuditEntry, type Db } from "../../platform/db/index.ts";
import { newId } from "../../platform/ids.ts";
import { reasonOf, type Log } from "../../platform/log.ts";

export interface AuditGroupNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly log: Log;
  /** What is gathered, for the log. */
  readonly what: string;
  readonly maxGroups: number;
}

interface Group {
  readonly actor: Actor;
  readonly entry: AuditEntry;
  readonly firstAt: Date;
  lastAt: Date;
  count: number;
}

const GROUPED_MS = 60_000;
const RETRY_MS = 1000;
const BATCH = 1000;

const toRow = ({ actor, entry, firstAt, lastAt, count }: Group) =>
  auditRow(firstAt, actor, { ...entry, metadata: { ...entry.metadata, count, firstAt, lastAt } });

function countOf(groups: Iterable<Group>): number {
  let sum = 0;
  for (const { count } of groups) sum += count;
  return sum;
}

export type AuditGroups = ReturnType<typeof createAuditGroups>;

export function createAuditGroups({ db, clock, log, what, maxGroups }: AuditGroupNeeds) {
  let groups = new Map<string, Group>();
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<void> = Promise.resolve();
  /** How often what is on its way happened, or what belongs to a commit whose answer was lost. */
  let unsettled = 0;

  const write = async (closed: Group[]): Promise<void> => {
    while (closed.length > 0) {
      const batch = closed.splice(0, BATCH);
      const settle = () => void (unsettled -= countOf(batch));
      try {
        await db.write((tx) => insertAuditRows(tx, batch.map(toRow)), { audited: false, isTraced: true });
        settle();
      } catch (error) {
        void unlessMade(error, () => keep(batch)).then(settle);
        unsettled -= countOf(closed);
        keep(closed);
        log.warn(
          { waiting: groups.size, reason: reasonOf(error) },
          `${what} could not be written to the audit log; trying again`,
        );
        throw error;
      }
    }
  };

  /** What could not be written waits for the next time, beside what has begun since. */
  const keep = (closed: readonly Group[]): void => {
    for (const group of closed) groups.set(newId(), group);
    if (closed.length > 0) flushLater(RETRY_MS);
  };

  const flush = (): Promise<void> => {
    clearTimeout(timer);
    timer = undefined;
    const closed = [...groups.values()];
    groups = new Map();
    unsettled += countOf(closed);
    if (closed.length > 0) writing = writing.catch(() => undefined).then(() => write(closed));
    return writing;
  };
  const flushLater = (ms: number): void => {
    timer ??= setTimeout(() => {
      flush().catch(() => flushLater(RETRY_MS));
    }, ms).unref();
  };

  return {
    /** Everything noted so far is durable when this resolves. */
    flush,
    /** How many would be lost if the process ended now. */
    unwritten: () => unsettled + countOf(groups.values()),
    isFull: () => groups.size >= maxGroups,

    /** `key` says what is the same. Resolves at once while there is room, else when what was gathered is written. */
    async note(key: string, actor: Actor, entry: AuditEntry): Promise<void> {
      const now = clock.now();
      const known = groups.get(key);
      if (known && now.getTime() - known.firstAt.getTime() < GROUPED_MS) {
        known.count += 1;
        known.lastAt = now;
        return;
      }
      // An old one that has not been written yet stays beside the new one.
      if (known) groups.set(newId(), known);
      groups.set(key, { actor, entry, firstAt: now, lastAt: now, count: 1 });
      flushLater(GROUPED_MS);
      if (groups.size >= maxGroups) await flush();
    },
  };
}
