// Tables belong to rooms: SQL on a table stands in the room that owns it (scripts/tables.mjs). What is read are the
// string and template literals, so that a comment or a type of the same name does not count.
import ts from "typescript";
import { KNOWN_CROSSINGS, KNOWN_FOREIGN_WRITES, KNOWN_PUT_IN, TABLES_OF } from "./tables.mjs";

/** Stands where a template puts something in. */
const PUT_IN = "$put_in";
const TOKEN = /'(?:[^']|'')*'|--[^\n]*|(?:"[^"]+"|[a-z_$][\w$]*)(?:\."?[a-z_]\w*"?)*|[(),;]/gi;
const NAMES_A_TABLE = new Set([
  "FROM",
  "JOIN",
  "INTO",
  "UPDATE",
  "USING",
  "TRUNCATE",
  "TABLE",
  "LIKE",
  "COPY",
]);
const PASSES_ON = new Set(["ONLY", "TABLE", "LATERAL", "IF", "EXISTS", "NOT"]);
const BEGINS_LIST = new Set(["FROM", "USING", "TRUNCATE", "TABLE"]);
const ENDS_LIST = new Set(
  "WHERE GROUP HAVING ORDER LIMIT OFFSET FETCH FOR WINDOW UNION EXCEPT INTERSECT RETURNING SET VALUES SELECT".split(
    " ",
  ),
);
const FOLLOWS_A_TABLE = /^(?:\s+(?:AS\s+)?[a-z]\w{0,2})?(?:\s*,|\s+(?:WHERE|JOIN|LEFT|INNER|CROSS)\b)/;

const bare = (token) => token.replaceAll('"', "").replace(/^public\./, "");

/**
 * The tables that an SQL text names where a table may stand, once per place, in all its sub-queries and CTEs. A name
 * after a comma counts while a list of tables goes on: `FROM unnest($1) u, projects p`.
 */
