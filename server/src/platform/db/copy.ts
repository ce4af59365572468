/**
 * Copies everything that an instance stores from one PostgreSQL to another: from the embedded one to a cluster, or
 * from one major version to the next. In one transaction of the target over one snapshot of the source, so it is copied
 * completely or not at all. Rows are copied as they are, encrypted: no key is needed here.
 *
 * It needs no rights beyond those of the owner of the tables (managed databases give no more): foreign keys are dropped and
 * created again, which checks every row; triggers are disabled meanwhile, because what they would make is copied too.
 */
import pg from "pg";
import { migrate } from "./migrate.ts";

export class CopyError extends Error {
  override readonly name = "CopyError";
}

/** Short-lived state of nodes, or what is created again: not what users store. */
const FLEETING = ["migrations", "outbox", "outbox_swept", "jobs"];
/** A chunk of rows in characters: large enough to be quick, small enough for any machine. */
const CHUNK = 4_000_000;
const MOST_ROWS = 5000;

interface Table {
  readonly name: string;
  readonly columns: string[];
  readonly sequences: { readonly column: string; readonly sequence: string }[] | null;
}

const SESSION = "SET TimeZone = 'UTC'; SET IntervalStyle = 'postgres'; SET DateStyle = 'ISO'";

const TABLES = `
  SELECT c.relname AS name,
    (SELECT array_agg(quote_ident(a.attname) ORDER BY a.attnum) FROM pg_attribute a
     WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '') AS columns,
    (SELECT json_agg(json_build_object('column', a.attname, 'sequence', pg_get_serial_sequence(quote_ident(c.relname), a.attname)))
     FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attidentity <> '' AND NOT a.attisdropped) AS sequences
  FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND c.relpersistence = 'p' AND c.relname <> ALL ($1)
  ORDER BY c.relname`;

const PARTITIONS = `
  SELECT c.relname AS name, i.inhparent::regclass::text AS parent, pg_get_expr(c.relpartbound, c.oid) AS bound
  FROM pg_class c JOIN pg_inherits i ON i.inhrelid = c.oid
  WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND c.relispartition`;

const FOREIGN_KEYS = `
  SELECT conrelid::regclass::text AS "table", quote_ident(conname) AS name, pg_get_constraintdef(oid) AS definition
  FROM pg_constraint WHERE contype = 'f' AND conparentid = 0 AND connamespace = current_schema()::regnamespace`;

const OTHERS = `
  SELECT count(*)::int AS count FROM pg_stat_activity
  WHERE datname = current_database() AND application_name = 'keyward' AND pid <> pg_backend_pid()`;

const quoted = (name: string): string => pg.escapeIdentifier(name);
const rowsOf = async <Row extends object>(client: pg.Client, text: string, values: unknown[] = []) =>
  (await client.query<Row>(text, values)).rows;

async function hasInstance(client: pg.Client): Promise<boolean> {
  const [table] = await rowsOf<{ is: boolean }>(client, "SELECT to_regclass('root_key') IS NOT NULL AS is");
  if (!table?.is) return false;
  const [row] = await rowsOf<{ is: boolean }>(client, "SELECT EXISTS (SELECT 1 FROM root_key) AS is");
  return row?.is ?? false;
}

async function checkSource(source: pg.Client): Promise<void> {
  if (!(await hasInstance(source)))
    throw new CopyError("The source holds no Keyward: it was never started there.");
  const [others] = await rowsOf<{ count: number }>(source, OTHERS);
  if (others && others.count > 0)
    throw new CopyError(
      `The source is in use by Keyward (${others.count} connections). Stop all nodes first: what they write now would stay behind.`,
    );
}

async function checkSameSchema(source: pg.Client, target: pg.Client): Promise<void> {
  const read = async (client: pg.Client) =>
    JSON.stringify(await rowsOf(client, "SELECT id, digest FROM migrations ORDER BY id"));
  if ((await read(source)) !== (await read(target)))
    throw new CopyError(
      "The source was last used by another version of Keyward. Start this version on it once, stop it, and copy then.",
    );
}

/** Months of the audit log are made as time goes by: the target has those of its migrations only. */
async function makePartitions(source: pg.Client, target: pg.Client): Promise<void> {
  const known = new Set((await rowsOf<{ name: string }>(target, PARTITIONS)).map(({ name }) => name));
  for (const { name, parent, bound } of await rowsOf<{ name: string; parent: string; bound: string }>(
    source,
    PARTITIONS,
  )) {
    if (!known.has(name)) await target.query(`CREATE TABLE ${quoted(name)} PARTITION OF ${parent} ${bound}`);
  }
}

