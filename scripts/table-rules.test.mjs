import assert from "node:assert/strict";
import { test } from "node:test";
import { checkTables, tablesIn } from "./table-rules.mjs";

const TABLES = { alerts: ["alerts"], projects: ["projects"], members: ["members"] };
const broken = (files, known = {}, knownWrites = {}) => [
  ...new Set(
    checkTables(new Map(Object.entries(files)), { tables: TABLES, known, knownWrites }).map(
      ({ rule }) => rule,
    ),
  ),
];
const inAlerts = (text) => ({ "server/src/alerts/store.ts": text });

const ON_ANOTHERS_TABLE = {
  "a table read": "sql(`SELECT id FROM projects WHERE id = $1`)",
  "a join": "sql(`SELECT 1 FROM alerts a LEFT JOIN projects p ON p.id = a.project_id`)",
  "a table after a comma": "sql(`SELECT 1 FROM unnest($1::uuid[], $2::int[]) AS n (id, at), projects p`)",
  "an insert": "sql(`INSERT INTO projects (id) VALUES ($1)`)",
  "an update": "slowSql(`UPDATE ONLY projects SET name = $1`)",
  "a delete": "sql(`DELETE FROM projects`)",
  "a delete by way of another table": "sql(`DELETE FROM alerts USING projects p WHERE p.id = project_id`)",
  "an emptied table": "sql('TRUNCATE alerts, projects')",
  "a lock": "sql('LOCK TABLE projects IN SHARE MODE')",
  "a CTE": "sql(`WITH gone AS (DELETE FROM projects RETURNING id) SELECT id FROM gone`)",
  "a sub-query": "sql(`SELECT id FROM alerts WHERE project_id IN (SELECT id FROM projects)`)",
  "a name with its schema": 'sql(`SELECT 1 FROM public."projects"`)',
  "small letters": "sql('select id from projects')",
  "a piece that is put in": "const P = `projects p JOIN alerts a ON true`; sql(`SELECT 1 FROM ${P}`)",
  "a name that is put in": "for (const t of ['projects']) sql(`SELECT 1 FROM ${t}`)",
  "what stands inside of something put in": "sql(`SELECT 1 FROM ${chunk('SELECT 1 FROM projects')}`)",
};
for (const [what, text] of Object.entries(ON_ANOTHERS_TABLE)) {
  test(`${what} of another room is found`, () =>
    assert.ok(broken(inAlerts(text)).includes("tables-belong-to-rooms")));
}

test("who may look at another room's table may not change it", () => {
  const known = { alerts: { projects: 1 } };
  for (const text of [
    "sql(`INSERT INTO projects (id) VALUES ($1)`)",
    "slowSql(`UPDATE ONLY projects SET name = $1`)",
    "sql(`WITH gone AS (DELETE FROM public.projects RETURNING id) SELECT id FROM gone`)",
    "sql('truncate projects')",
    'sql(`INSERT INTO "public"."projects" (id) VALUES ($1)`)',
    "sql(`MERGE INTO projects USING (VALUES (1)) v (n) ON true WHEN MATCHED THEN DELETE`)",
    "sql(`COPY projects FROM STDIN`)",
    "sql(`TRUNCATE TABLE projects`)",
    "sql(`TRUNCATE alerts, projects`)",
  ]) {
    assert.deepEqual(broken(inAlerts(text), known), ["only-the-owner-writes"], text);
    assert.deepEqual(broken(inAlerts(text), known, { alerts: { projects: 1 } }), [], text);
  }
  for (const text of [
    "sql(`SELECT 1 FROM projects FOR UPDATE`)",
    "sql(`SELECT 1 FROM projects p FOR NO KEY UPDATE OF p SKIP LOCKED`)",
    "sql(`INSERT INTO alerts SELECT 1 FROM projects ON CONFLICT (id) DO UPDATE SET n = 1`)",
  ])
    assert.deepEqual(broken(inAlerts(text), known), [], text);
});

test("a changed table is written out", () => {
  for (const text of [
    "const T = 'alerts'; sql(`UPDATE ${T} SET n = 1`)",
    "sql(`INSERT INTO ${HEAD} VALUES (1)`)",
    "sql('DELETE FROM ' + TABLE)",
  ])
    assert.ok(broken(inAlerts(text)).includes("written-tables-are-named"), text);
});

test("a table of the own room, a column, a word of a comment and a test are no crossing", () => {
  assert.deepEqual(
    broken({
      "server/src/projects/store.ts": "sql(`SELECT id FROM projects`)",
      "server/src/alerts/store.ts": `
        // taken FROM projects
        sql(\`SELECT projects, members AS m FROM alerts WHERE name = 'FROM projects' AND x IS DISTINCT FROM projects.x -- FROM projects
          ORDER BY a, projects\`);
        sql(\`INSERT INTO alerts (id, projects) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET projects = $2\`);
        sql(\`SELECT 1 FROM alerts FOR UPDATE\`);`,
      "server/src/alerts/service.ts": 'throw badRequest("no alerts come from projects")',
      "server/src/alerts/store.test.ts": "client.query(`DELETE FROM projects`)",
    }),
    [],
  );
});

test("a known crossing passes, one more does not", () => {
  const known = { alerts: { projects: 1 } };
  const once = "sql(`SELECT 1 FROM projects`);";
  assert.deepEqual(broken(inAlerts(once), known), []);
  assert.deepEqual(broken(inAlerts(once + once), known), ["tables-belong-to-rooms"]);
});

test("a known crossing that is gone has to leave the list", () => {
  const once = "sql(`SELECT 1 FROM projects`);";
  assert.deepEqual(broken(inAlerts(once), { alerts: { projects: 2 } }), ["known-crossings-only-fall"]);
  assert.deepEqual(broken({}, { alerts: { projects: 1 } }), ["known-crossings-only-fall"]);
});

test("platform owns tables as a room does", () => {
  assert.deepEqual(broken({ "server/src/platform/db/x.ts": "sql(`SELECT 1 FROM projects`)" }), [
    "tables-belong-to-rooms",
  ]);
});

test("every table of a statement is named, CTEs and functions as well", () => {
  assert.deepEqual(
    tablesIn(
      "WITH a AS (SELECT 1 FROM x, y WHERE b = (SELECT max(c, d) FROM z)) INSERT INTO w SELECT * FROM a",
    ),
    ["x", "y", "z", "w", "a"],
  );
});
