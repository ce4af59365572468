import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import fc from "fast-check";
import { readDotenv, writeDotenv } from "./dotenv.ts";
import { FormatError, type FileEntries } from "./entries.ts";
import { readJson, writeJson } from "./json.ts";
import { readYaml, writeYaml } from "./yaml.ts";

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

test("S-44 a .env file says after reading what was said before writing", () => {
  fc.assert(
    fc.property(entriesOf(simpleKey), (entries) => same(readDotenv(writeDotenv(entries)), entries)),
    { numRuns: 2000 },
  );
});

test("S-44 a JSON file says after reading what was said before writing", () => {
  fc.assert(
    fc.property(entriesOf(anyKey), (entries) => {
      const back = readJson(writeJson(entries));
      assert.deepEqual([...back].sort(), [...entries].sort());
    }),
    { numRuns: 1000 },
  );
});

test("S-44 a YAML file says after reading what was said before writing", () => {
  fc.assert(
    fc.property(entriesOf(anyKey), (entries) => same(readYaml(writeYaml(entries)), entries)),
    { numRuns: 2000 },
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
    [readYaml, "A: >\n  hunter2"],
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

test("a .env file that cannot be read is refused with the line, blank lines counted", () => {
  for (const [text, line] of [
    ["oops", 1],
    ["\noops", 2],
    ["\n\n# note\nA=1\noops", 5],
  ] as const)
    assert.throws(() => readDotenv(text), { message: new RegExp(`^Line ${line}: `) }, JSON.stringify(text));
});
