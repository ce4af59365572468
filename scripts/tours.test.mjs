// The tours are read by newcomers: every file they name exists, and their stories stay as short as they promise.
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { ROOT } from "./build.mjs";

const TOURS = join(ROOT, "docs/tours");
const textOf = (name) => readFileSync(join(TOURS, name), "utf8");
const filesIn = (text) => [...text.matchAll(/`([\w./-]+\.(?:ts|mjs))`/g)].map(([, path]) => path);
/** Named by their whole path, or as the tour says, from `server/src` or a room on. */
const exists = (path) =>
  ["", "server/src", "server/src/certificates", "server/src/platform/outbox", "server/src/events"].some(
    (from) => existsSync(join(ROOT, from, path)),
  );
/** Files of the numbered steps under a heading. */
const steps = (text) =>
  new Set(
    text
      .split("\n")
      .filter((line) => /^\d+\. /.test(line))
      .flatMap((line) => filesIn(line)),
  );

describe("the tours", () => {
  for (const name of readdirSync(TOURS))
    it(`${name} names files that exist`, () => {
      const missing = filesIn(textOf(name)).filter((path) => !exists(path));
      assert.deepEqual(missing, []);
    });

  it("a secret change reaches a stream on another node in at most twelve files", () => {
    const count = steps(textOf("follow-a-secret-change.md")).size;
    assert.ok(count > 0 && count <= 12, `${count} files`);
  });

  it("an alert is created in at most six files", () => {
    const [, created = ""] = textOf("follow-an-alert.md").split(/^## .*$/m);
    const count = steps(created).size;
    assert.ok(count > 0 && count <= 6, `${count} files`);
  });
});
