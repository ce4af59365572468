// The mutants are what they are called, the same seed draws the same ones, and an equivalent one is known again.
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it, test } from "node:test";
import { ROOT } from "./build.mjs";
import { segmentsOf, testsFor, testsNear } from "./mutants/coverage.mjs";
import { equivalentOf, readEquivalents, staleAmong } from "./mutants/equivalents.mjs";
import { compiled, mutated, placesIn } from "./mutants/places.mjs";
import { differenceOf, figuresOf, tableOf, unnoticed } from "./mutants/report.mjs";
import { named, roomOf, sampleOf, shares } from "./mutants/sample.mjs";
import { rangesOf } from "./mutants/test-map.mjs";
import { sqlEdits } from "./mutants/sql-edits.mjs";
import { compiledPath, workspacesOf } from "./mutants/workspaces.mjs";

/** Every mutant of a text, by kind, as the whole changed text. */
const changes = (text) =>
  placesIn("server/src/room/model.ts", text).map((place) => [place.kind, mutated(text, place)]);
const inFunction = (body) => `function decide(a, b) { ${body} }`;

describe("a mutant", () => {
  const cases = [
    ["border", "return a < b;", "return a <= b;"],
    ["border", "return a >= b;", "return a > b;"],
    ["equality", "return a === b;", "return a !== b;"],
    ["equality", "return a !== b;", "return a === b;"],
    ["logic", "return a && b;", "return a || b;"],
    ["negation", "return !a;", "return a;"],
    ["arithmetic", "return a - b;", "return a + b;"],
    ["arithmetic", "a += b;", "a -= b;"],
    ["count", "return a(0);", "return a(1);"],
    ["flag", "return a(true);", "return a(false);"],
    ["default", "return a ?? b;", "return a;"],
    ["default", "const { c = b } = a;", "const { c } = a;"],
    ["array", "return a.some(b);", "return a.every(b);"],
    ["array", "return a.filter(b);", "return a;"],
    ["call", "await a.audit(b);", "{}"],
    ["throw", "if (a) throw b;", "if (a) {}"],
    ["return", "if (a) return; b();", "if (a) {} b();"],
  ];
  for (const [kind, before, after] of cases)
    it(`of ${kind}: ${before} becomes ${after}`, () =>
      assert.ok(
        changes(inFunction(before)).some(([each, text]) => each === kind && text === inFunction(after)),
        JSON.stringify(changes(inFunction(before))),
      ));

  const untouched = [
    ["types", "type Small = 1 | 2; interface Pair { readonly is: true; }"],
    ["log texts", inFunction("if (a > 1) this.#needs.log.warn({ a }, 'said');")],
    ["joined text", inFunction("return 'a' + b;")],
    ["descriptions", "export const e = endpoint({ description: a(1), example: { count: 3, is: true } });"],
    ["tuned figures", "const WAIT_MS = 30_000; const LONG = 101;"],
    ["a value the compiler asks for", inFunction("const last = a[b] ?? 0;")],
    ["the last return", inFunction("return a;")],
    ["names of methods everybody has", inFunction("return a.toString(b);")],
  ];
  for (const [what, text] of untouched) it(`leaves ${what} alone`, () => assert.deepEqual(changes(text), []));
});

