// What each test file runs and how long it takes, learnt by running it once under V8's coverage. The map lasts as long as
// the test file stays as it is.
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { compiledPath, digest } from "./workspaces.mjs";

/** Nobody knows how long a test takes that is not on the map. */
export const UNKNOWN_MS = 30_000;

/** What one test file executed: `{ "server/dist/src/x.js": { hash, ran: [from, to, from, to, …] } }`. */
function executedIn(folder, root, isWanted) {
  const painted = new Map();
  for (const name of readdirSync(folder)) {
    let result;
    try {
      ({ result } = JSON.parse(readFileSync(join(folder, name), "utf8")));
    } catch {
      continue; // a process that was killed while it wrote
    }
    for (const { url, functions } of result.filter((each) => each.url.startsWith("file:"))) {
      const path = relative(root, fileURLToPath(url));
      if (isWanted(path)) paint(painted, { path, text: readFileSync(join(root, path), "utf8"), functions });
    }
  }
  return Object.fromEntries(
    [...painted].map(([path, { hash, bytes }]) => [path, { hash, ran: rangesOf(bytes) }]),
  );
}

function paint(painted, { path, text, functions }) {
  const own = new Uint8Array(text.length);
  // Outer functions come before inner ones, and so do the ranges within a function. What runs when the file is loaded
  // says nothing: the first function is the file itself.
  const [, ...inner] = functions;
  for (const { ranges } of inner)
    for (const { startOffset, endOffset, count } of ranges)
      own.fill(count > 0 ? 1 : 0, startOffset, endOffset);
  const before = painted.get(path);
  if (before === undefined) painted.set(path, { hash: digest(text), bytes: own });
  else for (let at = 0; at < own.length; at += 1) before.bytes[at] |= own[at];
}

export function rangesOf(bytes) {
  const ranges = [];
  for (let at = 0; at < bytes.length; at += 1) if (bytes[at] !== (bytes[at - 1] ?? 0)) ranges.push(at);
  if (ranges.length % 2 === 1) ranges.push(bytes.length);
  return ranges;
}

/** `entries`: `{ hash, ms, files }` by test file. */
export class TestMap {
  #file;
  #workspaces;
  entries = {};

  constructor({ file, workspaces }) {
    [this.#file, this.#workspaces] = [file, workspaces];
    mkdirSync(dirname(file), { recursive: true });
    if (existsSync(file)) this.entries = JSON.parse(readFileSync(file, "utf8"));
  }

  /** Those that are not on it as they are now; what is no test any more is forgotten. */
  unknownAmong(tests, { folder }) {
    for (const test of Object.keys(this.entries)) if (!tests.includes(test)) delete this.entries[test];
    return tests.filter((test) => this.entries[test]?.hash !== this.#hashOf(test, folder));
  }

  /** Runs a test file, and learns from it if it is green: only what ran to its end says what it runs. */
  async learn(test, lane, options) {
    const into = mkdtempSync(join(tmpdir(), "keyward-coverage-"));
    const told = await lane.run(test, { ...options, env: { NODE_V8_COVERAGE: into } });
    if (told.isGreen) {
      const files = executedIn(into, lane.folder, (path) => this.#isSource(path));
      this.entries[test] = { hash: this.#hashOf(test, lane.folder), ms: told.ms, files };
      writeFileSync(`${this.#file}.new`, JSON.stringify(this.entries));
      renameSync(`${this.#file}.new`, this.#file);
    }
    rmSync(into, { recursive: true, force: true });
    return told;
  }

  #hashOf(test, folder) {
    return digest(readFileSync(join(folder, compiledPath(this.#workspaces, test)), "utf8"));
  }

  #isSource(path) {
    const isOurs = this.#workspaces.some(({ folder }) => path.startsWith(`${folder}/dist/`));
    return isOurs && !/\/dist\/test\/|\.test\.js$/.test(path);
  }
}
