// Which tests run a mutant, by the map of what each test file runs (test-map.mjs): a file that changed since the map was
// made is looked up as a whole.
import { readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { usesIn } from "./places.mjs";
import { UNKNOWN_MS } from "./test-map.mjs";
import { compiledPath, digest } from "./workspaces.mjs";

const BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

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
    .filter(([, entry]) => runs(entry))
    .map(([test, { ms }]) => ({ test, ms, distance: distanceBetween(mutant.path, test) }))
    .sort(nearestFirst);
}

/** Of the tests that are not on the map, those beside the code, what is named after it first. */
export function testsNear({ path }, tests) {
  const name = basename(path, ".ts");
  return tests
    .map((test) => ({
      test,
      ms: UNKNOWN_MS,
      distance: distanceBetween(path, test) + (basename(test, ".test.ts") === name ? -0.5 : 0),
    }))
    .filter(({ distance }) => distance < 3)
    .sort(nearestFirst);
}

export const nearestFirst = (a, b) => a.distance - b.distance || a.ms - b.ms;

/** 0: beside it or named like it; 1: in a folder above or below; 2: in the same room; 3: elsewhere. */
function distanceBetween(path, test) {
  const [here, there] = [dirname(path), dirname(test)];
  if (here === there) return 0;
  if (here.startsWith(`${there}/`) || there.startsWith(`${here}/`)) return 1;
  const room = (folder) => folder.split("/").slice(0, 3).join("/");
  return room(here) === room(there) ? 2 : 3;
}
