import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { isCanonicalPath } from "../permissions/index.ts";
import {
  canonicalPath,
  isWithin,
  joinPath,
  MAX_DEPTH,
  MAX_PATH_LENGTH,
  namesOf,
  parentOf,
  secretName,
} from "./paths.contract.ts";
import { sized } from "../../test/full-size.ts";

const piece = fc.oneof(
  fc.constantFrom(
    "/",
    "//",
    ".",
    "..",
    "a",
    "B",
    "_",
    "-",
    "%2f",
    "%2e",
    "%252e",
    "\\",
    "\0",
    " ",
    "\u2024",
    "\uff0f",
    "\u0430",
    "\u200b",
    "\u202e",
    "a/../b",
    "ﬀ",
  ),
  fc.string({ unit: "binary", maxLength: 4 }),
  fc.stringMatching(/^[A-Za-z0-9_-]{1,12}$/),
);
const texts = fc.array(piece, { maxLength: 12 }).map((parts) => parts.join(""));

/** The rule as one would say it: names of plain letters, digits, - and _, between slashes. */
function slowly(text: string): string | null {
  if (text.length > MAX_PATH_LENGTH) return null;
  const names = text.split("/").filter((name) => name.length > 0);
  if (names.length > MAX_DEPTH || names.some((name) => !/^[A-Za-z0-9_-]{1,255}$/.test(name))) return null;
  return `/${names.join("/")}`;
}

test("S-23 any text is either refused or becomes the canonical spelling that permissions check", () => {
  fc.assert(
    fc.property(texts, (text) => {
      const result = canonicalPath(text);
      assert.equal(result.ok ? result.path : null, slowly(text));
      if (!result.ok) return;
      assert.ok(isCanonicalPath(result.path));
      assert.deepEqual(canonicalPath(result.path), result);
      assert.deepEqual(canonicalPath(`${result.path}/`), result);
      assert.equal(namesOf(result.path).reduce(joinPath, "/"), result.path);
    }),
    { numRuns: sized(1000, 5000) },
  );
});

test("a folder is within its parents and in nothing that merely begins alike", () => {
  assert.ok(isWithin("/a/b", "/a") && isWithin("/a", "/a") && isWithin("/a", "/"));
  assert.ok(!isWithin("/ab", "/a") && !isWithin("/", "/a"));
  assert.deepEqual([parentOf("/a/b"), parentOf("/a"), parentOf("/")], ["/a", "/", "/"]);
});

test("bounds hold: 512 characters, 32 folders", () => {
  assert.ok(canonicalPath(`/${"a/".repeat(MAX_DEPTH)}`).ok);
  assert.ok(!canonicalPath(`/${"a/".repeat(MAX_DEPTH + 1)}`).ok);
  assert.ok(canonicalPath(`/${"a".repeat(255)}/${"b".repeat(255)}`).ok);
  assert.ok(!canonicalPath(`/${"a".repeat(255)}/${"b".repeat(255)}/c`).ok);
});

test("a secret's name may hold what people use and nothing that breaks a line or a path", () => {
  for (const name of ["A", "a.b-c_d", "with space", "ü", "A:B"])
    assert.ok(secretName.safeParse(name).success, name);
  for (const name of ["", " ", "a/b", "a\nb", "a\u2028b", "a\0", "x".repeat(256)])
    assert.ok(!secretName.safeParse(name).success, JSON.stringify(name));
});
