// npm run bench [-- suite …] [--quick] [--connections 16] [--seconds 5] [--rounds 3] [--against URL --token T] [--no-files]
// Each case runs interleaved with its limit program, the bare statements of the same request; what counts is the
// ratio, not the figures of this machine. With --against the same cases go to another server of the same API too.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { growthCurves } from "./growth.mjs";
import { load } from "./load.mjs";
import { usageOf } from "./processes.mjs";
import { progress } from "./progress.mjs";
import { writeResults } from "./report.mjs";

const args = process.argv.slice(2);
const text = (name) => (args.includes(`--${name}`) ? args[args.indexOf(`--${name}`) + 1] : undefined);
const flag = (name, fallback) => Number(text(name) ?? fallback);
const isQuick = args.includes("--quick");
const connections = flag("connections", 16);
const seconds = flag("seconds", isQuick ? 1 : 5);
const rounds = flag("rounds", isQuick ? 2 : 3);
const against = text("against") ? { url: text("against"), token: text("token") } : undefined;

const HTTP_SUITES = ["identities", "secrets", "certificates", "alerts"];
const OTHERS = ["growth", "events"];
const named = args.filter((arg) => [...HTTP_SUITES, ...OTHERS].includes(arg));
// Streams need minutes of their own and print their own tables: only when asked for, or in the full run.
const wanted =
  named.length > 0 ? named : [...HTTP_SUITES, "growth", ...(isQuick || against ? [] : ["events"])];

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

async function measure(target, next, good = 200) {
  const before = usageOf(target.pid);
  const result = await load(target.base, next, { connections, seconds, warmup: isQuick ? 0.5 : 1 });
  const after = usageOf(target.pid);
  const strange = Object.keys(result.statuses).filter(
    (status) => status !== String(good) && status !== "example",
  );
  if (strange.length > 0) throw new Error(`not all answers were ${good}: ${JSON.stringify(result.statuses)}`);
  const answered = Math.max(1, result.rate * (seconds + (isQuick ? 0.5 : 1)));
  return {
    ...result,
    cpuMicros: ((after.cpuSeconds - before.cpuSeconds) * 1e6) / answered,
    rssMb: after.rssMb,
  };
}

const summary = (runs, side) =>
  Object.fromEntries(
    ["rate", "p50", "p99", "cpuMicros", "rssMb"].map((field) => [
      field,
      median(runs.map((run) => run[side][field])),
    ]),
  );

async function runSuite(suite, bar) {
  const { prepare } = await import(`./cases/${suite}.mjs`);
  const own = await prepare();
  const other = against ? await prepare({ against }) : undefined;
  const results = [];
  try {
    for (const one of own.cases) {
      const theirs = other?.cases.find(({ name }) => name === one.name);
      const runs = [];
      for (let round = 0; round < rounds; round += 1) {
        const run = {
          limit: await measure(own.limit, one.limit),
          keyward: await measure(own.keyward, one.keyward, one.good),
        };
        if (theirs) run.other = await measure(other.keyward, theirs.keyward, theirs.good);
        runs.push(run);
        bar.step(`${suite}: ${one.name}`);
      }
      const share = median(runs.map((run) => run.keyward.rate / run.limit.rate));
      const sides = theirs ? ["keyward", "limit", "other"] : ["keyward", "limit"];
      results.push({
        suite,
        name: one.name,
        share,
        ...Object.fromEntries(sides.map((side) => [side, summary(runs, side)])),
      });
    }
    return { results, idleMb: own.idle.rssMb };
  } finally {
    await other?.close();
    await own.close();
  }
}

const startedAt = new Date();
const httpSuites = wanted.filter((suite) => HTTP_SUITES.includes(suite));
const bar = progress(httpSuites.length * 3 * rounds);
const cases = [];
let idleMb = 0;
for (const suite of httpSuites) {
  const ran = await runSuite(suite, bar);
  cases.push(...ran.results);
  idleMb = ran.idleMb;
}
bar.done();
const sizes = isQuick ? [1e3, 1e4] : [1e3, 1e4, 1e5, 1e6];
const growth =
  wanted.includes("growth") && !against
    ? await growthCurves({ sizes, seconds: isQuick ? 1 : 3, connections })
    : [];
const settings = { connections, seconds, rounds, isQuick, ...(against ? { against: against.url } : {}) };
console.log(
  writeResults({ startedAt, settings, idleMb, cases, growth, isKept: !args.includes("--no-files") }),
);
if (wanted.includes("events")) {
  const script = fileURLToPath(new URL("events/run.mjs", import.meta.url));
  spawnSync(
    process.execPath,
    [script, ...(isQuick ? ["--streams", "1000", "--rounds", "2", "--seconds", "3"] : [])],
    { stdio: "inherit" },
  );
}