describe("a mutant of SQL", () => {
  const edited = (text) => sqlEdits(text).map(({ kind, ...edit }) => [kind, mutated(text, edit)]);
  const cases = [
    ["sql-clause", "SELECT 1 FROM t WHERE a = $1 AND b = $2::uuid", "SELECT 1 FROM t WHERE a = $1"],
    ["sql-clause", "WHERE a = $1 AND b IS NULL ORDER", "WHERE a = $1 ORDER"],
    ["sql-border", "DELETE FROM t WHERE at < $1", "DELETE FROM t WHERE at <= $1"],
    ["sql-lock", "SELECT id FROM t FOR UPDATE OF t SKIP LOCKED", "SELECT id FROM t"],
    ["sql-order", "SELECT id FROM t ORDER BY at DESC", "SELECT id FROM t ORDER BY at ASC"],
    ["sql-order", "SELECT id FROM t ORDER BY id LIMIT 1", "SELECT id FROM t ORDER BY id DESC LIMIT 1"],
    ["sql-null", "SELECT id FROM t WHERE a IS NULL", "SELECT id FROM t WHERE a IS NOT NULL"],
    ["sql-conflict", "INSERT INTO t VALUES ($1) ON CONFLICT (id) DO NOTHING", "INSERT INTO t VALUES ($1)"],
    ["sql-join", "SELECT 1 FROM t LEFT JOIN u ON u.id = t.id", "SELECT 1 FROM t JOIN u ON u.id = t.id"],
    ["sql-exists", "SELECT 1 WHERE NOT EXISTS (SELECT 1)", "SELECT 1 WHERE EXISTS (SELECT 1)"],
  ];
  for (const [kind, before, after] of cases)
    it(`of ${kind}: ${after}`, () =>
      assert.ok(
        edited(before).some(([each, text]) => each === kind && text === after),
        JSON.stringify(edited(before)),
      ));
  it("is found in pieces of templates", () =>
    assert.deepEqual(
      changes("const one = sql(`SELECT ${ALL} FROM t WHERE id = $1 AND org_id = $2`);").map(([kind]) => kind),
      ["sql-clause"],
    ));
  it("is not made of sentences", () => assert.deepEqual(edited("Rights AND duties are > 3."), []));
});

describe("the sample", () => {
  const file = (path, functions) => {
    const text = Array.from(
      { length: functions },
      (_, n) => `function f${n}(a) { return a < ${n} && a > 7; }`,
    ).join("\n");
    return { path, lines: functions, places: placesIn(path, text) };
  };
  const files = [
    file("server/src/alerts/model.ts", 40),
    file("server/src/roles/model.ts", 20),
    file("cli/src/main.ts", 20),
  ];
  const ids = (of, seed) => sampleOf(of, { seed, count: 20 }).map(({ id }) => id);

  it("is the same for the same seed and another for another", () => {
    assert.deepEqual(ids(files, 1), ids(files, 1));
    assert.notDeepEqual(ids(files, 1), ids(files, 2));
  });
  it("is spread by lines, with at most one of a function", () => {
    const drawn = sampleOf(files, { seed: 1, count: 20 });
    const of = (room) => drawn.filter((place) => place.room === room).length;
    assert.deepEqual([of("alerts"), of("roles"), of("cli")], [10, 5, 5]);
    assert.equal(new Set(drawn.map(({ path, owner }) => path + owner)).size, 20);
  });
  it("stays when a room's file is moved within it", () =>
    assert.deepEqual(
      new Set(ids([file("server/src/alerts/decisions/model.ts", 40), ...files.slice(1)], 1)),
      new Set(ids(files, 1)),
    ));
  it("gives the seats that are left to the largest remainders", () =>
    assert.deepEqual(
      Object.fromEntries(
        shares(
          new Map([
            ["a", 5],
            ["b", 3],
            ["c", 2],
          ]),
          4,
        ),
      ),
      { a: 2, b: 1, c: 1 },
    ));
  it("knows rooms and packages", () =>
    assert.deepEqual(
      [
        "server/src/secrets/tags/model.ts",
        "server/src/main.ts",
        "server/src/alerts/x/y.ts",
        "packages/x509/src/der.ts",
      ].map(roomOf),
      ["secrets/tags", "server", "alerts", "packages/x509"],
    ));
  it("names two equal places apart", () => {
    const twice = placesIn("cli/src/main.ts", inFunction("a(!b); a(!b);"));
    assert.equal(new Set(named(twice).map(({ id }) => id)).size, twice.length);
  });
});