async function copyRows(source: pg.Client, target: pg.Client, { name, columns }: Table): Promise<number> {
  const insert = `INSERT INTO ${quoted(name)} (${columns.join(", ")}) OVERRIDING SYSTEM VALUE
    SELECT ${columns.join(", ")} FROM json_populate_recordset(NULL::${quoted(name)}, $1::json)`;
  await source.query(
    `DECLARE bites NO SCROLL CURSOR FOR SELECT row_to_json(t)::text AS row FROM ${quoted(name)} t`,
  );
  let copied = 0;
  // The first chunk is one row, because nobody knows yet how large they are.
  for (let most = 1; ;) {
    const rows = await rowsOf<{ row: string }>(source, `FETCH ${most} FROM bites`);
    if (rows.length === 0) break;
    const text = `[${rows.map(({ row }) => row).join(",")}]`;
    const { rowCount } = await target.query(insert, [text]);
    copied += rowCount ?? 0;
    most = Math.max(1, Math.min(MOST_ROWS, most * 10, Math.floor((rows.length * CHUNK) / text.length)));
  }
  await source.query("CLOSE bites");
  return copied;
}

/** Identity columns continue where they were. */
async function copySequences(source: pg.Client, target: pg.Client, table: Table): Promise<void> {
  for (const { sequence } of table.sequences ?? []) {
    const [at] = await rowsOf<{ last: string; isCalled: boolean }>(
      source,
      `SELECT last_value::text AS last, is_called AS "isCalled" FROM ${sequence}`,
    );
    if (at)
      await target.query("SELECT setval($1::regclass, $2::bigint, $3)", [sequence, at.last, at.isCalled]);
  }
}

async function countOf(client: pg.Client, name: string): Promise<number> {
  const [row] = await rowsOf<{ count: number }>(
    client,
    `SELECT count(*)::float8 AS count FROM ${quoted(name)}`,
  );
  return row?.count ?? 0;
}

async function copyAll(source: pg.Client, target: pg.Client, say: (line: string) => void): Promise<Copied> {
  await makePartitions(source, target);
  const tables = await rowsOf<Table>(source, TABLES, [FLEETING]);
  const foreignKeys = await rowsOf<{ table: string; name: string; definition: string }>(target, FOREIGN_KEYS);
  for (const { table, name } of foreignKeys)
    await target.query(`ALTER TABLE ${table} DROP CONSTRAINT ${name}`);
  let all = 0;
  for (const table of tables) {
    await target.query(`ALTER TABLE ${quoted(table.name)} DISABLE TRIGGER USER`);
    const rows = await copyRows(source, target, table);
    await copySequences(source, target, table);
    await target.query(`ALTER TABLE ${quoted(table.name)} ENABLE TRIGGER USER`);
    const there = await countOf(source, table.name);
    if (rows !== there || rows !== (await countOf(target, table.name)))
      throw new CopyError(`${table.name}: ${there} rows in the source, ${rows} copied. Nothing was kept.`);
    if (rows > 0) say(`${table.name}: ${rows.toLocaleString("en")}`);
    all += rows;
  }
  for (const { table, name, definition } of foreignKeys)
    await target.query(`ALTER TABLE ${table} ADD CONSTRAINT ${name} ${definition}`);
  return { tables: tables.length, rows: all };
}

interface Copied {
  readonly tables: number;
  readonly rows: number;
}

interface CopyOptions {
  readonly source: pg.ClientConfig;
  readonly target: pg.ClientConfig;
  readonly migrations: string;
  readonly say: (line: string) => void;
}

async function withClient<T>(config: pg.ClientConfig, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ ...config, connectionTimeoutMillis: 10_000, keepAlive: true });
  let lost: Error | undefined;
  client.on("error", (error) => (lost = error));
  await client.connect();
  try {
    return await work(client);
  } catch (error) {
    throw lost ?? error;
  } finally {
    await client.end().catch(() => undefined);
  }
}

export function copyDatabase({ source, target, migrations, say }: CopyOptions): Promise<Copied> {
  return withClient(source, (from) =>
    withClient(target, async (to) => {
      await from.query(SESSION);
      await to.query(SESSION);
      await checkSource(from);
      if (await hasInstance(to))
        throw new CopyError("The target already belongs to a Keyward. Name an empty database.");
      await migrate(to, migrations);
      await checkSameSchema(from, to);
      await from.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
      await to.query("BEGIN");
      try {
        // Of two copies into one target the second waits here, and then finds an instance.
        await to.query("LOCK TABLE root_key IN ACCESS EXCLUSIVE MODE");
        if (await hasInstance(to)) throw new CopyError("The target already belongs to a Keyward.");
        const copied = await copyAll(from, to, say);
        await to.query("COMMIT");
        await to.query("ANALYZE");
        return copied;
      } catch (error) {
        await to.query("ROLLBACK").catch(() => undefined);
        throw error;
      }
    }),
  );
}
