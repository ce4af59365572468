// npm run bench [-- suite …] [--quick] [--connections 16] [--seconds 5] [--rounds 3] [--against URL --token T] [--no-files]
// Suites: identities secrets certificates alerts events growth callers neighbours. Each case runs interleaved with its limit program, the bare
// statements of the same request; what counts is the ratio, not the figures of this machine. With --against the same
// cases go to another server of the same API too.
import { HTTP_SUITES, readArguments, Refused } from "./arguments.mjs";
import { dueRows } from "./alerts/due.mjs";
import { issuingRows } from "./alerts/issuing.mjs";
import { median } from "./bars.mjs";
import { callerRows } from "./callers.mjs";
import { issueRows } from "./certificates/issue.mjs";
import { listRows } from "./certificates/list.mjs";
import { revocationRows } from "./certificates/revocation.mjs";
import { eventRows } from "./events/index.mjs";
import { growthCurves, GROWTH_TOPICS, streamCurve } from "./growth.mjs";
import { load } from "./load.mjs";
import { neighbourRows } from "./neighbours/index.mjs";
import { beforeEarlyEnd, usageOf } from "./processes.mjs";
import { progress } from "./progress.mjs";
import { writeResults } from "./report.mjs";
import { secretLists } from "./secret-lists.mjs";
import { closeWorlds, hintFor } from "./world.mjs";

const given = asked();
const { against, wanted, isQuick } = given;
const connections = given.connections ?? 16;
const seconds = given.seconds ?? (isQuick ? 0.5 : 5);
const warmup = isQuick ? 0.25 : 1;
const rounds = given.rounds ?? (isQuick ? 1 : 3);
const isWanted = (suite) => wanted.includes(suite);

function asked() {
  try {
    return readArguments(process.argv.slice(2));
  } catch (error) {
    console.error(error.message);
    process.exit(2);
  }
}

/** What the parts should take on an idle machine; only for the time that is left. */
const CASES = { identities: 3, secrets: 5, certificates: 2, alerts: 1 };
const oneCase = (seconds + warmup) * rounds * (against ? 3 : 2);
const START_SECONDS = 4;
const GROWTH = isQuick
  ? { sizes: [1e3, 1e4], seconds: 0.3, planned: 3 }
  : { sizes: [1e3, 1e4, 1e5, 1e6], seconds: 2, planned: 25 };
const EVENTS = isQuick
  ? {
      streams: 1000,
      listeners: 200,
      rate: 50,
      seconds: 1,
      rounds: 1,
      warmup: 100,
      isWeighed: false,
      planned: 24,
    }
  : { streams: 10_000, listeners: 1000, rate: 100, seconds: 8, rounds: 3, planned: 180 };
const LISTS_SECONDS = isQuick ? 8 : 90;
/** What is more than requests side by side, each with a stage of its own. */
const PROGRAMS = [
  {
    suite: "certificates",
    run: issueRows,
    ...(isQuick
      ? { planned: 15, options: { seconds: 0.5, rounds: 1, warmup: 1 } }
      : { planned: 110, options: {} }),
  },
  // Lists wait for a job of the server that runs once a minute, and a difference of a tenth needs many rounds.
  ...(isQuick
    ? []
    : [
        { suite: "certificates", run: listRows, planned: 600, options: {} },
        { suite: "certificates", run: revocationRows, planned: 60, options: {} },
        { suite: "alerts", run: dueRows, planned: 60, options: {} },
        { suite: "alerts", run: issuingRows, planned: 100, options: {} },
        { suite: "alerts", run: issuingRows, planned: 100, options: { matching: 500 } },
      ]),
  { suite: "events", run: eventRows, planned: EVENTS.planned, options: EVENTS },
  {
    suite: "callers",
    run: callerRows,
    ...(isQuick ? { planned: 8, options: { identities: 10, each: 50 } } : { planned: 40, options: {} }),
  },
  {
    suite: "neighbours",
    run: neighbourRows,
    ...(isQuick
      ? { planned: 20, options: { seconds: 1.5, megabytes: 8, auditRows: 20_000 } }
      : { planned: 120, options: {} }),
  },
];

async function measure(target, next, good = 200) {
  const before = usageOf(target.pid);
  const result = await load(target.base, next, { connections, seconds, warmup });
  const after = usageOf(target.pid);
  const strange = Object.keys(result.statuses).filter(
    (status) => status !== String(good) && status !== "example",
  );
  if (strange.length > 0)
    throw new Refused(
      `${target.base}: not all answers were ${good}: ${JSON.stringify(result.statuses)}; ${hintFor(strange[0])}.`,
    );
  const answered = Math.max(1, result.rate * (seconds + warmup));
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
  // The other first: it may be away, or refuse the token.
  const other = against ? await prepare({ against }) : undefined;
  const own = await prepare();
  const results = [];
  try {
    bar.step(suite, START_SECONDS);
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
        bar.step(`${suite}: ${one.name}`, oneCase / rounds);
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

async function run() {
  const startedAt = new Date();
  const httpSuites = HTTP_SUITES.filter(isWanted);
  const topics = isWanted("growth") ? GROWTH_TOPICS : [];
  const hasLists = isWanted("secrets") && !against;
  const programs = PROGRAMS.filter(({ suite }) => isWanted(suite) && !against);
  const planned =
    httpSuites.reduce((sum, suite) => sum + START_SECONDS + CASES[suite] * oneCase, 0) +
    (hasLists ? LISTS_SECONDS : 0) +
    topics.length * (START_SECONDS + GROWTH.sizes.length * GROWTH.planned) +
    (topics.length > 0 && !isQuick ? 3 * GROWTH.planned : 0) +
    programs.reduce((sum, program) => sum + program.planned, 0);
  const bar = progress(planned);
  const cases = [];
  let idleMb = 0;
  for (const suite of httpSuites) {
    const ran = await runSuite(suite, bar);
    cases.push(...ran.results);
    idleMb = ran.idleMb;
  }
  const listRounds = isQuick ? 3 : 4;
  const lists = hasLists
    ? await secretLists({ isQuick, step: (what) => bar.step(what, LISTS_SECONDS / listRounds) })
    : undefined;
  const growth = await growthCurves({ topics, ...GROWTH, step: (what) => bar.step(what, GROWTH.planned) });
  // Minutes of their own: not in a quick run.
  if (topics.length > 0 && !isQuick)
    growth.push(
      await streamCurve({ sizes: [100, 1000, 10_000], step: (what) => bar.step(what, GROWTH.planned) }),
    );
  const rows = [];
  for (const { suite, run: measureAll, planned: takes, options } of programs) {
    const own = await measureAll({ ...options, say: (line) => bar.step(`${suite}: ${line}`, 0) });
    bar.step(suite, takes);
    rows.push(...own.map((row) => ({ suite, ...row })));
  }
  bar.done();
  const settings = {
    ...{ connections, seconds, rounds, isQuick },
    tookSeconds: Math.round((Date.now() - startedAt.getTime()) / 1000),
    ...(against ? { against: against.url } : {}),
  };
  return writeResults({
    ...{ startedAt, settings, idleMb, cases, lists, growth, rows },
    ...{ suites: wanted, isKept: given.isKept },
  });
}

beforeEarlyEnd(() => closeWorlds({ isForeignOnly: true }));
try {
  console.log(await run());
} catch (error) {
  console.error(error instanceof Refused ? `\n${error.message}` : error);
  process.exitCode = 1;
} finally {
  await closeWorlds();
}
