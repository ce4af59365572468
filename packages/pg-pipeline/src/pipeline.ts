/**
 * Pipelining on one PostgreSQL connection. The statements of one turn of the event loop are sent as one batch: one system
 * call here, one Sync, one answer. (pg itself puts a Sync behind every statement, and PostgreSQL flushes its answers
 * at each Sync: a write of nine statements then costs nine sends there and up to nine wake-ups here.) Statements
 * that arrive while a batch is in flight become the next one, so batches grow with the load.
 *
 * PostgreSQL skips everything behind a failed statement up to the Sync. Within a transaction that is what we want;
 * for unrelated reads that share a batch it means: never ran, send again.
 *
 * The columns of a prepared statement are described once per connection, not with every run.
 */
import pg from "pg";
import { privatePartsOf, type Connection } from "./private-parts.ts";
import type { PipelineStatement } from "./statement.ts";

interface Field {
  readonly name: string;
  readonly dataTypeID: number;
}

type RawRow = readonly (string | null)[];
type ParseRow = (fields: RawRow) => unknown;

interface Item {
  readonly statement: PipelineStatement<unknown>;
  readonly values: readonly (string | Buffer | null)[];
  readonly rows: unknown[];
  resolve(answer: Answer): void;
  reject(error: unknown): void;
}

interface Answer {
  readonly rows: unknown[];
  /** What PostgreSQL says it did: "INSERT 0 1", "COMMIT". */
  readonly tag: string;
}

/** The statement came after one that failed: PostgreSQL skipped it. */
export class NeverRan extends Error {
  constructor(cause: unknown) {
    super("an earlier statement of the same bundle failed", { cause });
  }
}

const elementOf = (value: unknown): string => {
  if (value === null || value === undefined) return "NULL";
  if (Array.isArray(value)) return arrayOf(value);
  if (value instanceof Uint8Array) return `"\\\\x${Buffer.from(value).toString("hex")}"`;
  return `"${String(toText(value)).replace(/["\\]/g, "\\$&")}"`;
};
const arrayOf = (values: readonly unknown[]): string => `{${values.map(elementOf).join(",")}}`;

/** PostgreSQL knows no sign before a year and no year 0; a Date may have either. */
function momentOf(at: Date): string {
  const text = at.toISOString();
  const year = at.getUTCFullYear();
  if (year > 0 && year < 10_000) return text;
  const rest = text.slice(text.indexOf("-", 1));
  return year > 0 ? `${year}${rest}` : `${String(1 - year).padStart(4, "0")}${rest} BC`;
}

/** A value as PostgreSQL reads it: text, or bytes as they are. */
function toText(value: unknown): string | Buffer | null {
  if (value === null || value === undefined) return null;
  if (typeof value === "string") return value;
  if (typeof value !== "object") return String(value as number | boolean | bigint);
  if (Buffer.isBuffer(value)) return value;
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  if (value instanceof Date) return momentOf(value);
  if (Array.isArray(value)) return arrayOf(value);
  return JSON.stringify(value);
}

function rowParser(fields: readonly Field[]): ParseRow {
  const columns = fields.map(({ name, dataTypeID }) => ({
    name,
    parse: pg.types.getTypeParser(dataTypeID, "text") as (text: string) => unknown,
  }));
  return (raw) => {
    const row: Record<string, unknown> = {};
    for (let n = 0; n < columns.length; n += 1) {
      const column = columns[n] as (typeof columns)[number];
      const text = raw[n] as string | null;
      row[column.name] = text === null ? null : column.parse(text);
    }
    return row;
  };
}

/** The longest that a timer can wait. */
const FOR_EVER_MS = 2 ** 31 - 1;
const NO_COLUMNS: ParseRow = () => ({});

/** The prepared statements of a connection: how to read their rows, or not known yet. */
type Known = Map<string, ParseRow | undefined>;

/** One batch, in the form of a pg query: pg hands it the connection once, then calls it for every message. */
class Batch {
  /** A commit may wait for a standby for as long as it takes: only a caller that can find out its outcome may give up on it. */
  readonly query_timeout: number | undefined;
  /** Set by pg, to stop its watch over how long we wait. */
  callback: ((error?: unknown) => void) | undefined = () => undefined;
  readonly #items: readonly Item[];
  readonly #known: Known;
  readonly #whenDone: () => void;
  readonly #parsing: string[] = [];
  #at = 0;
  #columns: ParseRow = NO_COLUMNS;
  #isOver = false;

