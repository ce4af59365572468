import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  ALLOWANCE,
  Expander,
  findEffective,
  MAX_REFERENCES,
  parseReference,
  referencesIn,
  type FoundReference,
  type Readable,
  type SecretAddress,
  type SecretLookup,
} from "./model.ts";
import { sized } from "../../../test/full-size.ts";

const KEYS = ["A", "B", "C"];
const FOLDERS = ["/x", "/y", "/z", "/x/y"];
const PROJECT = "p";

interface Tree {
  /** folder → key → value */
  readonly secrets: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly imports: Readonly<Record<string, readonly string[]>>;
  /** What the reader may not read: `folder key`. */
  readonly closed: ReadonlySet<string>;
}

const spot = (path: string): SecretAddress => ({ projectId: PROJECT, environmentId: "e", path });
const idOf = (path: string, key: string) => `${path} ${key}`;

function worldOf(tree: Tree): SecretLookup {
  return {
    environmentId: (_project, slug) => (slug === "e" ? "e" : null),
    own({ path }, key): FoundReference {
      const value = tree.secrets[path]?.[key];
      if (value === undefined || tree.closed.has(idOf(path, key))) return "absent";
      return { id: idOf(path, key), key, spot: spot(path), value };
    },
    imports: ({ path }) => (tree.imports[path] ?? []).map(spot),
  };
}

/** The rules of docs/secret-resolution.md, word by word and without any memory. */
function slowFind(tree: Tree, path: string, key: string, trail: readonly string[] = []): string | null {
  const value = tree.secrets[path]?.[key];
  if (value !== undefined && !tree.closed.has(idOf(path, key))) return path;
  for (const source of tree.imports[path] ?? []) {
    if (trail.includes(source) || source === path) continue;
    const found = slowFind(tree, source, key, [...trail, path]);
    if (found !== null) return found;
  }
  return null;
}

function slowExpand(tree: Tree, path: string, key: string, trail: readonly string[]): string {
  const value = tree.secrets[path]?.[key] ?? "";
  let text = "";
  let rest = value;
  for (;;) {
    const from = rest.indexOf("${");
    const to = from < 0 ? -1 : rest.indexOf("}", from);
    if (from < 0 || to < 0) return text + rest;
    const inner = rest.slice(from + 2, to);
    text += rest.slice(0, from) + slowFollow(tree, path, inner, trail);
    rest = rest.slice(to + 1);
  }
}

function slowFollow(tree: Tree, path: string, inner: string, trail: readonly string[]): string {
  const parts = inner.split(".");
  const key = parts.at(-1) ?? "";
  if (parts.length > 1 && parts[0] !== "e") return `\${${inner}}`;
  const folder = parts.length === 1 ? path : `/${parts.slice(1, -1).join("/")}`;
  const home = slowFind(tree, folder, key);
  if (home === null || trail.includes(idOf(home, key))) return `\${${inner}}`;
  return slowExpand(tree, home, key, [...trail, idOf(home, key)]);
}

const reference = fc.oneof(
  fc.constantFrom(...KEYS),
  fc
    .tuple(fc.constantFrom("e", "none"), fc.constantFrom("x", "y", "z", "x.y"), fc.constantFrom(...KEYS))
    .map((parts) => parts.join(".")),
);
const value = fc
  .array(
    fc.oneof(
      fc.constantFrom("-", "text", "$", "{"),
      reference.map((inner) => `\${${inner}}`),
    ),
    { maxLength: 3 },
  )
  .map((parts) => parts.join("").replaceAll("{$", "$"));
const trees: fc.Arbitrary<Tree> = fc.record({
  secrets: fc.dictionary(fc.constantFrom(...FOLDERS), fc.dictionary(fc.constantFrom(...KEYS), value)),
  imports: fc.dictionary(
    fc.constantFrom(...FOLDERS),
    fc.uniqueArray(fc.constantFrom(...FOLDERS), { maxLength: 3 }),
  ),
  closed: fc
    .array(
      fc.tuple(fc.constantFrom(...FOLDERS), fc.constantFrom(...KEYS)).map(([path, key]) => idOf(path, key)),
    )
    .map((list) => new Set(list)),
});

