import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { structureOf } from "./structure.mjs";

const ROOM = "server/src/alerts";
/** The smallest house in which nothing is amiss. */
const SOUND = {
  "package.json": JSON.stringify({ workspaces: ["server", "cli"] }),
  "server/package.json": JSON.stringify({
    name: "@keyward/server",
    exports: { ".": { types: "./dist/src/contract.d.ts", default: "./dist/src/contract.js" } },
  }),
  "cli/package.json": JSON.stringify({ name: "@keyward/cli" }),
  "server/src/contract.ts": 'export * as alerts from "./alerts/contract.ts";',
  "server/src/main.ts": 'import { createAlerts } from "./alerts/index.ts";\ncreateAlerts();',
  [`${ROOM}/contract.ts`]: "export const listAlerts = 1;\nexport type AlertList = string;",
  [`${ROOM}/index.ts`]: 'export { createAlerts } from "./service.ts";',
  [`${ROOM}/service.ts`]: "export const createAlerts = () => 1;",
};

function structureWith(files, options = {}) {
  const root = mkdtempSync(join(tmpdir(), "keyward-structure-"));
  try {
    for (const [path, text] of Object.entries({ ...SOUND, ...files })) {
      mkdirSync(dirname(join(root, path)), { recursive: true });
      writeFileSync(join(root, path), text);
    }
    return structureOf(root, { bounds: {}, named: [], ...options });
  } finally {
    rmSync(root, { recursive: true });
  }
}
const failuresWith = (files, options) => structureWith(files, options).failures;
/** The service with something more in it. */
const service = (text) => ({ [`${ROOM}/service.ts`]: `${SOUND[`${ROOM}/service.ts`]}\n${text}` });

test("a sound house has no failures, and all of its contract is in use", () =>
  assert.deepEqual(failuresWith({}), []));

const UNUSED = {
  "a value": service("export const lonely = 1;"),
  "a function": service("export function lonely() {}"),
  "a class": service("export class lonely {}"),
  "a type": service("export type lonely = string;"),
  "an interface": service("export interface lonely {}"),
  "one taken apart": service("export const { lonely } = createAlerts();"),
  "one in a list": service("const lonely = 1;\nexport { lonely };"),
  "one that is used where it is declared": service("export const lonely = 1;\nlonely.toString();"),
  "one that only a face passes on": {
    ...service("export const lonely = 1;"),
    [`${ROOM}/index.ts`]: 'export * from "./service.ts";',
  },
  "one of a namespace of which others are taken": {
    ...service("export const lonely = 1;"),
    [`${ROOM}/index.ts`]:
      'import * as own from "./service.ts";\nexport const createAlerts = own.createAlerts;',
  },
};
for (const [what, files] of Object.entries(UNUSED)) {
  test(`an unused export is found: ${what}`, () => {
    const failures = failuresWith(files);
    assert.equal(failures.length, 1, failures.join("\n"));
    assert.match(failures[0], /^unused-export: server\/src\/alerts\/service\.ts:\d+ lonely /);
  });
}

test("a name that a face passes on to nobody is unused in the face and behind it", () =>
  assert.deepEqual(
    failuresWith({
      ...service("export const lonely = 1;"),
      [`${ROOM}/index.ts`]: 'export { createAlerts, lonely } from "./service.ts";',
    }).map((failure) => failure.split(" ")[1]),
    [`${ROOM}/index.ts:1`, `${ROOM}/service.ts:2`],
  ));

const USED = {
  "a type import": ["cli/src/main.ts", 'import type { own } from "../../server/src/alerts/service.ts";'],
  "a type in place": ["server/src/main.ts", 'type Own = import("./alerts/service.ts").own;'],
  "a dynamic import": ["server/src/main.ts", 'const { own } = await import("./alerts/service.ts");'],
  "a member of one": ["server/src/main.ts", 'const a = (await import("./alerts/service.ts")).own;'],
  "a namespace handed on": ["server/src/main.ts", 'import * as all from "./alerts/service.ts";\nuse(all);'],
  "a script": ["scripts/a.mjs", 'const { own } = await import("../server/dist/src/alerts/service.js");'],
  "another name": ["server/src/main.ts", 'import { own as other } from "./alerts/service.ts";'],
};
for (const [what, [path, text]] of Object.entries(USED)) {
  test(`${what} is a use`, () =>
    assert.deepEqual(
      failuresWith({ ...service("export const own = 1;"), [path]: `${SOUND[path] ?? ""}\n${text}` }),
      [],
    ));
}

test("an export that only tests import is allowed, and listed", () => {
  const { failures, onlyTested } = structureWith({
    ...service("export const tested = 1;"),
    [`${ROOM}/service.test.ts`]: 'import { tested } from "./service.ts";',
  });
  assert.deepEqual(failures, []);
  assert.deepEqual(onlyTested, [{ path: `${ROOM}/service.ts`, name: "tested", line: 2 }]);
});

