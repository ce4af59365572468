/**
 * The outbox as the tail sees it: a connection for a few queries and for notifications. Everything that the tail
 * knows of PostgreSQL is here.
 */
import type pg from "pg";
import { sever, type Database } from "../db/index.ts";
import type { NumberedFact } from "./fact.ts";
import { BATCH, type OutboxPage, type OutboxQuestion } from "./reading.ts";
import { plus, SUM_MODULUS } from "./told.ts";

export const CHANNEL = "keyward_outbox";

/** Which server this is; null where it does not say. */
export interface ServerIdentity {
  readonly system: string | null;
  readonly timeline: string | null;
}

interface Beginning extends ServerIdentity {
  /** The highest number that is known to have been used. */
  readonly last: number;
}

export interface Outlook {
  begin(): Promise<Beginning>;
  look(question: OutboxQuestion): Promise<OutboxPage>;
  /** The transactions that write to the outbox now. */
  writers(): Promise<Set<string>>;
  /** How many other nodes listen. */
  peers(): Promise<number>;
  end(): Promise<void>;
  /** Cut, not closed cleanly, which could wait for ever on a host that is gone. */
  cut(): void;
}

/** What may happen on the connection between two queries. */
export interface OutlookEvents {
  readonly onLost: () => void;
  /** Another node says that there is something to read. */
  readonly onNotify: () => void;
  /** Another node has begun to listen. */
  readonly onPeers: () => void;
}

export interface OutboxSource {
  open(events: OutlookEvents): Promise<Outlook>;
  /** Tells the others that there is something to read. */
  notify(): Promise<void>;
  onCommitted: Database["onCommitted"];
  renew(): void;
  stop(): Promise<void>;
}

const MICROS = "(extract(epoch FROM at) * 1000000)::bigint";
const FACT = `seq, xid::text::bigint AS xid, ${MICROS} AS at, name, data`;

const SUM = `count(*) AS count, coalesce(mod(sum(${MICROS}), ${SUM_MODULUS}), 0)::bigint AS sum`;

const PAGE = `
  SELECT gone.seq AS swept, pg_sequence_last_value('outbox_seq_seq') AS drawn,
         (SELECT json_agg(f) FROM (SELECT ${FACT} FROM outbox WHERE seq > $1 ORDER BY seq LIMIT ${BATCH}) f) AS facts,
         (SELECT json_agg(f) FROM (
            SELECT ${FACT} FROM unnest($2::bigint[], $3::bigint[]) AS hole(first, last)
            JOIN outbox ON seq BETWEEN first AND last LIMIT ${BATCH}) f) AS late,
         gone.count AS "goneCount", gone.sum AS "goneSum", told.count AS "toldCount", told.sum AS "toldSum"
  FROM outbox_swept gone, (SELECT ${SUM} FROM outbox WHERE seq > $4 AND seq <= $5) told`;

