// npm run test:mutants [-- --count 300] [--seed 1] [--only part/of/path,another] [--resume] [--again] [--near] [--list] [--show id] [--seconds 60] [--lanes 2]
// Changes the compiled code in one small way after another and asks the tests that run it whether they notice.
// Which test runs what is learnt first, by running all of them; with `--near` on the way, from the tests beside the code.
// `--resume` goes on where a run stopped, `--again` tries what survived once more; `--list` and `--show` run nothing.
import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { build, ROOT } from "./build.mjs";
import { nearestFirst, testsFor, testsNear } from "./mutants/coverage.mjs";
import { equivalentOf, readEquivalents, staleAmong } from "./mutants/equivalents.mjs";
import { makeLane, mayEndProcesses, sweep } from "./mutants/lane.mjs";
import { compiled, mutated, placesIn } from "./mutants/places.mjs";
import { differenceOf, figuresOf, tableOf, unnoticed } from "./mutants/report.mjs";
import { sampleOf } from "./mutants/sample.mjs";
import { TestMap, UNKNOWN_MS } from "./mutants/test-map.mjs";
import { sourcesOf, testsOf, workspacesOf } from "./mutants/workspaces.mjs";

const args = process.argv.slice(2);
const has = (name) => args.includes(`--${name}`);
const value = (name, fallback) => (has(name) ? args[args.indexOf(`--${name}`) + 1] : fallback);
const say = (line) => console.log(line);

const CACHE = join(ROOT, "node_modules/.cache/keyward-mutants");
const seed = Number(value("seed", 1));
const count = Number(value("count", 300));
const patience = { seconds: Number(value("seconds", 60)), files: Number(value("files", 12)) };
const results = join(CACHE, `results-${seed}.jsonl`);

const workspaces = workspacesOf(ROOT);
const sources = new Map(
  sourcesOf(ROOT, workspaces).map((path) => [path, readFileSync(join(ROOT, path), "utf8")]),
);
const files = [...sources].map(([path, text]) => ({
  path,
  lines: text.split("\n").length,
  places: mayEndProcesses(path) ? [] : placesIn(path, text),
}));
const only = value("only", "").split(",");
const sample = sampleOf(files, { seed, count }).filter(({ path }) =>
  only.some((part) => path.includes(part)),
);
const equivalents = readEquivalents();

if (has("list") || has("show")) {
  const wanted = sample.filter(({ id }) => !has("show") || id === value("show"));
  for (const mutant of wanted)
    say(`${mutant.id} ${mutant.kind} ${differenceOf(sources.get(mutant.path), mutant)}\n`);
  process.exit(0);
}

build();
const { SERVER_VARIABLE, startTestPostgres, withClient } = await import("../server/dist/test/postgres.js");
const postgreses = await Promise.all(
  Array.from({ length: Number(value("lanes", 2)) }, () => startTestPostgres()),
);
const lanes = postgreses.map((postgres, number) => ({
  ...makeLane({
    folder: join(CACHE, `lane-${process.pid}-${number}`),
    root: ROOT,
    workspaces,
    postgres,
    variable: SERVER_VARIABLE,
  }),
  sweep: () => sweep(withClient, postgres),
}));
let isStopping = false;
const stop = async (code) => {
  isStopping = true; // what fails from here on fails without its database
  await Promise.all(postgreses.map((postgres) => postgres.stop()));
  for (const { folder } of lanes) rmSync(folder, { recursive: true, force: true });
  process.exit(code);
};
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => void stop(130));

const tests = testsOf(ROOT, workspaces);
const map = new TestMap({ file: join(CACHE, "tests.json"), workspaces });
if (!has("near")) await learnAll();
const unreliable = new Set();
const known = resultsBefore();
const left = sample.filter(({ id }) => !known.has(id));
say(`${sample.length} mutants, seed ${seed}, ${left.length} to try (results in ${results})`);
await Promise.all(lanes.map(work));
const final = sample.map((mutant) => ({ ...mutant, ...known.get(mutant.id), ...named(mutant) }));
tell(final);
await stop(0);