test("an exemption holds for as long as it is needed", () => {
  const named = ["Row"];
  assert.deepEqual(failuresWith(service("export interface Row {}"), { named }), []);
  assert.match(failuresWith({}, { named }).join(), /^needless-exemption: Row/);
});

test("a type name with two meanings is found, in two packages too", () => {
  const failures = failuresWith({
    ...service("export interface Row {}"),
    "cli/src/row.ts": "export class Row {}",
    "cli/src/main.ts":
      'import { Row } from "./row.ts";\nimport type { Row as R } from "../../server/src/alerts/service.ts";',
  });
  assert.deepEqual(failures, [
    `one-meaning-per-type-name: Row is declared in ${ROOM}/service.ts and cli/src/row.ts`,
  ]);
});

test("a schema and the type of its name in one file mean the same", () =>
  assert.deepEqual(
    failuresWith({ [`${ROOM}/contract.ts`]: "export const A = 1;\nexport type A = typeof A;" }),
    [],
  ));

/** A package beside the runtimes, entered by its name. */
const PACKAGE = {
  "package.json": JSON.stringify({ workspaces: ["packages/*", "server", "cli"] }),
  "packages/x509/package.json": JSON.stringify({
    name: "@keyward/x509",
    exports: { ".": { types: "./dist/index.d.ts", default: "./dist/index.js" } },
  }),
  "packages/x509/src/index.ts": 'export { encode } from "./der.ts";',
  "packages/x509/src/der.ts": "export const encode = () => 1;",
  ...service('import { encode } from "@keyward/x509";\nencode();'),
};

test("a package's export is used by whoever imports its name, from the file that declares it", () =>
  assert.deepEqual(failuresWith(PACKAGE), []));

test("what a package shows and nobody takes is unused: it is there for us alone", () =>
  assert.deepEqual(
    failuresWith({
      ...PACKAGE,
      "packages/x509/src/index.ts": 'export { encode, lonely } from "./der.ts";',
      "packages/x509/src/der.ts": "export const encode = () => 1;\nexport const lonely = 1;",
    })
      .map((failure) => failure.split(" ").slice(0, 2).join(" "))
      .toSorted(),
    ["unused-export: packages/x509/src/der.ts:2", "unused-export: packages/x509/src/index.ts:1"],
  ));

test("a package's files are reached, its compiled ones by scripts, and its tests are tests", () => {
  const files = { ...PACKAGE, "packages/x509/src/pem.ts": "export const pem = 1;" };
  assert.deepEqual(failuresWith(files).length, 2);
  const script = { "scripts/a.mjs": 'const { pem } = await import("../packages/x509/dist/pem.js");' };
  assert.deepEqual(failuresWith({ ...files, ...script }), []);
  for (const path of ["packages/x509/src/pem.test.ts", "packages/x509/test/pem.ts"]) {
    const target = path.includes("/test/") ? "../src/pem.ts" : "./pem.ts";
    const { failures, onlyTested } = structureWith({ ...files, [path]: `import { pem } from "${target}";` });
    assert.deepEqual(failures, []);
    assert.deepEqual(
      onlyTested.map(({ name }) => name),
      ["pem"],
    );
  }
});

test("a file that nothing imports or starts is found; a worker is started", () => {
  assert.match(
    failuresWith({ [`${ROOM}/jobs.ts`]: "run();" }).join(),
    /^unreached-file: server\/src\/alerts\/jobs\.ts/,
  );
  const worker = 'new Worker(new URL("./jobs.js", import.meta.url));';
  assert.deepEqual(failuresWith({ ...service(worker), [`${ROOM}/jobs.ts`]: "run();" }), []);
});

test("the figures are counted, and each fails above its bound", () => {
  const files = {
    [`${ROOM}/calendar/service.ts`]: "run();\n",
    "server/src/main.ts": `${SOUND["server/src/main.ts"]}\nimport "./alerts/calendar/service.ts";`,
  };
  const { figures } = structureWith(files);
  assert.deepEqual(figures, {
    largest: "alerts",
    withMostFiles: "alerts",
    alone: [`${ROOM}/calendar`],
    filesOfLargestRoom: 4,
    linesOfLargestRoom: 5,
    oneFileFolders: 1,
    serviceFiles: 2,
    twoMeanings: 0,
    unusedExports: 0,
    onlyTested: 0,
  });
  const bounds = { filesOfLargestRoom: 4, linesOfLargestRoom: 5, oneFileFolders: 1, serviceFiles: 2 };
  assert.deepEqual(failuresWith(files, { bounds }), []);
  for (const figure of Object.keys(bounds))
    assert.deepEqual(failuresWith(files, { bounds: { ...bounds, [figure]: bounds[figure] - 1 } }), [
      `above-its-bound: ${figure} is ${bounds[figure]}, at most ${bounds[figure] - 1}`,
    ]);
});
