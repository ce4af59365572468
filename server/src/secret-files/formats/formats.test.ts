import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import fc from "fast-check";
import { parse } from "yaml";
import { readDotenv, writeDotenv } from "./dotenv.ts";
import { FormatError, readInChunks, type FileEntries } from "./entries.ts";
import { readJson, writeJson } from "./json.ts";
import { yamlReading } from "./yaml-reader.ts";
import { readYaml, writeYaml, yamlEntries } from "./yaml.ts";
import { sized } from "../../../test/full-size.ts";

const NASTY = [
  "",
  " ",
  "a b",
  "#",
  "a #b",
  "'",
  '"',
  `'"`,
  "$(touch /tmp/x)",
  "`id`",
  "${HOME}",
  "\\",
  "\\n",
  "line\nbreak",
  "\r\n",
  "\t",
  "=cmd|' /C calc'!A0",
  "{a: b}",
  "- x",
  "yes",
  "0x10",
  "\u2028",
  "ü€😀",
  "key: value",
  "trailing ",
  "'it''s'",
];
const value = fc.oneof(
  fc.constantFrom(...NASTY),
  fc.string({ unit: "binary" }).filter((text) => !text.includes("\0")),
  fc.array(fc.constantFrom(...NASTY)).map((parts) => parts.join("")),
);
const simpleKey = fc.stringMatching(/^[A-Za-z_][A-Za-z0-9_]{0,12}$/);
const anyKey = fc.oneof(
  simpleKey,
  fc.constantFrom("__proto__", "constructor", "no", "with space", "a:b", "#x", "ü", "1", "-"),
);
const entriesOf = (key: fc.Arbitrary<string>): fc.Arbitrary<FileEntries> =>
  fc
    .uniqueArray(fc.tuple(key, value), { selector: ([name]) => name, maxLength: 8 })
    .map((list) => new Map(list));

const same = (a: FileEntries, b: FileEntries) => assert.deepEqual([...a], [...b]);

test("S-44 a .env file survives a round trip", () => {
  fc.assert(
    fc.property(entriesOf(simpleKey), (entries) => same(readDotenv(writeDotenv(entries)), entries)),
    { numRuns: sized(400, 2000) },
  );
});

test("S-44 a JSON file survives a round trip", () => {
  fc.assert(
    fc.property(entriesOf(anyKey), (entries) => {
      const back = readJson(writeJson(entries));
      assert.deepEqual([...back].sort(), [...entries].sort());
    }),
    { numRuns: sized(200, 1000) },
  );
});

test("S-44 a YAML file survives a round trip", () => {
  fc.assert(
    fc.property(entriesOf(anyKey), (entries) => same(readYaml(writeYaml(entries)), entries)),
    { numRuns: sized(400, 2000) },
  );
});

test("S-44 whatever the names and values are, the library reads from our YAML what we wrote", () => {
  const any = fc.string({ unit: "binary", maxLength: 40 });
  const entries = fc
    .uniqueArray(
      fc.tuple(
        fc.oneof(any, anyKey).filter((name) => name !== ""),
        fc.oneof(any, value),
      ),
      {
        selector: ([name]) => name,
        maxLength: 20,
      },
    )
    .map((list) => new Map(list));
  fc.assert(
    fc.property(entries, (all) => {
      same(readYaml(writeYaml(all)), all);
      const byLibrary = parse(writeYaml(all), { mapAsMap: true, schema: "core" }) as Map<string, string>;
      same(new Map(byLibrary), all);
    }),
    { numRuns: 1000 },
  );
});

test("S-44 a shell that sources a .env file takes values without line breaks as they are, and runs nothing", () => {
  const folder = mkdtempSync(join(tmpdir(), "dotenv-"));
  const values = NASTY.filter((text) => !/[\r\n\t]/.test(text));
  const entries = new Map(values.map((text, at) => [`K${at}`, text]));
  writeFileSync(join(folder, "env"), writeDotenv(entries));
  for (const [key, text] of entries) {
    const shown = execFileSync("sh", ["-c", `. ./env; printf %s "$${key}"`], {
      cwd: folder,
      encoding: "utf8",
    });
    assert.equal(shown, text);
  }
  rmSync(folder, { recursive: true });
});

