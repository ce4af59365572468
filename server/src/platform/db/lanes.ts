/**
 * Reading lanes: a few connections on which many requests' single statements travel in bundles, which is more than
 * twice as fast as lending out a connection per statement. A lane can only look: its sessions are
 * read-only, so a statement that changes something fails by construction. Slow statements never come here.
 */
import pg from "pg";
import { isAway } from "./errors.ts";
import type { Statement } from "./statement.ts";
import { NeverRan, sever, Wire } from "./wire.ts";

/** So many on their way in one lane are enough. */
const FULL = 16;
/** A bundle of quick looks is back long before; behind one that is not, nobody should line up while a lane is free. */
const STUCK_MS = 5;

interface Lane {
  client: pg.Client | undefined;
  wire: Wire | undefined;
  opening: Promise<Wire> | undefined;
  waiting: number;
}

export interface Lanes {
  rows<Row>(statement: Statement<Row>, values: readonly unknown[]): Promise<Row[]>;
  close(): Promise<void>;
}

/** The session is over, not merely unable to do this now. (Full disk, no memory, read-only: it goes on.) */
const isLost = (error: unknown): boolean => {
  const { code } = error as { readonly code?: string };
  return isAway(error) && !(code !== undefined && /^(25006|53|58)/.test(code));
};

async function openWire(config: pg.ClientConfig, lane: Lane): Promise<Wire> {
  const client = new pg.Client(config);
  const drop = () => {
    if (lane.client !== client) return;
    lane.client = undefined;
    lane.wire = undefined;
  };
  client.on("error", drop);
  client.on("end", drop);
  await client.connect();
  lane.client = client;
  lane.wire = new Wire(client);
  return lane.wire;
}

export function openLanes(config: pg.ClientConfig, count: number): Lanes {
  const lanes: Lane[] = Array.from({ length: count }, () => ({
    client: undefined,
    wire: undefined,
    opening: undefined,
    waiting: 0,
  }));
  let isClosed = false;

  // One after the other, not evenly: a bundle of eight costs little more than a bundle of one. The next lane is for
  // when there is more to do than one can carry, or something slow in it.
  const isFree = (lane: Lane): boolean =>
    lane.waiting < FULL && (lane.wire === undefined || lane.wire.waitingMs() < STUCK_MS);
  const pick = (): Lane =>
    lanes.find(isFree) ?? lanes.reduce((best, lane) => (lane.waiting < best.waiting ? lane : best));

  /** At once, because who is told of the loss asks again before the connection has said that it ended. */
  const forget = (lane: Lane, wire: Wire): void => {
    if (lane.wire !== wire) return;
    if (lane.client) sever(lane.client);
    lane.client = undefined;
    lane.wire = undefined;
  };

  const open = (lane: Lane): Promise<Wire> => {
    if (isClosed) throw new Error("Connection terminated: the database is closed");
    lane.opening ??= openWire(config, lane).finally(() => {
      lane.opening = undefined;
    });
    return lane.opening;
  };

  const once = async <Row>(statement: Statement<Row>, values: readonly unknown[]): Promise<Row[]> => {
    const lane = pick();
    lane.waiting += 1;
    let wire: Wire | undefined;
    try {
      wire = lane.wire ?? (await open(lane));
      return await wire.rows(statement, values);
    } catch (error) {
      if (wire && isLost(error instanceof NeverRan ? error.cause : error)) forget(lane, wire);
      throw error;
    } finally {
      lane.waiting -= 1;
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
    async close() {
      isClosed = true;
      const end = async (lane: Lane): Promise<void> => {
        await lane.opening?.catch(() => undefined);
        await lane.client?.end().catch(() => undefined);
      };
      await Promise.all(lanes.map(end));
    },
  };
}