export function tablesIn(text, { anyCase = true } = {}) {
  const found = [];
  const lists = [false];
  let isExpected = false;
  for (const [token] of text.matchAll(TOKEN)) {
    const word = anyCase ? token.toUpperCase() : token;
    if (token.startsWith("--") || token.startsWith("'")) continue;
    if (token === "(") lists.push(false);
    else if (token === ")") lists.pop();
    else if (token === ";") lists[lists.length - 1] = false;
    if (lists.length === 0) lists.push(false);
    if (token === ",") isExpected = lists.at(-1);
    else if (NAMES_A_TABLE.has(word)) {
      isExpected = true;
      if (BEGINS_LIST.has(word)) lists[lists.length - 1] = true;
    } else if (isExpected && PASSES_ON.has(word)) continue;
    else {
      if (ENDS_LIST.has(word)) lists[lists.length - 1] = false;
      if (isExpected && /^["a-z_$]/i.test(token) && !ENDS_LIST.has(word)) found.push(bare(token));
      isExpected = false;
    }
  }
  return found;
}

/** The tables that a function's body inserts into, updates or deletes from. */
export const tablesChangedBy = (body) => [
  ...new Set(
    [...body.matchAll(/\b(?:INSERT INTO|UPDATE|DELETE FROM)\s+(?:ONLY\s+)?([a-z_]+)/g)].map(
      ([, table]) => table,
    ),
  ),
];

function literalsOf(path, text) {
  const literals = [];
  const visit = (node) => {
    if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) literals.push(node.text);
    else if (ts.isTemplateExpression(node))
      literals.push(
        node.head.text + node.templateSpans.map((span) => ` ${PUT_IN} ${span.literal.text}`).join(""),
      );
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(path, text, ts.ScriptTarget.Latest));
  return literals;
}

const CHANGES = new Set(["INTO", "UPDATE", "TRUNCATE", "COPY"]);
/** FOR UPDATE locks; ON CONFLICT DO UPDATE is the insert's own. */
const LOCKS_OR_GOES_ON = new Set(["FOR", "KEY", "DO"]);
const NO_TABLE = new Set(["SET", "OF", "NOWAIT", "SKIP", "SELECT"]);

/**
 * The tables that an SQL text changes, once per place: INSERT and MERGE INTO, UPDATE, DELETE FROM, TRUNCATE, COPY … FROM.
 * `$put_in` where the text does not say which.
 */
export function tablesWrittenIn(text, { anyCase = true } = {}) {
  const found = [];
  let [before, isExpected, inList] = ["", false, false];
  for (const [token] of text.matchAll(TOKEN)) {
    if (token.startsWith("--") || token.startsWith("'")) continue;
    const word = anyCase ? token.toUpperCase() : token;
    if (isExpected && PASSES_ON.has(word)) continue;
    if (isExpected) {
      if (/^["a-z_$]/i.test(token) && !NO_TABLE.has(word)) found.push(bare(token));
      isExpected = false;
    } else if (token === ",") isExpected = inList;
    else if (CHANGES.has(word) || (word === "FROM" && before === "DELETE")) {
      isExpected = !(word === "UPDATE" && LOCKS_OR_GOES_ON.has(before));
      inList = word === "TRUNCATE";
    } else if (token === ";") inList = false;
    before = word;
  }
  return isExpected && /\s$/.test(text) ? [...found, PUT_IN] : found;
}

const SQL_WORD = /\b(FROM|JOIN|INTO|UPDATE|TRUNCATE|TABLE|WHERE)\b/;
const isStore = (path) => /\/(store|[^/]+\.store|store\/[^/]+)\.ts$/.test(path);
const isTest = (path) => path.endsWith(".test.ts") || path.startsWith("server/test/");

/** Every table that a file's SQL names, also one at the head of a piece that is put in after FROM. */
export function tablesOfFile(path, text, isTable) {
  if (!(isStore(path) ? new RegExp(SQL_WORD, "i") : SQL_WORD).test(text)) return [];
  const literals = literalsOf(path, text);
  const named = literals.map((literal) => tablesIn(literal, { anyCase: isStore(path) }));
  const putsIn = named.some((tables) => tables.includes(PUT_IN));
  const atHead = literals.flatMap((literal) => {
    const [, head = "", rest = ""] = /^\s*([a-z_]+)([^]*)$/.exec(literal) ?? [];
    return FOLLOWS_A_TABLE.test(rest) || (putsIn && rest === "") ? [head] : [];
  });
  return [...named.flat(), ...atHead].filter(isTable);
}

const roomOf = (path) => /^server\/src\/([^/]+)\//.exec(path)?.[1] ?? "house";

/** Each room's files that name a table of another one, or change it, once per mention: room → table → files. */
function crossingsIn(files, owners, tablesOf) {
  const crossings = {};
  for (const [path, text] of files) {
    if (!path.startsWith("server/src/") || isTest(path)) continue;
    const room = roomOf(path);
    for (const table of tablesOf(path, text)) {
      if (!owners.has(table) || owners.get(table) === room) continue;
      crossings[room] ??= {};
      (crossings[room][table] ??= []).push(path);
    }
  }
  return crossings;
}

/** One that is not known is a violation, and so is a known one that is gone. */
function compared(crossings, known, describe) {
  const violations = [];
  for (const room of new Set([...Object.keys(crossings), ...Object.keys(known)])) {
    for (const table of new Set([...Object.keys(crossings[room] ?? {}), ...Object.keys(known[room] ?? {})])) {
      const paths = crossings[room]?.[table] ?? [];
      const now = paths.length;
      const allowed = known[room]?.[table] ?? 0;
      if (now > allowed)
        violations.push({ path: [...new Set(paths)].join(", "), ...describe({ room, table, now, allowed }) });
      else if (now < allowed)
        violations.push({
          rule: "known-crossings-only-fall",
          path: "scripts/tables.mjs",
          detail: `knows ${allowed} places of ${room} with SQL on ${table}; there are ${now}: lower the number`,
        });
    }
  }
  return violations;
}

export function checkTables(
  files,
  {
    tables = TABLES_OF,
    known = KNOWN_CROSSINGS,
    knownWrites = KNOWN_FOREIGN_WRITES,
    putsIn = KNOWN_PUT_IN,
  } = {},
) {
  const owners = new Map(
    Object.entries(tables).flatMap(([room, names]) => names.map((table) => [table, room])),
  );
  const named = crossingsIn(files, owners, (path, text) =>
    tablesOfFile(path, text, (name) => owners.has(name)),
  );
  const written = crossingsIn(files, owners, (path, text) =>
    literalsOf(path, text).flatMap((literal) => tablesWrittenIn(literal, { anyCase: isStore(path) })),
  );
  const unnamed = [...files].filter(
    ([path, text]) =>
      isStore(path) &&
      !isTest(path) &&
      literalsOf(path, text).some((literal) => tablesWrittenIn(literal).includes(PUT_IN)),
  );
  return [
    ...compared(named, known, ({ room, table, now, allowed }) => ({
      rule: "tables-belong-to-rooms",
      detail: `of ${room}: SQL on ${table}, which is of ${owners.get(table)}, in ${now} places; ${allowed} are known`,
    })),
    ...compared(written, knownWrites, ({ room, table, now, allowed }) => ({
      rule: "only-the-owner-writes",
      detail: `of ${room}: changes ${table}, which is of ${owners.get(table)}, in ${now} places; ${allowed} are known`,
    })),
    ...unnamed
      .filter(([path]) => !putsIn.includes(path))
      .map(([path]) => ({
        rule: "written-tables-are-named",
        path,
        detail: "changes a table whose name is put in; nobody can tell whose it is",
      })),
  ];
}
