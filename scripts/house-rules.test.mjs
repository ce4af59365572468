import assert from "node:assert/strict";
import { test } from "node:test";
import { check } from "./house-rules.mjs";

const rulesBroken = (files) => [
  ...new Set(check(new Map(Object.entries(files))).map((violation) => violation.rule)),
];

const SEEDED = {
  "platform-knows-no-room": { "server/src/platform/x.ts": 'import { a } from "../alerts/index.ts";' },
  "rooms-enter-by-the-door": { "server/src/alerts/service.ts": 'import { a } from "../secrets/store.ts";' },
  "contract-is-pure": { "server/src/alerts/contract.ts": 'import { a } from "node:net";' },
  "model-is-pure": { "server/src/alerts/model.ts": 'import { a } from "./store.ts";' },
  "only-stores-speak-sql": {
    "server/src/alerts/service.ts": 'import { sql } from "../platform/db/index.ts";',
  },
  "stores-are-low": { "server/src/alerts/store.ts": 'import type { A } from "./service.ts";' },
  "routes-and-jobs-skip-no-floor": { "server/src/alerts/routes.ts": 'import { find } from "./store.ts";' },
  "only-the-door-knows-fastify": { "server/src/alerts/service.ts": 'import Fastify from "fastify";' },
  "only-the-database-knows-pg": { "server/src/alerts/service.ts": 'import pg from "pg";' },
  "web-and-cli-know-only-the-contract": {
    "cli/src/main.ts": 'import { a } from "../../server/src/house.ts";',
  },
  "packages-stand-alone": {
    "packages/x509/src/index.ts": 'import { a } from "../../../server/src/platform/problem.ts";',
  },
  "packages-are-entered-by-name": {
    "server/src/alerts/service.ts": 'import { a } from "../../../packages/x509/src/index.ts";',
  },
  "imports-name-their-target": {
    "server/src/alerts/service.ts": "export const load = (name: string) => import(name);",
  },
  "events-are-facts": { "server/src/alerts/events.ts": 'import { a } from "../projects/index.ts";' },
  "only-the-database-starts-one": {
    "server/src/platform/jobs/jobs.ts": 'import { start } from "@keyward/embedded-postgres";',
  },
  "names-say-what": { "server/src/alerts/helpers.ts": "export const a = 1;" },
  "no-default-export": { "server/src/alerts/service.ts": "export default 1;" },
  "no-cycles": {
    "server/src/alerts/model.ts": 'import type { A } from "./contract.ts";',
    "server/src/alerts/contract.ts": 'import type { B } from "./model.ts";',
  },
};

/** Ways past a rule that were open once. */
const PAST_THE_RULES = {
  "rooms-enter-by-the-door": [
    ["server/src/alerts/service.ts", 'import { a } from "../secrets/store.index.ts";'],
    ["server/src/alerts/service.ts", 'import { a } from "../secrets/service/index.ts";'],
    ["server/src/alerts/service.ts", 'import { a } from "../secrets/any.events.ts";'],
    ["server/src/alerts/service.ts", 'import { a } from "../bridge.ts";'],
    ["server/src/alerts/service.ts", 'import { a } from "../secret-rooms.ts";'],
    ["server/src/secret-rooms.ts", 'import { a } from "./secrets/service/write-secrets.ts";'],
  ],
  "events-are-facts": [["server/src/alerts/events.ts", 'export { find } from "./store.ts";']],
  "stores-are-low": [["server/src/revocation/store.ts", 'import { a } from "./crl.ts";']],
  "model-is-pure": [
    ["server/src/alerts/rules.model.ts", 'import { a } from "node:fs";'],
    ["server/src/alerts/model.ts", 'import { a } from "@keyward/embedded-postgres";'],
    ["server/src/alerts/model.ts", 'import { a } from "./channels.ts";'],
  ],
  "only-the-database-starts-one": [
    ["server/src/alerts/service.ts", 'import { start } from "@keyward/embedded-postgres";'],
  ],
  "names-say-what": [
    ["server/src/alerts/mail.utils.ts", "export const a = 1;"],
    ["server/src/alerts/utils/mail.ts", "export const a = 1;"],
  ],
};
for (const [rule, ways] of Object.entries(PAST_THE_RULES)) {
  for (const [path, text] of ways)
    test(`${rule}: ${path} may not say ${text}`, () =>
      assert.ok(rulesBroken({ [path]: text }).includes(rule)));
}

test("doors, contracts of parts and models of other rooms are open", () => {
  for (const [path, text] of [
    ["server/src/alerts/service.ts", 'import { a } from "../secrets/index.ts";'],
    ["server/src/alerts/contract.ts", 'import { a } from "../secrets/tags/contract.ts";'],
    ["server/src/alerts/service.ts", 'import { a } from "../secrets/paths.contract.ts";'],
    ["server/src/alerts/model.ts", 'import { a } from "../secrets/resolution/model.ts";'],
    ["server/src/alerts/service.ts", 'import { VERSION } from "../version.ts";'],
    ["server/src/house.ts", 'import { a } from "./secrets/index.ts";'],
  ])
    assert.deepEqual(rulesBroken({ [path]: text }), [], text);
});

for (const [rule, files] of Object.entries(SEEDED)) {
  test(`the house rule ${rule} reports its violation`, () =>
    assert.ok(rulesBroken(files).includes(rule), `${rule} let its violation pass`));
}