async function learnAll() {
  const unknown = map.unknownAmong(tests, lanes[0]);
  const all = unknown.length;
  const learn = async (lane) => {
    for (let test = unknown.shift(); test !== undefined && !isStopping; test = unknown.shift()) {
      const { isGreen, ms } = await map.learn(test, lane);
      say(`map ${all - unknown.length}/${all} ${isGreen ? "" : "RED, not asked: "}${test} ${ms} ms`);
    }
  };
  await Promise.all(lanes.map(learn));
}

/** What is named as equivalent is so whatever happened to it. */
function named(mutant) {
  return equivalentOf(equivalents, mutant) === undefined ? {} : { status: "equivalent" };
}

function resultsBefore() {
  mkdirSync(CACHE, { recursive: true });
  if (!has("resume") && !has("again")) rmSync(results, { force: true });
  if (!existsSync(results)) return new Map();
  const lines = readFileSync(results, "utf8").split("\n").filter(Boolean);
  const last = new Map(lines.map((line) => JSON.parse(line)).map((result) => [result.id, result]));
  for (const [id, { status }] of last)
    if (has("again") && (status === "survived" || status === "unmet")) last.delete(id);
  return last;
}

async function work(lane) {
  for (let mutant = left.shift(); mutant !== undefined; mutant = left.shift()) {
    const { id, path, line, kind, room } = mutant;
    const result = { id, path, line, kind, room, ...(await judge(mutant, lane)) };
    if (isStopping) return;
    known.set(id, result);
    appendFileSync(results, `${JSON.stringify(result)}\n`);
    const { status, by = "", ms = 0 } = result;
    say(`${status.padEnd(10)} ${id} ${kind} ${path}:${line} ${by} ${ms} ms`);
  }
}

/** Asks the tests one after another until one notices, or until patience ends. */
async function judge(mutant, lane) {
  if (equivalentOf(equivalents, mutant) !== undefined) return { status: "equivalent" };
  const code = compiled(mutant.path, mutated(sources.get(mutant.path), mutant));
  if (code === undefined) return { status: "equivalent", reason: "it does not compile" };
  const unknown = has("near") ? map.unknownAmong(tests, lane).filter((test) => !unreliable.has(test)) : [];
  const able = [
    ...testsFor(mutant, { map: map.entries, folder: lane.folder, workspaces, sources }),
    ...testsNear(mutant, unknown),
  ].sort(nearestFirst);
  if (able.length === 0) return { status: "unmet" };
  let ms = 0;
  const asked = [];
  const verdict = await lane.replace(mutant.path, code, async () => {
    for (const { test, ms: usualMs } of able.slice(0, patience.files)) {
      const isKnown = !unknown.includes(test);
      if (asked.length > 0 && ms + (isKnown ? usualMs : 0) > patience.seconds * 1000) continue;
      const told = await (isKnown ? lane.run(test, { usualMs }) : map.learn(test, lane, { usualMs }));
      ms += told.ms;
      asked.push(test);
      if (!told.isGreen) {
        await lane.sweep();
        return { status: told.isLate ? "late" : "killed", by: test, because: told.failure, ms };
      }
    }
    return { status: "survived", asked, of: able.length, ms };
  });
  if (!unknown.includes(verdict.by)) return verdict;
  // Nobody has seen that test green: it must be so without the mutant, or it says nothing.
  if ((await map.learn(verdict.by, lane, { usualMs: UNKNOWN_MS })).isGreen) return verdict;
  unreliable.add(verdict.by);
  return judge(mutant, lane);
}

function tell(judged) {
  for (const mutant of unnoticed(judged))
    say(`\n${mutant.status} ${mutant.id} ${mutant.kind} ${differenceOf(sources.get(mutant.path), mutant)}`);
  for (const entry of staleAmong(
    equivalents,
    files.flatMap((file) => file.places),
  ))
    say(`\nSTALE: equivalents.json names a line that ${entry.file} does not have: ${entry.line}`);
  say(`\n${tableOf(judged)}\n`);
  const { share, killed, survived, unmet, equivalent } = figuresOf(judged);
  say(
    `${killed} killed, ${survived} survived, ${unmet} met by no test, ${equivalent} equivalent: ${share} %`,
  );
}
