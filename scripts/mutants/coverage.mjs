// Which test file runs which code, learnt once by running each of them under V8's coverage. The map lasts as long as a
// test and what it runs stay as they are; a file that changed since is looked up as a whole.
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { usesIn } from "./places.mjs";
import { compiledPath, digest } from "./workspaces.mjs";

const BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

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

const ranAt = (ranges, offset) => {
  for (let at = 0; at < ranges.length; at += 2)
    if (ranges[at] <= offset && offset < ranges[at + 1]) return true;
  return false;
};

/** Source maps name places by steps in base 64: [compiled line, compiled column, source line, source column] of each. */
export function segmentsOf(mappings) {
  const segments = [];
  const sum = [0, 0, 0, 0]; // column, source, line, column
  mappings.split(";").forEach((line, compiledLine) => {
    sum[0] = 0;
    for (const segment of line.split(",").filter(Boolean)) {
      stepsOf(segment).forEach((step, at) => (sum[at] += step));
      segments.push([compiledLine, sum[0], sum[2], sum[3]]);
    }
  });
  return segments;
}

function stepsOf(segment) {
  const steps = [];
  let [value, shift] = [0, 0];
  for (const letter of segment) {
    const digit = BASE64.indexOf(letter);
    value += (digit & 31) << shift;
    shift += 5;
    if (digit & 32) continue;
    steps.push(value & 1 ? -(value >> 1) : value >> 1);
    [value, shift] = [0, 0];
  }
  return steps;
}

const startsOfLines = (text) => [0, ...[...text.matchAll(/\n/g)].map(({ index }) => index + 1)];

/** From an offset in a source to the offset in what it compiled to. */
function offsetsIn(path, { folder, workspaces, sources }) {
  const target = compiledPath(workspaces, path);
  const compiled = readFileSync(join(folder, target), "utf8");
  const { mappings } = JSON.parse(readFileSync(join(folder, `${target}.map`), "utf8"));
  const sourceLines = startsOfLines(sources.get(path));
  const compiledLines = startsOfLines(compiled);
  const pairs = segmentsOf(mappings)
    .map(([line, column, sourceLine, sourceColumn]) => [
      sourceLines[sourceLine] + sourceColumn,
      compiledLines[line] + column,
    ])
    .sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  return {
    target,
    hash: digest(compiled),
    at: (offset) => pairs.findLast(([source]) => source <= offset)?.[1] ?? 0,
  };
}

/**
 * The places a test must run to meet the mutant: its own, or those of functions that name the constant it is in. What no
 * function names (endpoints, tables of rules) is met by whoever loads the file.
 */
function meetingPlaces(mutant, sources) {
  const anywhere = [{ path: mutant.path }];
  if (mutant.isInFunction) return [{ path: mutant.path, offset: mutant.start }];
  if (mutant.constant === undefined) return anywhere;
  const names = new Set([mutant.constant]);
  for (let before = 0; before < names.size;) {
    before = names.size;
    for (const use of usesIn(mutant.path, sources.get(mutant.path), names))
      if (!use.isInFunction && use.constant !== undefined) names.add(use.constant);
  }
  const paths = [...sources.keys()].filter(
    (path) => path === mutant.path || [...names].some((name) => isImported(sources.get(path), name)),
  );
  const found = paths.flatMap((path) =>
    usesIn(path, sources.get(path), names)
      .filter((use) => use.isInFunction)
      .map(({ offset }) => ({ path, offset })),
  );
  return found.length > 0 ? found : anywhere;
}

const isImported = (text, name) => new RegExp(`import [^;]*\\b${name}\\b[^;]* from`).test(text);

/** Test files that run the mutant, nearest first, then the quicker ones first. */
export function testsFor(mutant, { map, ...tree }) {
  const places = meetingPlaces(mutant, tree.sources).map(({ path, offset }) => {
    const { target, hash, at } = offsetsIn(path, tree);
    return { target, hash, offset: offset === undefined ? undefined : at(offset) };
  });
  const runs = ({ files }) =>
    places.some(({ target, hash, offset }) => {
      const file = files[target];
      if (file === undefined || offset === undefined) return file !== undefined;
      return file.hash === hash ? ranAt(file.ran, offset) : file.ran.length > 0;
    });
  return Object.entries(map)
    .filter(([, entry]) => entry.isGreen && runs(entry))
    .map(([test, { ms }]) => ({ test, ms, distance: distanceBetween(mutant.path, test) }))
    .sort((a, b) => a.distance - b.distance || a.ms - b.ms);
}

/** Without a map: those beside the code, which are named after it first. Nobody knows how long they take. */
export function testsNear({ path }, tests) {
  const name = basename(path, ".ts");
  return tests
    .map((test) => ({
      test,
      ms: 0,
      distance: distanceBetween(path, test) + (basename(test, ".test.ts") === name ? -0.5 : 0),
    }))
    .filter(({ distance }) => distance < 3)
    .sort((a, b) => a.distance - b.distance);
}

/** 0: beside it or named like it; 1: in a folder above or below; 2: in the same room; 3: elsewhere. */
function distanceBetween(path, test) {
  const [here, there] = [dirname(path), dirname(test)];
  if (here === there) return 0;
  if (here.startsWith(`${there}/`) || there.startsWith(`${here}/`)) return 1;
  const room = (folder) => folder.split("/").slice(0, 3).join("/");
  return room(here) === room(there) ? 2 : 3;
}

/** Runs the test files that the map does not know as they are, and keeps the map after each. */
export async function learn({ file, workspaces, tests, lanes, say, isStopping }) {
  mkdirSync(dirname(file), { recursive: true });
  const map = readMap(file);
  const hashOf = (test) =>
    digest(readFileSync(join(lanes[0].folder, compiledPath(workspaces, test)), "utf8"));
  for (const test of Object.keys(map)) if (!tests.includes(test)) delete map[test];
  // What was red is tried again: it may have been the machine.
  const unknown = tests.filter((test) => map[test]?.hash !== hashOf(test) || !map[test].isGreen);
  const all = unknown.length;
  const isSource = (path) =>
    workspaces.some(({ folder }) => path.startsWith(`${folder}/dist/`)) &&
    !/\/dist\/test\/|\.test\.js$/.test(path);
  const one = async (test, lane) => {
    const folder = mkdtempSync(join(tmpdir(), "keyward-coverage-"));
    const { isGreen, ms } = await lane.run(test, { env: { NODE_V8_COVERAGE: folder } });
    if (isStopping()) return;
    map[test] = { hash: hashOf(test), ms, isGreen, files: executedIn(folder, lane.folder, isSource) };
    rmSync(folder, { recursive: true, force: true });
    writeFileSync(`${file}.new`, JSON.stringify(map));
    renameSync(`${file}.new`, file);
    say(`map ${all - unknown.length}/${all} ${isGreen ? "" : "RED, not asked: "}${test} ${ms} ms`);
  };
  await Promise.all(
    lanes.map(async (lane) => {
      for (let test = unknown.shift(); test !== undefined; test = unknown.shift()) await one(test, lane);
    }),
  );
  return map;
}

function readMap(file) {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch {
    return {};
  }
}