/** The same arrow past the door, in every form the language knows. */
const FORMS = {
  "a dynamic import": 'export const load = () => import("../secrets/store.ts");',
  "a dynamic import of some names": 'const { find } = await import("../secrets/store.ts");',
  "an imported type in place": 'export type Row = import("../secrets/store.ts").Row;',
  "a worker": 'new Worker(new URL("../secrets/store.js", import.meta.url));',
  "a program's address": 'const MAIN = new URL("../secrets/store.js", import.meta.url).href;',
  "a namespace": 'import * as store from "../secrets/store.ts";',
  "a default with names": 'import store, { find } from "../secrets/store.ts";',
  "a re-export": 'export * as store from "../secrets/store.ts";',
  "an import over lines with a comment": 'import {\n  find, // {why}\n} from "../secrets/store.ts";',
};
for (const [form, text] of Object.entries(FORMS)) {
  test(`${form} is an import too`, () =>
    assert.deepEqual(rulesBroken({ "server/src/alerts/service.ts": text }), ["rooms-enter-by-the-door"]));
}

const LEAVES_ITS_PACKAGE = {
  "the server by its name": 'import type { A } from "@keyward/server";',
  "another package by its name": 'import { a } from "@keyward/pg-pipeline";',
  "another package's file": 'import { a } from "../../pg-pipeline/src/index.ts";',
  "the manifest of the whole": 'const all = await import("../../../package.json");',
};
for (const [what, text] of Object.entries(LEAVES_ITS_PACKAGE)) {
  test(`a package imports nothing of ours: ${what}`, () =>
    assert.deepEqual(rulesBroken({ "packages/x509/src/index.ts": text }), ["packages-stand-alone"]));
}

test("a package's test may start another package, never the server or what lies beside it", () => {
  const rulesOfTest = (text) => rulesBroken({ "packages/pg-pipeline/src/pipeline.test.ts": text });
  assert.deepEqual(rulesOfTest('import { start } from "@keyward/embedded-postgres";'), []);
  assert.deepEqual(rulesOfTest('import { a } from "@keyward/server";'), ["packages-stand-alone"]);
  assert.deepEqual(rulesOfTest('import { a } from "../../../server/test/postgres.ts";'), [
    "packages-stand-alone",
  ]);
});

test("a package is entered by its name, from a test and by a path behind the name too", () => {
  for (const [path, text] of [
    ["server/src/platform/a.ts", 'import { a } from "@keyward/x509/dist/der.js";'],
    ["server/src/platform/a.test.ts", 'import { a } from "../../../packages/x509/src/der.ts";'],
    ["server/test/a.ts", 'import { a } from "../../packages/x509/dist/der.js";'],
  ])
    assert.deepEqual(rulesBroken({ [path]: text }), ["packages-are-entered-by-name"]);
  assert.deepEqual(rulesBroken({ "server/src/platform/a.ts": 'import { a } from "@keyward/x509";' }), []);
});

test("a room reaches the database neither by pg nor by what pipelines it", () => {
  for (const name of ["pg", "@keyward/pg-pipeline"])
    assert.deepEqual(rulesBroken({ "server/src/alerts/service.ts": `import { a } from "${name}";` }), [
      "only-the-database-knows-pg",
    ]);
  assert.deepEqual(rulesBroken({ "packages/pg-pipeline/src/index.ts": 'import pg from "pg";' }), []);
});

test("a worker that imports whoever starts it closes a circle", () =>
  assert.ok(
    rulesBroken({
      "server/src/platform/a.ts": 'new Worker(new URL("./b.js", import.meta.url));',
      "server/src/platform/b.ts": 'import type { A } from "./a.ts";',
    }).includes("no-cycles"),
  ));

test("a worker whose program is not written out is refused", () =>
  assert.deepEqual(rulesBroken({ "server/src/platform/a.ts": "new Worker(file);" }), [
    "imports-name-their-target",
  ]));

test("the whole database at once is SQL too", () => {
  for (const text of [
    'import * as db from "../platform/db/index.ts";',
    'export * from "../platform/db/index.ts";',
    'const db = await import("../platform/db/index.ts");',
  ])
    assert.deepEqual(rulesBroken({ "server/src/alerts/service.ts": text }), ["only-stores-speak-sql"]);
});

test("a method called import, and a folder's address, are no imports", () =>
  assert.deepEqual(
    rulesBroken({
      "server/src/alerts/service.ts":
        'own.import(actor);\nconst MIGRATIONS = new URL("../secrets/migrations", import.meta.url);',
    }),
    [],
  ));

test("a room built as HOUSE.md says breaks no rule", () => {
  assert.deepEqual(
    check(
      new Map(
        Object.entries({
          "server/src/alerts/contract.ts":
            'import { z } from "zod";\nimport { endpoint } from "../platform/http/endpoint.ts";',
          "server/src/alerts/model.ts": 'import { badRequest } from "../platform/problem.ts";',
          "server/src/alerts/store.ts": 'import { sql, type Query } from "../platform/db/index.ts";',
          "server/src/alerts/service.ts":
            'import { find } from "./store.ts";\nimport type { Projects } from "../projects/index.ts";',
          "server/src/alerts/routes.ts": 'import type { Alerts } from "./service.ts";',
          "server/src/alerts/service/create-alert.ts": "export const create = 1;",
          "server/src/projects/index.ts": "export const a = 1;",
        }),
      ),
    ),
    [],
  );
});