test("what people write by hand is understood", () => {
  assert.deepEqual(
    [...readDotenv('# c\nexport A = 1 # note\r\nB=\'x # y\'\nC="a\\nb" # z\nD=\nE=p#w\nF="two\nlines"\n')],
    [
      ["A", "1"],
      ["B", "x # y"],
      ["C", "a\nb"],
      ["D", ""],
      ["E", "p#w"],
      ["F", "two\nlines"],
    ],
  );
  assert.deepEqual(
    [
      ...readYaml(
        "---\n# c\nA: plain text # note\nB: 'it''s'\nC: \"\\u00fc\\n\"\nD: |\n  two\n  lines\nE: |-\n  one\nF:\nG: |\n\n  if:\n    then\n",
      ),
    ],
    [
      ["A", "plain text"],
      ["B", "it's"],
      ["C", "ü\n"],
      ["D", "two\nlines\n"],
      ["E", "one"],
      ["F", ""],
      ["G", "\nif:\n  then\n"],
    ],
  );
  assert.deepEqual(
    [
      ...readYaml(
        "A: >\n  folded\n  text\n\n  here\nB: two\n  lines\nC: 'quoted\n  lines'\nD:\n  below\nE: null # nothing\nF: 'null'\nG: no\nH: 0x10\nI: |2\n   indented\n...\n# end\n",
      ),
    ],
    [
      ["A", "folded text\nhere\n"],
      ["B", "two lines"],
      ["C", "quoted lines"],
      ["D", "below"],
      ["E", ""],
      ["F", "null"],
      ["G", "no"],
      ["H", "0x10"],
      ["I", " indented\n"],
    ],
  );
  for (const nothing of ["", "---\n", "# only this\n", "{}\n", "--- {} # none\n"])
    assert.equal(readYaml(nothing).size, 0, nothing);
  assert.deepEqual(
    [...readJson('{"A": 1, "B": true}')],
    [
      ["A", "1"],
      ["B", "true"],
    ],
  );
});

test("S-45 hostile files are read or refused in a time that grows with their size", () => {
  const spaces = " ".repeat(300_000);
  const breaks = "\n".repeat(300_000);
  assert.throws(() => readYaml(`A${spaces}x`), FormatError);
  assert.equal(readYaml(`A: |\n  x${breaks}  y\n`).get("A")?.length, 300_003);
  assert.throws(() => readDotenv(`A${spaces}x`), FormatError);
  assert.equal(readDotenv(`A=x${spaces}#`).get("A"), "x");
  assert.equal(readYaml(`A: x${spaces}#`).get("A"), "x");
});

test("what would be a guess is refused, and the message holds no value", () => {
  const files: [(text: string) => FileEntries, string][] = [
    [readDotenv, "hunter2"],
    [readDotenv, "A='hunter2"],
    [readDotenv, "A=1\nA=hunter2"],
    [readDotenv, "A='x'hunter2"],
    [readYaml, "A:\n  B: hunter2"],
    [readYaml, "A: &x hunter2"],
    [readYaml, "A: [hunter2]"],
    [readYaml, "A: b: hunter2"],
    [readYaml, 'A: "hunter2'],
    [readYaml, "A: 1\nA: hunter2"],
    [readYaml, "A: |x\n  hunter2"],
    [readYaml, "A: 'x'hunter2"],
    [readYaml, "A: @hunter2"],
    [readYaml, 'A: "\\hunter2"'],
    [readYaml, "A: !!str hunter2"],
    [readYaml, "A: &x hunter2\nB: *x"],
    [readYaml, "%YAML 1.1\n---\nA: hunter2"],
    [readYaml, "A: 1\n---\nB: hunter2"],
    [readYaml, "{A: hunter2}"],
    [readYaml, "{hunter2}"],
    [readYaml, "- hunter2"],
    [readYaml, "? hunter2\n: 1"],
    [readYaml, "hunter2"],
    [readYaml, ": hunter2"],
    [readYaml, "A: 1\nhunter2"],
    [readYaml, "A: 1\n B: hunter2"],
    [readJson, "{hunter2"],
    [readJson, '["hunter2"]'],
    [readJson, '{"A": {"b": "hunter2"}}'],
  ];
  for (const [read, text] of files) {
    assert.throws(
      () => read(text),
      (error: unknown) => error instanceof FormatError && !error.message.includes("hunter2"),
      text,
    );
  }
});

