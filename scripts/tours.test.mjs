// The tours are read by newcomers: every file they name exists, and their stories stay as short as they promise.
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { ROOT } from "./build.mjs";

const TOURS = join(ROOT, "docs/tours");
const textOf = (name) => readFileSync(join(TOURS, name), "utf8");
const filesIn = (text) => [...text.matchAll(/`([\w./-]+\.(?:ts|mjs))`/g)].map(([, path]) => path);
/** Files of the numbered steps, their continued lines too. */
const steps = (text) =>
  new Set([...text.matchAll(/^\d+\. .*(?:\n +\S.*)*/gm)].flatMap(([step]) => filesIn(step)));
/** The part of a tour under the heading that begins with these words. */
const under = (text, words) => text.split(/^## /m).find((part) => part.startsWith(words)) ?? "";
const docs = readdirSync(join(ROOT, "docs"), { recursive: true })
  .map(String)
  .filter((name) => name.endsWith(".md"));

/** Files that a reader must open, at most. */
const STORIES = [
  ["an alert is created", 6, under(textOf("follow-an-alert.md"), "It is created")],
  ["a secret change reaches a stream on another node", 12, textOf("follow-a-secret-change.md")],
  ["a certificate is issued for a CSR", 12, under(textOf("issue-a-certificate.md"), "It is issued")],
  ["certificates are listed with a search", 8, under(textOf("follow-a-request.md"), "Listing")],
];

describe("the tours", () => {
  for (const [story, most, text] of STORIES)
    it(`tell in at most ${most} files how ${story}`, () => {
      const { size } = steps(text);
      assert.ok(size > 3 && size <= most, `${size} files`);
    });
});

describe("the documentation", () => {
  it("names files that exist", () => {
    const missing = docs.flatMap((name) =>
      filesIn(readFileSync(join(ROOT, "docs", name), "utf8"))
        .filter((path) => /^(server|cli|packages|scripts|bench)\//.test(path))
        .filter((path) => !existsSync(join(ROOT, path)))
        .map((path) => `${name}: ${path}`),
    );
    assert.deepEqual(missing, []);
  });

  it("names files by their whole path in the tours", () => {
    const short = readdirSync(TOURS).flatMap((name) =>
      filesIn(textOf(name))
        .filter((path) => !existsSync(join(ROOT, path)))
        .map((path) => `${name}: ${path}`),
    );
    assert.deepEqual(short, []);
  });
});
