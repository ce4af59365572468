import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";
import pg from "pg";
import { assertShape, assertTested, PARTS, privatePartsOf, UnsupportedPgError } from "./private-parts.ts";
import { SessionClient } from "./session.ts";

const require = createRequire(import.meta.url);
const manifest = JSON.parse(readFileSync(require.resolve("../package.json"), "utf8")) as {
  readonly dependencies: { readonly pg: string };
};
const { version } = require("pg/package.json") as { readonly version: string };

test("pg is pinned to one version, and that one is installed", () => {
  assert.match(manifest.dependencies.pg, /^\d+\.\d+\.\d+$/, "no range");
  assert.equal(version, manifest.dependencies.pg);
});

test("another version than the pinned one is refused, and the refusal names both", () => {
  assert.throws(
    () => assertTested("8.99.0", "8.23.1"),
    (error: unknown) =>
      error instanceof UnsupportedPgError && /pg 8\.99\.0 .* pg 8\.23\.1 alone/.test(error.message),
  );
  assertTested("8.23.1", "8.23.1");
});

test("the installed pg has every part that is used, in a plain client and in one with settings", () => {
  assertShape(new pg.Client());
  assertShape(new SessionClient({ settings: { TimeZone: "UTC" } }));
});

/** A client of the installed pg in which one part looks different. */
function clientWith(path: string, part: unknown): pg.Client {
  const client = new pg.Client();
  const names = path.split(".");
  const last = names.pop() ?? "";
  let owner: object = client;
  for (const name of names) owner = (owner as Record<string, object>)[name] ?? {};
  Object.defineProperty(owner, last, { value: part, configurable: true });
  return client;
}

for (const path of Object.keys(PARTS)) {
  test(`a pg without client.${path} is refused, and the refusal names it`, () => {
    for (const part of [undefined, null, "changed"]) {
      assert.throws(
        () => assertShape(clientWith(path, part)),
        (error: unknown) =>
          error instanceof UnsupportedPgError && error.message.includes(`client.${path} (${PARTS[path]})`),
      );
    }
  });
}

test("a client of another make is refused before it is used", () => {
  class Native {}
  assert.throws(() => privatePartsOf(new Native() as pg.ClientBase), UnsupportedPgError);
});

test("what is asserted is all that is used: no other file of the package casts a client open", () => {
  const folder = new URL("../src/", import.meta.url);
  for (const name of ["pipeline.ts", "read-pipelines.ts", "session.ts"])
    assert.doesNotMatch(readFileSync(new URL(name, folder), "utf8"), /(client|this) as unknown/, name);
});