test("a small YAML file is read in small steps, and nothing of it behind its first fault", () => {
  const lines = Array.from({ length: 700 }, (_, n) => `K${n}: 1`).join("\n");
  let rests = 0;
  for (const entry of yamlReading(lines)) {
    if (entry !== undefined) break;
    rests += 1;
  }
  assert.ok(rests > 20, `${rests} rests before the first entry`);
  for (const text of ["{".repeat(8000), "{A: x}", "{\n{}", "{"])
    assert.throws(() => readYaml(text), { message: /^Line \d: only one flat list/ }, text.slice(0, 9));
  assert.equal(readYaml("{ }\n# nothing\n").size, 0);
});

test("a refusal of a YAML file names the line and the rule", () => {
  const refusals: readonly (readonly [string, string])[] = [
    ["A: 1\n\nB: |\n  x\n  y\nC: [z]\n", "Line 6: only one flat list of names and values is understood"],
    ["A: 1\nB:\n  C: 2\n", "Line 2: only one flat list of names and values is understood"],
    ['A: 1\nB: "\\q"\n', "Line 2: an escape that YAML does not know"],
    ["A: 1\r\nB: x: y\r\n", "Line 2: a colon inside a bare value; put the value between quotes"],
    ["A: 1\nB: 2\nA: 3\n", "Line 3: a name appears twice"],
    ["A: 1\nB: 'x\n", "Line 2: a quote is not closed or a colon is missing"],
    ["A: 1\n\tB: 1\n", "Line 2: this is not valid YAML (tab as indent)"],
    ["\uFEFFA: 1\n---\nB: 1\n", "Line 2: only one document is understood"],
  ];
  for (const [text, message] of refusals)
    assert.throws(() => readYaml(text), { name: "FormatError", message });
});

test("S-45 a YAML file that nests without end is refused, and whoever reads it lives on", async () => {
  const ladder = Array.from({ length: 2000 }, (_, depth) => `${" ".repeat(depth)}a:`).join("\n");
  const deep = ["{", "- ", "? ", "a: ", "{a: ", "!!x ", "&a ", "[{"].map((part) => part.repeat(2000));
  for (const text of [...deep, ladder, "[".repeat(1024 * 1024)])
    await assert.rejects(() => readInChunks(yamlEntries(text, "o"), 5000), FormatError, text.slice(0, 10));
});

test("a large YAML file is read on a thread of its own, and says the same", async () => {
  const entries = new Map(
    Array.from({ length: 800 }, (_, n) => [`K${n}`, `${NASTY[n % NASTY.length] ?? ""}${n}`]),
  );
  const text = writeYaml(entries);
  assert.ok(text.length > 8 * 1024);
  same(await readInChunks(yamlEntries(text, "o"), 5000), entries);
  await assert.rejects(() => readInChunks(yamlEntries(`${text}K7: hunter2\n`, "o"), 5000), {
    message: "Line 801: a name appears twice",
  });
});

test("a .env file that cannot be read is refused with the line, blank lines counted", () => {
  for (const [text, line] of [
    ["oops", 1],
    ["\noops", 2],
    ["\n\n# note\nA=1\noops", 5],
  ] as const)
    assert.throws(() => readDotenv(text), { message: new RegExp(`^Line ${line}: `) }, JSON.stringify(text));
});
