/**
 * What happens so often that a row each would flood the audit log: what is the same within a minute is one row, with
 * how often (`count`) and from when to when (`firstAt`, `lastAt`). It is written in the background, and flushed
 * when the server stops. What is collected, being written and kept for the next time is bounded together: while the database
 * is unreachable, callers that add more wait, or are dropped and counted.
 */
import type { Actor } from "../platform/actor.ts";
import type { Clock } from "../platform/clock.ts";
import { auditRow, insertAuditRows, unlessMade, type AuditEntry, type Db } from "../platform/db/index.ts";
import { newId } from "../platform/ids.ts";
import { reasonOf, type Log } from "../platform/log.ts";
import { Problem } from "../platform/problem.ts";

export interface AuditGroupNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly log: Log;
  /** What is collected, for the log. */
  readonly what: string;
  readonly maxGroups: number;
  /** Nobody waits for these: what there is no room for is counted and logged. */
  readonly isForgettable?: boolean;
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
/** So often somebody who waits for room sees others take it. */
const PATIENCE = 3;

export const noRoom = () =>
  new Problem(503, "ServiceUnavailable", "The audit log does not take anything at the moment.", {
    retryAfterSeconds: 5,
  });

/** Without its connection, which would live as long as the group. */
function withoutConnection(actor: Actor): Actor {
  if (!actor.caller) return actor;
  const { requestId, ip, userAgent } = actor.caller;
  return { ...actor, caller: { requestId, ip, userAgent } };
}

const toRow = ({ actor, entry, firstAt, lastAt, count }: Group) =>
  auditRow(firstAt, actor, { ...entry, metadata: { ...entry.metadata, count, firstAt, lastAt } });

function countOf(groups: Iterable<Group>): number {
  let sum = 0;
  for (const { count } of groups) sum += count;
  return sum;
}

export function createAuditGroups(needs: AuditGroupNeeds) {
  const { db, clock, log, what, maxGroups, isForgettable = false } = needs;
  let groups = new Map<string, Group>();
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<void> = Promise.resolve();
  /** On their way, or of a commit whose answer was lost; and how often they happened. */
  const unsettled = { groups: 0, times: 0 };
  let forgotten = 0;
  let hasFailed = false;

  const isFull = (): boolean => groups.size + unsettled.groups >= maxGroups;
  const takeOut = (closed: readonly Group[]): void => {
    unsettled.groups += closed.length;
    unsettled.times += countOf(closed);
  };
  const settle = (closed: readonly Group[]): void => {
    unsettled.groups -= closed.length;
    unsettled.times -= countOf(closed);
  };

  const write = async (closed: Group[]): Promise<void> => {
    while (closed.length > 0) {
      const batch = closed.splice(0, BATCH);
      try {
        await db.write((tx) => insertAuditRows(tx, batch.map(toRow)), { audited: false, isTraced: true });
        settle(batch);
        hasFailed = false;
      } catch (error) {
        hasFailed = true;
        void unlessMade(error, () => keep(batch)).then(() => settle(batch));
        settle(closed);
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

  const tellForgotten = (): void => {
    if (forgotten === 0) return;
    log.warn({ forgotten }, `${what} were not gathered for the audit log: too many wait to be written`);
    forgotten = 0;
  };

  const flush = (): Promise<void> => {
    clearTimeout(timer);
    timer = undefined;
    tellForgotten();
    const closed = [...groups.values()];
    groups = new Map();
    takeOut(closed);
    if (closed.length > 0) writing = writing.catch(() => undefined).then(() => write(closed));
    return writing;
  };
  const flushLater = (ms: number): void => {
    timer ??= setTimeout(() => {
      flush().catch(() => flushLater(RETRY_MS));
    }, ms).unref();
  };
  /** Before it is full, so that hardly anybody has to wait; not while the database is at it or takes nothing. */
  const flushSoon = (): void => {
    if (groups.size * 2 < maxGroups || unsettled.groups > 0 || hasFailed) return;
    flush().catch(() => flushLater(RETRY_MS));
  };

  /** What is the same within the minute adds nothing to what is held. */
  const countIn = (key: string, now: Date): boolean => {
    const known = groups.get(key);
    if (!known || now.getTime() - known.firstAt.getTime() >= GROUPED_MS) return false;
    known.count += 1;
    known.lastAt = now;
    return true;
  };

  return {
    /** Everything noted so far is durable when this resolves. */
    flush,
    /** How many would be lost if the process ended now. */
    unwritten: () => unsettled.times + countOf(groups.values()),

    /** `key` says what is the same. Resolves at once while there is room, else when there is room again. */
    async note(key: string, actor: Actor, entry: AuditEntry): Promise<void> {
      const now = clock.now();
      for (let tries = 0; !countIn(key, now); tries += 1) {
        if (!isFull()) {
          // An old one that has not been written yet stays beside the new one.
          const known = groups.get(key);
          if (known) groups.set(newId(), known);
          groups.set(key, { actor: withoutConnection(actor), entry, firstAt: now, lastAt: now, count: 1 });
          flushLater(GROUPED_MS);
          return flushSoon();
        }
        if (isForgettable) {
          forgotten += 1;
          return flushLater(RETRY_MS);
        }
        if (tries === PATIENCE) throw noRoom();
        await flush();
      }
    },
  };
}
