// docs/schema.sql: the schema after all migrations, as PostgreSQL's catalogue has it, for reading. Tables stand with the
// room that owns them, triggers with the table they watch and the function they call.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./build.mjs";
import { tablesChangedBy } from "./table-rules.mjs";
import { TABLES_OF } from "./tables.mjs";

const HEAD = `-- The schema after all files of server/migrations. Written by npm run generate from PostgreSQL's catalogue:
-- for reading, not for building a database. Rooms own tables (scripts/tables.mjs); what a trigger does
-- stands below the table that it watches.`;

const NOT_OF_AN_EXTENSION = (oid, catalogue) =>
  `NOT EXISTS (SELECT 1 FROM pg_depend x WHERE x.classid = '${catalogue}'::regclass AND x.objid = ${oid} AND x.deptype = 'e')`;

const TABLES = `
  SELECT c.oid::int AS id, c.relname AS name, c.relkind AS kind, c.relpersistence = 'u' AS "isUnlogged",
         c.reloptions AS options, pg_get_partkeydef(c.oid) AS "partitionKey",
         p.relname AS parent, pg_get_expr(c.relpartbound, c.oid) AS bound
  FROM pg_class c LEFT JOIN pg_inherits h ON h.inhrelid = c.oid LEFT JOIN pg_class p ON p.oid = h.inhparent
  WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
    AND ${NOT_OF_AN_EXTENSION("c.oid", "pg_class")}
  ORDER BY c.relname COLLATE "C"`;

/** What is written of a column's storage is only what a migration changed. */
const COLUMNS = `
  SELECT a.attrelid::int AS id, quote_ident(a.attname) AS name, format_type(a.atttypid, a.atttypmod) AS type,
         a.attnotnull AS "isRequired", pg_get_expr(d.adbin, d.adrelid) AS value, a.attidentity AS identity,
         a.attgenerated AS generated, s.seqcache::int AS cache,
         CASE WHEN a.attcollation <> t.typcollation THEN a.attcollation::regcollation::text END AS collation,
         CASE WHEN a.attstorage <> t.typstorage
           THEN CASE a.attstorage WHEN 'e' THEN 'EXTERNAL' WHEN 'm' THEN 'MAIN' WHEN 'p' THEN 'PLAIN' ELSE 'EXTENDED' END
         END AS storage
  FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    LEFT JOIN pg_sequence s ON a.attidentity <> '' AND s.seqrelid = pg_get_serial_sequence(a.attrelid::regclass::text, a.attname)::regclass
  WHERE a.attrelid = ANY($1::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
  ORDER BY a.attnum`;

/** NOT NULL stands with its column: from PostgreSQL 18 on it is a constraint as well. */
const CONSTRAINTS = `
  SELECT conrelid::int AS id, conname AS name, pg_get_constraintdef(oid, true) AS definition
  FROM pg_constraint
  WHERE conrelid = ANY($1::oid[]) AND contype IN ('p', 'u', 'c', 'f', 'x') AND conislocal
  ORDER BY position(contype::text IN 'pucxf'), conname COLLATE "C"`;

const INDEXES = `
  SELECT i.indrelid::int AS id, pg_get_indexdef(i.indexrelid) AS definition
  FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
  WHERE i.indrelid = ANY($1::oid[]) AND NOT c.relispartition
    AND NOT EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.contype IN ('p', 'u', 'x'))
  ORDER BY c.relname COLLATE "C"`;

const TRIGGERS = `
  SELECT t.tgrelid::int AS id, t.tgname AS name, pg_get_triggerdef(t.oid, true) AS definition, t.tgfoid::int AS "functionId"
  FROM pg_trigger t WHERE t.tgrelid = ANY($1::oid[]) AND NOT t.tgisinternal AND t.tgparentid = 0
  ORDER BY t.tgname COLLATE "C"`;

const FUNCTIONS = `
  SELECT f.oid::int AS id, f.proname AS name, pg_get_functiondef(f.oid) AS definition, f.prosrc AS body
  FROM pg_proc f
  WHERE f.pronamespace = 'public'::regnamespace AND f.prokind IN ('f', 'p')
    AND ${NOT_OF_AN_EXTENSION("f.oid", "pg_proc")}
  ORDER BY f.proname COLLATE "C", pg_get_function_identity_arguments(f.oid) COLLATE "C"`;

