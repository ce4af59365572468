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
  "imports-name-their-target": {
    "server/src/alerts/service.ts": "export const load = (name: string) => import(name);",
  },
  "names-say-what": { "server/src/alerts/helpers.ts": "export const a = 1;" },
  "no-default-export": { "server/src/alerts/service.ts": "export default 1;" },
  "no-cycles": {
    "server/src/alerts/model.ts": 'import type { A } from "./contract.ts";',
    "server/src/alerts/contract.ts": 'import type { B } from "./model.ts";',
  },
};

for (const [rule, files] of Object.entries(SEEDED)) {
  test(`the house rule ${rule} bites`, () =>
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