test("a key is found where the slow rules find it", () => {
  fc.assert(
    fc.property(trees, fc.constantFrom(...FOLDERS), fc.constantFrom(...KEYS), (tree, path, key) => {
      const found = findEffective(worldOf(tree), spot(path), key);
      assert.equal(found === "absent" ? null : (found as Readable).spot.path, slowFind(tree, path, key));
    }),
    { numRuns: sized(400, 2000) },
  );
});

test("a value expands to what the slow rules expand it to, cycles and unreadable secrets included", () => {
  fc.assert(
    fc.property(trees, (tree) => {
      const expander = new Expander(worldOf(tree));
      for (const [path, secrets] of Object.entries(tree.secrets)) {
        for (const [key, text] of Object.entries(secrets)) {
          if (tree.closed.has(idOf(path, key))) continue;
          const fast = expander.expand({ id: idOf(path, key), key, spot: spot(path), value: text });
          assert.equal(fast, slowExpand(tree, path, key, [idOf(path, key)]));
        }
      }
    }),
    { numRuns: sized(400, 2000) },
  );
});

test("a chain that doubles at every step stays bounded", () => {
  const secrets: Record<string, string> = { K0: "x".repeat(1000) };
  for (let at = 1; at < 60; at += 1) secrets[`K${at}`] = `\${K${at - 1}}\${K${at - 1}}`;
  const tree: Tree = { secrets: { "/x": secrets }, imports: {}, closed: new Set() };
  const text = new Expander(worldOf(tree)).expand({
    id: "/x K59",
    key: "K59",
    spot: spot("/x"),
    value: secrets["K59"] ?? "",
  });
  assert.ok(text.length <= 1024 * 1024);
});

test("what stands between braces is a reference or plain text", () => {
  assert.deepEqual(parseReference("KEY"), { environment: null, path: null, key: "KEY" });
  assert.deepEqual(parseReference("dev.KEY"), { environment: "dev", path: "/", key: "KEY" });
  assert.deepEqual(parseReference(" dev.a.b.KEY "), { environment: "dev", path: "/a/b", key: "KEY" });
  for (const text of ["", ".", "a..b", "dev.a/b.KEY", "dev.ü.KEY", "x".repeat(2000)])
    assert.equal(parseReference(text), null, text);
  assert.equal(referencesIn("${A} ${ ${B} $C {D} ${E").length, 2);
});

test("however many values refer to a large one, together they grow by a bounded number of characters", () => {
  const big = "x".repeat(900_000);
  const secrets: Record<string, string> = { BIG: big };
  for (let at = 0; at < 100; at += 1) secrets[`R${at}`] = "${BIG}";
  const tree: Tree = { secrets: { "/x": secrets }, imports: {}, closed: new Set() };
  const expander = new Expander(worldOf(tree));
  const texts = Object.entries(secrets).map(([key, text]) =>
    expander.expand({ id: idOf("/x", key), key, spot: spot("/x"), value: text }),
  );
  const expanded = texts.slice(1).filter((text) => text === big).length;
  assert.equal(expanded, Math.floor(ALLOWANCE.characters / big.length));
  assert.equal(texts.filter((text) => text === "${BIG}").length, 100 - expanded);
  assert.ok(expander.left.characters >= 0);
});

test("once no steps are left nothing is looked up any more", () => {
  const value = Array.from({ length: 50 }, (_, n) => `\${MISSING_${n}}`).join("");
  let looks = 0;
  const world = worldOf({ secrets: {}, imports: {}, closed: new Set() });
  const counting: SecretLookup = { ...world, own: (at, key) => ((looks += 1), world.own(at, key)) };
  const expander = new Expander(counting, { ...ALLOWANCE, steps: 10 });
  assert.equal(expander.expand({ id: "a", key: "A", spot: spot("/x"), value }), value);
  assert.equal(looks, 10);
});

test("references of a value are listed once each, and only as many as show that they are too many", () => {
  assert.deepEqual(
    referencesIn("${A}${A} ${ A }${dev.A}${dev.A}").map(({ environment, key }) => [environment, key]),
    [
      [null, "A"],
      ["dev", "A"],
    ],
  );
  assert.equal(referencesIn("${A}".repeat(200_000)).length, 1);
  const many = Array.from({ length: 5000 }, (_, n) => `\${K${n}}`).join("");
  assert.equal(referencesIn(many).length, MAX_REFERENCES + 1);
});
