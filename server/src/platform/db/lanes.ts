/**
 * Reading lanes: a few connections on which many requests' single statements travel in bundles, which is more than
 * twice as fast as lending out a connection per statement. A lane can only look: its sessions are
 * read-only, so a statement that changes something fails by construction. Slow statements never come here.
 */
import { isAway } from "./errors.ts";
import { SessionClient, type SessionConfig } from "./session.ts";
import type { Statement } from "./statement.ts";
import { NeverRan, sever, Wire } from "./wire.ts";

/** So many on their way in one lane are enough. */
const FULL = 16;
/** A bundle of quick looks is back long before; behind one that is not, nobody should line up while a lane is free. */
const STUCK_MS = 5;
/** A lane that the database had no connection for is left alone for this long. */
const REST_MS = 1000;

interface Lane {
  line: Line | undefined;
  opening: Promise<Line> | undefined;
  waiting: number;
  restsUntil: number;
}

/** A lane's connection, and how many are on it. */
interface Line {
  readonly lane: Lane;
  readonly client: SessionClient;
  readonly wire: Wire;
  riders: number;
}

export interface Lanes {
  rows<Row>(statement: Statement<Row>, values: readonly unknown[]): Promise<Row[]>;
  /** Nobody is sent along a connection that was asked for before; whoever is under way arrives. */
  renew(): void;
  close(): Promise<void>;
}

/** Was it asked for since the address is known to lead where it leads? */
type IsCurrent = (client: SessionClient) => boolean;

/** The session is over, not merely unable to do this now. (Full disk, no memory, read-only: it goes on.) */
const isLost = (error: unknown): boolean => {
  const { code } = error as { readonly code?: string };
  return isAway(error) && !(code !== undefined && /^(25006|53|58)/.test(code));
};

async function openLine(config: SessionConfig, lane: Lane, isCurrent: IsCurrent): Promise<Line> {
  const client = new SessionClient(config);
  const line: Line = { lane, client, wire: new Wire(client), riders: 0 };
  const drop = () => {
    if (lane.line === line) lane.line = undefined;
  };
  client.on("error", drop);
  client.on("end", drop);
  await client.connect();
  // A standby may answer those who wait for it, but nobody stays there: once the primary is somewhere else, it would
  // answer from the past for as long as the connection lives, and what it says would be remembered as true.
  if (!client.isStandby && isCurrent(client)) lane.line = line;
  return line;
}

/** At once, because who is told of the loss asks again before the connection has said that it ended. */
function forget(line: Line): void {
  if (line.lane.line === line) line.lane.line = undefined;
  sever(line.client);
}

/** The last one to leave a connection that is nobody's lane, as one to a standby is, ends it. */
function leave(line: Line): void {
  line.riders -= 1;
  if (line.riders === 0 && line.lane.line !== line) sever(line.client);
}

export function openLanes(config: SessionConfig, count: number): Lanes {
  const lanes: Lane[] = Array.from({ length: count }, () => ({
    line: undefined,
    opening: undefined,
    waiting: 0,
    restsUntil: Number.NEGATIVE_INFINITY,
  }));
  let isClosed = false;
  let renewedAt = Number.NEGATIVE_INFINITY;
  const isCurrent: IsCurrent = ({ askedAt }) => askedAt >= renewedAt;

  const busyness = (lane: Lane): number => lane.waiting + (lane.line?.riders ?? 0);
  const canCarry = (lane: Lane): boolean => lane.line !== undefined || performance.now() >= lane.restsUntil;
  // One after the other, not evenly: a bundle of eight costs little more than a bundle of one. The next lane is for
  // when there is more to do than one can carry, or something slow in it.
  const isFree = (lane: Lane): boolean =>
    busyness(lane) < FULL && canCarry(lane) && (lane.line?.wire.waitingMs() ?? 0) < STUCK_MS;
  const leastBusy = (some: readonly Lane[]): Lane | undefined =>
    some.reduce<Lane | undefined>(
      (best, lane) => (best && busyness(best) <= busyness(lane) ? best : lane),
      undefined,
    );
  const pick = (): Lane =>
    lanes.find(isFree) ?? leastBusy(lanes.filter(canCarry)) ?? (leastBusy(lanes) as Lane);

  const open = (lane: Lane): Promise<Line> => {
    if (isClosed) throw new Error("Connection terminated: the database is closed");
    if (lane.opening) return lane.opening;
    const opening = openLine(config, lane, isCurrent).finally(() => {
      if (lane.opening === opening) lane.opening = undefined;
    });
    lane.opening = opening;
    return opening;
  };

  /** A lane that cannot be opened (the limit of connections is reached) leaves its work to those that are. */
  const lineOf = async (lane: Lane): Promise<Line> => {
    lane.waiting += 1;
    try {
      return await open(lane);
    } catch (error) {
      const other = leastBusy(lanes.filter(({ line }) => line !== undefined))?.line;
      if (!other) throw error;
      lane.restsUntil = performance.now() + REST_MS;
      return other;
    } finally {
      lane.waiting -= 1;
    }
  };

  const once = async <Row>(statement: Statement<Row>, values: readonly unknown[]): Promise<Row[]> => {
    const lane = pick();
    const line = lane.line ?? (await lineOf(lane));
    line.riders += 1;
    try {
      return await line.wire.rows(statement, values);
    } catch (error) {
      if (isLost(error instanceof NeverRan ? error.cause : error)) forget(line);
      throw error;
    } finally {
      leave(line);
    }
  };

  return {
    async rows(statement, values) {
      for (let hasFailed = false; ;) {
        try {
          return await once(statement, values);
        } catch (error) {
          // Somebody else's look failed in the same bundle; ours was skipped.
          const isOurs = !(error instanceof NeverRan);
          const cause = isOurs ? error : error.cause;
          // A look has no effect, so a connection that broke under it is simply replaced and the look repeated, once.
          const isBroken = isAway(cause);
          if (isClosed || (isOurs && !isBroken) || (isBroken && hasFailed)) throw cause;
          hasFailed ||= isBroken;
        }
      }
    },
    renew() {
      renewedAt = performance.now();
      for (const lane of lanes) {
        const { line } = lane;
        // One that is still being opened was asked for before: whoever waits for it is its last rider.
        lane.opening = undefined;
        lane.line = undefined;
        if (line?.riders === 0) sever(line.client);
      }
    },
    async close() {
      isClosed = true;
      const end = async (lane: Lane): Promise<void> => {
        await lane.opening?.catch(() => undefined);
        await lane.line?.client.end().catch(() => undefined);
      };
      await Promise.all(lanes.map(end));
    },
  };
}
