/**
 * Reading lanes: a few connections on which many requests' single statements travel at once (pipelining), which
 * is half again as fast as lending out a connection per statement. A lane can only look: its sessions are
 * read-only, so a statement that changes something fails by construction. Slow statements never come here.
 */
import pg from "pg";
import { corkForThisTick } from "./cork.ts";
import { isAway } from "./errors.ts";
import type { Statement } from "./statement.ts";

interface Lane {
  client: pg.Client | undefined;
  opening: Promise<pg.Client> | undefined;
  waiting: number;
}

export interface Lanes {
  rows<Row>(statement: Statement<Row>, values: readonly unknown[]): Promise<Row[]>;
  close(): Promise<void>;
}

async function openClient(config: pg.ClientConfig, lane: Lane): Promise<pg.Client> {
  const client = new pg.Client({ ...config, pipeline: true } as pg.ClientConfig);
  const drop = () => {
    if (lane.client === client) lane.client = undefined;
  };
  client.on("error", drop);
  client.on("end", drop);
  await client.connect();
  lane.client = client;
  return client;
}

export function openLanes(config: pg.ClientConfig, count: number): Lanes {
  const lanes: Lane[] = Array.from({ length: count }, () => ({
    client: undefined,
    opening: undefined,
    waiting: 0,
  }));
  let isClosed = false;

  const quietest = (): Lane => lanes.reduce((best, lane) => (lane.waiting < best.waiting ? lane : best));

  const clientOf = (lane: Lane): pg.Client | Promise<pg.Client> => {
    if (isClosed) throw new Error("Connection terminated: the database is closed");
    if (lane.client) return lane.client;
    lane.opening ??= openClient(config, lane).finally(() => {
      lane.opening = undefined;
    });
    return lane.opening;
  };

  const once = async <Row>(statement: Statement<Row>, values: readonly unknown[]): Promise<Row[]> => {
    const lane = quietest();
    lane.waiting += 1;
    try {
      const client = lane.client ?? (await clientOf(lane));
      corkForThisTick(client);
      const result = await client.query({
        name: statement.name,
        text: statement.text,
        values: values as unknown[],
      } as pg.QueryConfig);
      return result.rows as Row[];
    } finally {
      lane.waiting -= 1;
    }
  };

  return {
    async rows(statement, values) {
      try {
        return await once(statement, values);
      } catch (error) {
        // A look has no effect, so a connection that broke under it is simply replaced and the look repeated.
        if (isClosed || !isAway(error)) throw error;
        return once(statement, values);
      }
    },
    async close() {
      isClosed = true;
      await Promise.all(lanes.map(async (lane) => lane.client?.end().catch(() => undefined)));
    },
  };
}