describe("tests for a mutant", () => {
  it("are the nearest first", () => {
    const tests = [
      "server/test/tenancy.test.ts",
      "server/src/a/c/d.test.ts",
      "server/src/a/x.test.ts",
      "server/src/a/b.test.ts",
    ];
    const near = testsNear({ path: "server/src/a/b.ts" }, tests).map(({ test }) => test);
    assert.deepEqual(near, ["server/src/a/b.test.ts", "server/src/a/x.test.ts", "server/src/a/c/d.test.ts"]);
  });
  it("are found through source maps", () =>
    assert.deepEqual(segmentsOf("AAAA,SAAS;AACT"), [
      [0, 0, 0, 0],
      [0, 9, 0, 9],
      [1, 0, 1, 0],
    ]));
  it("know what ran", () => assert.deepEqual(rangesOf(Uint8Array.from([0, 1, 1, 0, 1])), [1, 3, 4, 5]));
  it("meet a statement of SQL where a function uses it", () => {
    const path = "server/src/roles/store.ts";
    const workspaces = workspacesOf(ROOT);
    const text = readFileSync(join(ROOT, path), "utf8");
    const mutant = placesIn(path, text).find((place) => place.constant !== undefined && !place.isInFunction);
    const target = compiledPath(workspaces, path);
    const entry = (ran) => ({ ms: 1, files: { [target]: { hash: "changed since", ran } } });
    const map = {
      "server/src/roles/loads.test.ts": entry([]),
      "server/src/roles/uses.test.ts": entry([0, 1]),
    };
    const found = testsFor(mutant, { map, folder: ROOT, workspaces, sources: new Map([[path, text]]) });
    assert.deepEqual(
      found.map(({ test }) => test),
      ["server/src/roles/uses.test.ts"],
    );
  });
});

describe("what is compiled for a mutant", () => {
  it("is what the build writes", () => {
    const workspaces = workspacesOf(ROOT);
    const path = "server/src/roles/store.ts";
    const target = join(ROOT, compiledPath(workspaces, path));
    assert.ok(existsSync(target));
    const built = readFileSync(target, "utf8").replace(/\/\/# sourceMappingURL.*\s*/, "");
    assert.equal(compiled(path, readFileSync(join(ROOT, path), "utf8")).trim(), built.trim());
  });
  it("is nothing when it does not parse", () => assert.equal(compiled("a.ts", "const = ;"), undefined));
});

describe("an equivalent mutant", () => {
  const [place] = placesIn("server/src/roles/model.ts", "\n\nconst isSmall = (a) =>\n  a < 7;");
  const entry = { file: "roles/model.ts", line: "a < 7;", before: "<", after: "<=", reason: "never 7" };
  it("is known by what the code says, on whatever line", () => {
    assert.equal(equivalentOf([entry], place), entry);
    assert.equal(equivalentOf([{ ...entry, after: ">" }], place), undefined);
    assert.equal(equivalentOf([{ ...entry, file: "model.ts" }], place)?.line, entry.line);
  });
  it("is reported when nothing fits it any more", () => {
    assert.deepEqual(staleAmong([entry], [place]), []);
    assert.deepEqual(staleAmong([entry], []), [entry]);
  });
  it("has a reason and fits a place of the source", () => {
    for (const { file, line, reason } of readEquivalents()) assert.ok(reason.length > 20, `${file}: ${line}`);
  });
});

describe("the report", () => {
  const results = ["killed", "late", "survived", "unmet", "equivalent"].map((status) => ({
    room: "roles",
    status,
  }));
  it("takes the share of those that somebody could notice", () => {
    assert.equal(figuresOf(results).share, 50);
    assert.match(tableOf(results), /\| roles \| 5 \| 2 \| 1 \| 1 \| 1 \| 1 \| 50 % \|/);
    assert.equal(unnoticed(results).length, 2);
  });
  it("shows a change as a review would", () => {
    const text = "a();\nb(1);\nc();";
    const place = { start: 7, end: 8, after: "2", path: "x.ts", line: 2 };
    assert.equal(differenceOf(text, place), "x.ts:2\n- b(1);\n+ b(2);");
  });
});

test("every equivalent names a line that its file has", () => {
  const sources = ["server", "cli", "packages"].flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true })
      .map((name) => `${folder}/${String(name)}`)
      .filter((path) => /\/src\/.*\.ts$/.test(path) && !/node_modules|\/dist\/|\.test\.ts$/.test(path)),
  );
  const stale = readEquivalents().filter(
    ({ file, line }) =>
      !sources
        .filter((path) => `/${path}`.endsWith(`/${file}`))
        .some((path) =>
          readFileSync(join(ROOT, path), "utf8")
            .split("\n")
            .some((text) => text.trim() === line),
        ),
  );
  assert.deepEqual(
    stale.map(({ file, line }) => `${file}: ${line}`),
    [],
  );
});
