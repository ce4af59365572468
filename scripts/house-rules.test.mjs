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
  "known-furniture": { "server/src/alerts/helpers.ts": "export const a = 1;" },
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
