// The tours are read by newcomers: every file they name exists, and their stories stay as short as they promise.
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it, test } from "node:test";
import { ROOT } from "./build.mjs";
import { filesIn, stepsOf, storiesOf } from "./stories.mjs";

const TOURS = join(ROOT, "docs/tours");
const textOf = (name) => readFileSync(join(TOURS, name), "utf8");
const docs = readdirSync(join(ROOT, "docs"), { recursive: true })
  .map(String)
  .filter((name) => name.endsWith(".md"));

test("the files of a story are those of its numbered steps, on continued lines too, each counted once", () => {
  const text =
    "1. `a/b.ts`: one.\n   Goes on in `c/d.ts`\n   and `a/b.ts`.\n2. No file.\n\nAfterwards `e/f.ts`.\n";
  assert.deepEqual([...stepsOf(text)], ["a/b.ts", "c/d.ts"]);
});

for (const { story, most, files, isRight } of storiesOf(ROOT))
  test(`the tours tell in at most ${most} files: ${story}`, () => assert.ok(isRight, `${files} files`));

describe("the documentation", () => {
  it("names files that exist", () => {
    const missing = docs.flatMap((name) =>
      filesIn(readFileSync(join(ROOT, "docs", name), "utf8"))
        .filter((path) => path.includes("/"))
        .filter((path) => !["", "server", "server/src"].some((from) => existsSync(join(ROOT, from, path))))
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