// A transaction that has drawn a number holds this lock on the table until its commit is visible: taken before the row's
// number is drawn, and released after the transaction has ended, whatever its role and also if it was prepared. So
// every transaction that may still fill a gap is in this list.
const WRITERS = `
  SELECT DISTINCT virtualtransaction AS writer FROM pg_locks
  WHERE locktype = 'relation' AND relation = 'outbox'::regclass AND mode = 'RowExclusiveLock' AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;

const LAST = "SELECT greatest(coalesce(max(seq), 0), (SELECT seq FROM outbox_swept)) AS last FROM outbox";

// A promoted standby has a new timeline at once in the names of what it writes; the control file says so only with the
// next checkpoint.
const IDENTITY = `
  SELECT system_identifier::text AS system, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) AS timeline
  FROM pg_control_system()`;
const UNKNOWN: ServerIdentity = { system: null, timeline: null };

// A node that listens holds this lock for as long as its connection lives, shared with its peers: its holders
// are the nodes there are, without a table that a crash would leave wrong.
const [LISTENERS, OF_OUTBOX] = [0x6b657977, 1];
const JOIN = `SELECT pg_advisory_lock_shared(${LISTENERS}, ${OF_OUTBOX})`;
const PEERS = `
  SELECT count(*) AS peers FROM pg_locks
  WHERE locktype = 'advisory' AND classid = ${LISTENERS} AND objid = ${OF_OUTBOX} AND objsubid = 2
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND pid <> pg_backend_pid()`;
const HELLO = "hello";

interface Row {
  readonly swept: number;
  readonly drawn: number | null;
  readonly facts: NumberedFact[] | null;
  readonly late: NumberedFact[] | null;
  readonly goneCount: number;
  readonly goneSum: number;
  readonly toldCount: number;
  readonly toldSum: number;
}

/** On bigint's upper end: above it there is nothing. */
const NOTHING = "9223372036854775807";

const pidOf = (client: pg.Client | undefined): number | undefined =>
  (client as { readonly processID?: number } | undefined)?.processID;

function outlookOf(client: pg.Client): Outlook {
  const first = async <Shape extends pg.QueryResultRow>(
    name: string,
    text: string,
    values: unknown[] = [],
  ): Promise<Shape> => {
    const { rows } = await client.query<Shape>({ name, text, values });
    const [row] = rows;
    if (!row) throw new Error(`${name} answered no row`);
    return row;
  };
  return {
    async begin() {
      const { last } = await first<{ last: number }>("outbox-last", LAST);
      // Some servers keep these to themselves; then continuity has to be shown by the facts alone.
      const identity = await first<ServerIdentity & pg.QueryResultRow>("outbox-identity", IDENTITY).catch(
        (error: unknown) => {
          if ((error as { readonly code?: string }).code === undefined) throw error;
          return UNKNOWN;
        },
      );
      return { last, ...identity };
    },
    async look({ above, holes, claim }) {
      const row = await first<Row & pg.QueryResultRow>("outbox-tail", PAGE, [
        above ?? NOTHING,
        holes.map((hole) => hole.first),
        holes.map((hole) => hole.last),
        claim.from ?? 0,
        claim.to,
      ]);
      const gone = { count: row.goneCount, sum: row.goneSum };
      const left = { count: row.toldCount, sum: row.toldSum };
      return {
        swept: row.swept,
        drawn: row.drawn,
        facts: row.facts ?? [],
        late: row.late ?? [],
        gone,
        claimed: claim.from === null ? plus(gone, left) : left,
      };
    },
    async writers() {
      const { rows } = await client.query<{ writer: string }>({ name: "outbox-writers", text: WRITERS });
      return new Set(rows.map(({ writer }) => writer));
    },
    peers: async () => (await first<{ peers: number }>("outbox-peers", PEERS)).peers,
    end: () => client.end(),
    cut: () => sever(client),
  };
}

class PostgresOutbox implements OutboxSource {
  readonly #database: Database;
  #notifier: pg.Client | undefined;
  #opening: Promise<pg.Client> | undefined;
  #isStopped = false;
  readonly onCommitted: Database["onCommitted"];
  readonly renew: () => void;

  constructor(database: Database) {
    this.#database = database;
    this.onCommitted = database.onCommitted;
    this.renew = database.renew;
  }

  async open(events: OutlookEvents): Promise<Outlook> {
    const client = await this.#database.connect();
    client.on("error", events.onLost);
    client.on("end", events.onLost);
    client.on("notification", ({ processId, payload }) => {
      // Our own notification is not news: we polled when we committed.
      if (processId === pidOf(client) || processId === pidOf(this.#notifier)) return;
      if (payload === HELLO) events.onPeers();
      else events.onNotify();
    });
    try {
      await client.query(`LISTEN ${CHANNEL}`);
      await client.query(JOIN);
      await client.query(`NOTIFY ${CHANNEL}, '${HELLO}'`);
    } catch (error) {
      sever(client);
      throw error;
    }
    return outlookOf(client);
  }

  async notify(): Promise<void> {
    // One, however many notify while it is being opened.
    this.#opening ??= this.#notifier
      ? undefined
      : this.#openNotifier().finally(() => {
          this.#opening = undefined;
        });
    const client = this.#notifier ?? (await this.#opening);
    if (!client) return;
    try {
      await client.query(`NOTIFY ${CHANNEL}`);
    } catch (error) {
      // It may be waiting for an answer that never comes; the next notification uses a new one.
      if (this.#notifier === client) this.#notifier = undefined;
      sever(client);
      throw error;
    }
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#notifier?.end().catch(() => undefined);
  }

  async #openNotifier(): Promise<pg.Client> {
    const client = await this.#database.connect();
    const drop = () => {
      if (this.#notifier === client) this.#notifier = undefined;
    };
    client.on("error", drop);
    client.on("end", drop);
    this.#notifier = client;
    if (this.#isStopped) await client.end();
    return client;
  }
}

export const openOutbox = (database: Database): OutboxSource => new PostgresOutbox(database);