const EXTENSIONS = `SELECT extname AS name FROM pg_extension WHERE extname <> 'plpgsql' ORDER BY extname COLLATE "C"`;

/** What this file would not show must not be in the schema unseen. */
const UNSHOWN = `
  SELECT 'view ' || c.relname AS what FROM pg_class c
  WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('v', 'm', 'f')
    AND ${NOT_OF_AN_EXTENSION("c.oid", "pg_class")}
  UNION ALL SELECT 'type ' || t.typname FROM pg_type t
  WHERE t.typnamespace = 'public'::regnamespace AND t.typtype IN ('e', 'd', 'r') AND ${NOT_OF_AN_EXTENSION("t.oid", "pg_type")}
  UNION ALL SELECT 'policy ' || polname FROM pg_policy
  UNION ALL SELECT 'rule ' || rulename FROM pg_rules WHERE schemaname = 'public'`;

async function catalogueOf(client) {
  const rows = async (text, values) => (await client.query(text, values)).rows;
  await client.query("SET search_path TO public");
  const unshown = await rows(UNSHOWN);
  if (unshown.length > 0)
    throw new Error(`scripts/schema.mjs does not show ${unshown.map((row) => row.what).join(", ")}`);
  const tables = await rows(TABLES);
  const ids = [tables.map((table) => table.id)];
  const [columns, constraints, indexes, triggers] = [
    await rows(COLUMNS, ids),
    await rows(CONSTRAINTS, ids),
    await rows(INDEXES, ids),
    await rows(TRIGGERS, ids),
  ];
  const of = (list, { id }) => list.filter((row) => row.id === id);
  return {
    extensions: await rows(EXTENSIONS),
    functions: await rows(FUNCTIONS),
    tables: tables.map((table) => ({
      ...table,
      columns: of(columns, table),
      constraints: of(constraints, table),
      indexes: of(indexes, table),
      triggers: of(triggers, table),
    })),
  };
}

function columnText({ name, type, isRequired, value, identity, generated, cache, collation, storage }) {
  return [
    `${name} ${type}`,
    storage === null ? "" : `STORAGE ${storage}`,
    collation === null ? "" : `COLLATE ${collation}`,
    isRequired ? "NOT NULL" : "",
    identity === "" ? "" : `GENERATED ${identity === "a" ? "ALWAYS" : "BY DEFAULT"} AS IDENTITY`,
    identity === "" || cache === null || cache === 1 ? "" : `(CACHE ${cache})`,
    value === null ? "" : generated === "" ? `DEFAULT ${value}` : `GENERATED ALWAYS AS (${value}) STORED`,
  ]
    .filter(Boolean)
    .join(" ");
}

function createTable(table) {
  const create = `CREATE ${table.isUnlogged ? "UNLOGGED " : ""}TABLE ${table.name}`;
  if (table.parent !== null) return `${create} PARTITION OF ${table.parent} ${table.bound};`;
  const lines = [
    ...table.columns.map(columnText),
    ...table.constraints.map(({ name, definition }) => `CONSTRAINT ${name} ${definition}`),
  ];
  return [
    `${create} (\n  ${lines.join(",\n  ")}\n)`,
    table.partitionKey === null ? "" : ` PARTITION BY ${table.partitionKey}`,
    table.options === null ? "" : ` WITH (${table.options.join(", ").replaceAll("=", " = ")})`,
    ";",
  ].join("");
}

const tidy = (text) =>
  text
    .trim()
    .replace(/^CREATE OR REPLACE FUNCTION public\./, "CREATE FUNCTION ")
    .replace(/[ \t]+$/gm, "");

