/** H2: whatever a file holds, parsing it yields to other requests; measured in CPU time of the parsing thread. */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { dotenvEntries } from "./dotenv.ts";
import { readInChunks, type EntriesToCome, type EntryReading } from "./entries.ts";
import { jsonEntries } from "./json.ts";
import { yamlEntries } from "./yaml.ts";

const OWN_THREAD = `/proc/${process.pid}/task/${process.pid}/schedstat`;
const processorTime = (): number => Number(readFileSync(OWN_THREAD, "utf8").split(" ")[0]) / 1e6;

const BAR_MS = 50;
const ROUNDS = 5;
const MB = 1024 * 1024;
const MOST = 5000;

/** The longest that the thread worked between two turns of the event loop. */
async function longest(work: () => Promise<unknown>): Promise<number> {
  let [most, last, isOver] = [0, processorTime(), false];
  const watch = (): void => {
    const now = processorTime();
    most = Math.max(most, now - last);
    last = now;
    if (!isOver) setImmediate(watch);
  };
  setImmediate(watch);
  await work().catch(() => undefined);
  await new Promise((resolve) => setImmediate(resolve));
  isOver = true;
  return most;
}

const many = Array.from({ length: 700_000 }, (_, n) => `K${n}`);
interface Case {
  readonly read: (text: string, orgId: string) => EntryReading | EntriesToCome;
  readonly text: string;
}
const CASES: Readonly<Record<string, Case>> = {
  "blank lines": { read: dotenvEntries, text: "\n".repeat(8 * MB) },
  comments: { read: dotenvEntries, text: "#x\n".repeat(2 * MB) },
  "a name too many, many times": { read: dotenvEntries, text: many.map((key) => `${key}=1`).join("\n") },
  "one long quote": { read: dotenvEntries, text: `A="${"x".repeat(8 * MB)}"` },
  "one long quote of escapes": { read: dotenvEntries, text: `A="${"\\n".repeat(4 * MB)}"` },
  "a long quote of line breaks": { read: dotenvEntries, text: `A="${"\n".repeat(8 * MB)}"` },
  "a quote of line breaks that is taken": { read: dotenvEntries, text: `A='${"\n".repeat(MB - 10)}'` },
  "a quote of escapes that is taken": { read: dotenvEntries, text: `A="${"\\n".repeat(MB - 10)}"` },
  "a quote of line breaks that is not closed": { read: dotenvEntries, text: `A="${"\n".repeat(MB)}` },
  "YAML escapes that are taken": { read: yamlEntries, text: `A: "${"\\n".repeat(MB - 10)}"` },
  "YAML quotes that are taken": { read: yamlEntries, text: `A: '${"''".repeat(MB - 10)}'` },
  "one long line": { read: dotenvEntries, text: `A=${" ".repeat(8 * MB)}x` },
  "signs that begin no comment's end": { read: dotenvEntries, text: `A=${" #".repeat(MB / 2)}\u2028x` },
  "signs and a carriage return": { read: dotenvEntries, text: `A=${" #".repeat(MB / 2)}\rx` },
  "a long value that is taken": { read: dotenvEntries, text: `A="${"x".repeat(MB - 10)}"` },
  "signs in YAML": { read: yamlEntries, text: `A: x${" #".repeat(MB / 2)}\u2028x` },
  "blank YAML": { read: yamlEntries, text: "\n".repeat(8 * MB) },
  "a long YAML block": { read: yamlEntries, text: `A: |\n${" x\n".repeat(2 * MB)}` },
  "a blank YAML block": { read: yamlEntries, text: `A: |\n${"\n".repeat(8 * MB)}` },
  "YAML brackets": { read: yamlEntries, text: `A: ${"[".repeat(8 * MB - 3)}` },
  "YAML of many names": { read: yamlEntries, text: many.map((key) => `${key}: 1`).join("\n") },
  "YAML of as many names as are looked at": {
    read: yamlEntries,
    text: many
      .slice(0, 10_000)
      .map((key) => `${key}: "${"x".repeat(100)}"`)
      .join("\n"),
  },
  "YAML that is read at once": { read: yamlEntries, text: "A:\n".repeat(2048) + "\n".repeat(2048) },
  "a YAML line": { read: yamlEntries, text: `A: "x"${" ".repeat(8 * MB)}x` },
  "JSON of many names": { read: jsonEntries, text: `{${many.map((key) => `"${key}":""`).join(",")}}` },
  "JSON of quotes": { read: jsonEntries, text: `{"A":"${'\\"'.repeat(4 * MB)}"}` },
};

for (const [what, { read, text }] of Object.entries(CASES)) {
  test(`H2 ${what}`, { skip: !existsSync(OWN_THREAD) }, async () => {
    let least = Number.POSITIVE_INFINITY;
    for (let round = 0; round < ROUNDS && least >= BAR_MS; round += 1)
      least = Math.min(least, await longest(() => readInChunks(read(text, "o"), MOST)));
    assert.ok(least < BAR_MS, `${least.toFixed(1)} ms of processor time in one go`);
  });
}