  constructor(items: readonly Item[], known: Known, whenDone: () => void) {
    this.#items = items;
    this.#known = known;
    this.#whenDone = whenDone;
    const isCommit = items.some(({ statement }) => statement.text === "COMMIT");
    this.query_timeout = isCommit ? FOR_EVER_MS : undefined;
  }

  submit(connection: Connection): null {
    connection.stream.cork();
    try {
      const asked = new Set<string>();
      for (const { statement, values } of this.#items) {
        const name = statement.name ?? "";
        if (!this.#known.has(name) && !asked.has(name)) {
          connection.parse({ name, text: statement.text });
          this.#parsing.push(name);
        }
        connection.bind({ statement: name, values });
        if (!this.#known.get(name) && !asked.has(name)) connection.describe({ type: "P", name: "" });
        connection.execute({});
        if (name !== "") asked.add(name);
      }
      connection.sync();
    } finally {
      connection.stream.uncork();
    }
    return null;
  }

  parsed(): void {
    const name = this.#parsing.shift();
    // Prepared from here on, whatever the outcome of this run; its columns follow.
    if (name) this.#known.set(name, undefined);
  }

  described(columns: ParseRow): void {
    this.#columns = columns;
    const name = this.#items[this.#at]?.statement.name;
    if (name) this.#known.set(name, columns);
  }

  handleRowDescription({ fields }: { readonly fields: readonly Field[] }): void {
    this.described(rowParser(fields));
  }

  handleDataRow({ fields }: { readonly fields: RawRow }): void {
    const item = this.#items[this.#at];
    if (!item) return;
    const { name } = item.statement;
    item.rows.push((name ? (this.#known.get(name) ?? this.#columns) : this.#columns)(fields));
  }

  handleCommandComplete({ text }: { readonly text: string }): void {
    const item = this.#items[this.#at];
    this.#at += 1;
    item?.resolve({ rows: item.rows, tag: text });
  }

  handleEmptyQuery(): void {
    this.handleCommandComplete({ text: "" });
  }

  handlePortalSuspended(): void {
    /* no statement here asks for a part of its rows */
  }

  handleError(error: Error, connection: Connection): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.callback?.(error);
    // pg timed out; the answer may still come and would be taken for the next batch's.
    if (error.message === "Query read timeout") connection.stream.destroy();
    this.#items[this.#at]?.reject(error);
    for (const item of this.#items.slice(this.#at + 1)) item.reject(new NeverRan(error));
    this.#whenDone();
  }

  handleReadyForQuery(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.callback?.();
    this.#whenDone();
  }
}

export class Pipeline {
  readonly #client: pg.ClientBase;
  readonly #known: Known = new Map();
  #waiting: Item[] = [];
  #underWay: Batch | undefined;
  #leftAt = 0;
  #isScheduled = false;

  constructor(client: pg.ClientBase) {
    this.#client = client;
    const { connection } = privatePartsOf(client);
    connection.on("parseComplete", () => this.#underWay?.parsed());
    connection.on("noData", () => this.#underWay?.described(NO_COLUMNS));
  }

  /** How long the current batch has been in flight. */
  waitingMs(): number {
    return this.#underWay ? performance.now() - this.#leftAt : 0;
  }

  async rows<Row>(statement: PipelineStatement<Row>, values: readonly unknown[]): Promise<Row[]> {
    return (await this.#ask(statement, values)).rows as Row[];
  }

  async run(statement: PipelineStatement<unknown>): Promise<string> {
    return (await this.#ask(statement, [])).tag;
  }

  #ask(statement: PipelineStatement<unknown>, values: readonly unknown[]): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ statement, values: values.map(toText), rows: [], resolve, reject });
      if (this.#isScheduled || this.#underWay) return;
      this.#isScheduled = true;
      // After the current microtasks: statements that they still send join the batch.
      process.nextTick(() => this.#depart());
    });
  }

  #depart(): void {
    this.#isScheduled = false;
    if (this.#waiting.length === 0) return;
    const items = this.#waiting;
    this.#waiting = [];
    const bundle = new Batch(items, this.#known, () => {
      this.#underWay = undefined;
      if (this.#waiting.length === 0) return;
      this.#isScheduled = true;
      process.nextTick(() => this.#depart());
    });
    this.#underWay = bundle;
    this.#leftAt = performance.now();
    this.#client.query(bundle as unknown as pg.Submittable);
  }
}
