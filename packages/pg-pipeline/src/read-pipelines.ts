/**
 * Read pipelines: a few connections on which single statements of many requests are sent in batches, which is more than
 * twice as fast as lending out a connection per statement. A read pipeline can only read: its sessions are
 * read-only, so a statement that changes something fails by construction. Slow statements never come here.
 */
import { SessionClient, type SessionConfig } from "./session.ts";
import type { PipelineStatement } from "./statement.ts";
import { NeverRan, Pipeline } from "./pipeline.ts";
import { sever } from "./private-parts.ts";

/** How many in flight on one read pipeline are enough. */
const FULL = 16;
/** A batch of quick reads is back long before; behind one that is not, nothing should queue while another pipeline is free. */
const STUCK_MS = 5;
/** A read pipeline that the database had no connection for is left alone for this long. */
const REST_MS = 1000;

interface ReadPipeline {
  line: OpenConnection | undefined;
  opening: Promise<OpenConnection> | undefined;
  waiting: number;
  restsUntil: number;
}

/** A read pipeline's connection, and how many are on it. */
interface OpenConnection {
  readonly readPipeline: ReadPipeline;
  readonly client: SessionClient;
  readonly pipeline: Pipeline;
  riders: number;
}

interface ReadPipelines {
  rows<Row>(statement: PipelineStatement<Row>, values: readonly unknown[]): Promise<Row[]>;
  /** Connections that were opened before are not used any more; what is in flight on them completes. */
  renew(): void;
  close(): Promise<void>;
}

/** Was it opened since the address last changed its target? */
type IsCurrent = (client: SessionClient) => boolean;

interface ReadPipelinesOptions {
  /** How many connections there may be. */
  readonly count: number;
  /** Does this failure mean that the database is unreachable, or cannot answer at the moment? Then a read is worth a retry. */
  readonly isAway: (error: unknown) => boolean;
}

/** Of such a failure: is the session over, or merely unable to do this now? (Full disk, no memory, read-only.) */
const endsSession = (error: unknown): boolean => {
  const { code } = error as { readonly code?: string };
  return !(code !== undefined && /^(25006|53|58)/.test(code));
};

async function openConnection(
  config: SessionConfig,
  readPipeline: ReadPipeline,
  isCurrent: IsCurrent,
): Promise<OpenConnection> {
  const client = new SessionClient(config);
  const line: OpenConnection = { readPipeline, client, pipeline: new Pipeline(client), riders: 0 };
  const drop = () => {
    if (readPipeline.line === line) readPipeline.line = undefined;
  };
  client.on("error", drop);
  client.on("end", drop);
  await client.connect();
  // A standby may answer those who wait for it, but nobody stays there: once the primary is somewhere else, it would
  // answer from the past for as long as the connection lives, and what it says would be remembered as true.
  if (!client.isStandby && isCurrent(client)) readPipeline.line = line;
  return line;
}

/** At once, because callers retry before the connection has reported its end. */
function forget(line: OpenConnection): void {
  if (line.readPipeline.line === line) line.readPipeline.line = undefined;
  sever(line.client);
}

/** The last statement on a connection that is no longer a read pipeline, such as one to a standby, closes it. */
function leave(line: OpenConnection): void {
  line.riders -= 1;
  if (line.riders === 0 && line.readPipeline.line !== line) sever(line.client);
}

export function openReadPipelines(
  config: SessionConfig,
  { count, isAway }: ReadPipelinesOptions,
): ReadPipelines {
  const readPipelines: ReadPipeline[] = Array.from({ length: count }, () => ({
    line: undefined,
    opening: undefined,
    waiting: 0,
    restsUntil: Number.NEGATIVE_INFINITY,
  }));
  let isClosed = false;
  let renewedAt = Number.NEGATIVE_INFINITY;
  const isCurrent: IsCurrent = ({ askedAt }) => askedAt >= renewedAt;
  const isLost = (error: unknown): boolean => isAway(error) && endsSession(error);

  const busyness = (readPipeline: ReadPipeline): number =>
    readPipeline.waiting + (readPipeline.line?.riders ?? 0);
  const canCarry = (readPipeline: ReadPipeline): boolean =>
    readPipeline.line !== undefined || performance.now() >= readPipeline.restsUntil;
  // One after the other, not evenly: a batch of eight costs little more than a batch of one. The next read pipeline is for
  // when there is more to do than one can carry, or something slow in it.
  const isFree = (readPipeline: ReadPipeline): boolean =>
    busyness(readPipeline) < FULL &&
    canCarry(readPipeline) &&
    (readPipeline.line?.pipeline.waitingMs() ?? 0) < STUCK_MS;
  const leastBusy = (some: readonly ReadPipeline[]): ReadPipeline | undefined =>
    some.reduce<ReadPipeline | undefined>(
      (best, readPipeline) => (best && busyness(best) <= busyness(readPipeline) ? best : readPipeline),
      undefined,
    );
  const pick = (): ReadPipeline =>
    readPipelines.find(isFree) ??
    leastBusy(readPipelines.filter(canCarry)) ??
    (leastBusy(readPipelines) as ReadPipeline);

  const open = (readPipeline: ReadPipeline): Promise<OpenConnection> => {
    if (isClosed) throw new Error("Connection terminated: the database is closed");
    if (readPipeline.opening) return readPipeline.opening;
    const opening = openConnection(config, readPipeline, isCurrent).finally(() => {
      if (readPipeline.opening === opening) readPipeline.opening = undefined;
    });
    readPipeline.opening = opening;
    return opening;
  };

  /** A read pipeline that cannot be opened (the limit of connections is reached) leaves its work to those that are. */
  const lineOf = async (readPipeline: ReadPipeline): Promise<OpenConnection> => {
    readPipeline.waiting += 1;
    try {
      return await open(readPipeline);
    } catch (error) {
      const other = leastBusy(readPipelines.filter(({ line }) => line !== undefined))?.line;
      if (!other) throw error;
      readPipeline.restsUntil = performance.now() + REST_MS;
      return other;
    } finally {
      readPipeline.waiting -= 1;
    }
  };

  const once = async <Row>(statement: PipelineStatement<Row>, values: readonly unknown[]): Promise<Row[]> => {
    const readPipeline = pick();
    const line = readPipeline.line ?? (await lineOf(readPipeline));
    line.riders += 1;
    try {
      return await line.pipeline.rows(statement, values);
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
          // Another caller's read failed in the same batch; ours was skipped.
          const isOurs = !(error instanceof NeverRan);
          const cause = isOurs ? error : error.cause;
          // A read has no effect, so after a broken connection it is retried on a new one, once.
          const isBroken = isAway(cause);
          if (isClosed || (isOurs && !isBroken) || (isBroken && hasFailed)) throw cause;
          hasFailed ||= isBroken;
        }
      }
    },
    renew() {
      renewedAt = performance.now();
      for (const readPipeline of readPipelines) {
        const { line } = readPipeline;
        // One that is still being opened counts as old: only those who wait for it use it.
        readPipeline.opening = undefined;
        readPipeline.line = undefined;
        if (line?.riders === 0) sever(line.client);
      }
    },
    async close() {
      isClosed = true;
      const end = async (readPipeline: ReadPipeline): Promise<void> => {
        await readPipeline.opening?.catch(() => undefined);
        await readPipeline.line?.client.end().catch(() => undefined);
      };
      await Promise.all(readPipelines.map(end));
    },
  };
}