/** Each function stands once, with the first trigger that calls it. */
function triggersOf(table, functions, shown) {
  return table.triggers.map(({ definition, functionId }) => {
    const called = functions.get(functionId);
    const before = shown.get(functionId);
    if (before === undefined) shown.set(functionId, table.name);
    const body =
      before === undefined
        ? `${tidy(called.definition)};`
        : `-- ${called.name}() stands ${before === table.name ? "above" : `with ${before}`}`;
    return `${definition.replace(/ (?=REFERENCING |WHEN \(|EXECUTE FUNCTION )/g, "\n  ")};\n${body}`;
  });
}

/** The triggers of any table whose function changes this one: how its rows come to be. */
function changedByTriggers({ name }, { tables, functions }) {
  const changing = new Set(
    functions.filter(({ body }) => tablesChangedBy(body).includes(name)).map(({ id }) => id),
  );
  const lines = tables.flatMap((table) =>
    table.triggers
      .filter((trigger) => changing.has(trigger.functionId))
      .map((trigger) => `--   ${trigger.name} on ${table.name}`),
  );
  return lines.length === 0 ? [] : ["-- rows come, change or go by triggers:", ...lines];
}

/** The files that make a table, change it or give it indexes and triggers. */
function migrationsOf(name, statements) {
  const says = new RegExp(`^(?:CREATE|ALTER)\\b[^(]*?\\b(?:TABLE|ON|ON ONLY)\\s+${name}\\b`);
  const files = [...statements]
    .filter(([, list]) => list.some((one) => says.test(one)))
    .map(([file]) => file);
  return files.length === 0 ? [] : [`-- migrations: ${files.join(", ")}`];
}

function readMigrations() {
  const folder = join(ROOT, "server/migrations");
  const names = readdirSync(folder).filter((name) => name.endsWith(".sql"));
  return new Map(
    names.sort().map((name) => {
      const text = readFileSync(join(folder, name), "utf8").replace(/--[^\n]*/g, "");
      return [name.slice(0, -4), text.split(";").map((statement) => statement.trim())];
    }),
  );
}

function checkOwners(tables) {
  const owned = Object.values(TABLES_OF).flat();
  const real = tables.map((table) => table.name);
  const wrong = [
    ...real.filter((name) => !owned.includes(name)).map((name) => `${name} has no room`),
    ...owned.filter((name) => !real.includes(name)).map((name) => `${name} is no table`),
    ...owned.filter((name, i) => owned.indexOf(name) !== i).map((name) => `${name} has two rooms`),
  ];
  if (wrong.length > 0) throw new Error(`scripts/tables.mjs: ${wrong.join(", ")}.`);
}

/** The text of docs/schema.sql for the database that the client is connected to. */
async function schemaText(client) {
  const catalogue = await catalogueOf(client);
  const { tables, extensions, functions } = catalogue;
  checkOwners(tables);
  const byId = new Map(functions.map((one) => [one.id, one]));
  const shown = new Map();
  const statements = readMigrations();
  const called = new Set(tables.flatMap((table) => table.triggers.map((trigger) => trigger.functionId)));
  const parts = [
    HEAD,
    extensions.map(({ name }) => `CREATE EXTENSION ${name};`).join("\n"),
    ...functions.filter(({ id }) => !called.has(id)).map(({ definition }) => `${tidy(definition)};`),
  ];
  for (const [room, names] of Object.entries(TABLES_OF)) {
    for (const table of tables.filter(({ name }) => names.includes(name))) {
      const about = [
        `-- room: ${room}`,
        ...migrationsOf(table.name, statements),
        ...changedByTriggers(table, catalogue),
      ];
      const indexes = table.indexes.map(({ definition }) => `${definition.replaceAll(" public.", " ")};`);
      parts.push([...about, createTable(table), ...indexes].join("\n"), ...triggersOf(table, byId, shown));
    }
  }
  return `${parts.join("\n\n")}\n`;
}

/** Asked on the tests' PostgreSQL, or on one that is started for this alone; the server has to be built. */
export async function schemaOfMigrations() {
  const { createTestDatabase, stopOwnPostgres, withClient } = await import("../server/dist/test/postgres.js");
  try {
    const { server, connection, drop } = await createTestDatabase();
    return await withClient(server, connection.database, schemaText).finally(drop);
  } finally {
    await stopOwnPostgres();
  }
}
