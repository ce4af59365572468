// npm run bench [-- name …] [--quick] [--connections 16] [--seconds 5] [--rounds 3]
// Each case runs interleaved with its limit program; what counts is the ratio, not the figures of this machine.
import { load } from "./load.mjs";
import { usageOf } from "./processes.mjs";

const args = process.argv.slice(2);
const flag = (name, fallback) =>
  args.includes(`--${name}`) ? Number(args[args.indexOf(`--${name}`) + 1]) : fallback;
const isQuick = args.includes("--quick");
const connections = flag("connections", 16);
const seconds = flag("seconds", isQuick ? 2 : 5);
const rounds = flag("rounds", isQuick ? 2 : 3);
const suites = ["identities"];
const wanted = args.filter((arg) => suites.includes(arg));

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

async function measure(target, next) {
  const before = usageOf(target.pid);
  const result = await load(target.base, next, { connections, seconds });
  const after = usageOf(target.pid);
  if (Object.keys(result.statuses).some((status) => status !== "200"))
    throw new Error(`not all answers were 200: ${JSON.stringify(result.statuses)}`);
  return {
    ...result,
    cpuMicros: ((after.cpuSeconds - before.cpuSeconds) * 1e6) / Math.max(1, result.rate * (seconds + 1)),
    rssMb: after.rssMb,
  };
}

for (const suite of wanted.length > 0 ? wanted : suites) {
  const { prepare } = await import(`./cases/${suite}.mjs`);
  const { cases, keyward, limit, idle, close } = await prepare();
  console.log(
    `${suite}: ${connections} connections, ${rounds} rounds of ${seconds} s, idle memory ${idle.rssMb.toFixed(0)} MB\n`,
  );
  console.log(
    "| case | Keyward/s | limit/s | share of limit | p50 ms | p99 ms | CPU µs/request | limit CPU µs | RSS MB |\n|---|---|---|---|---|---|---|---|---|",
  );
  try {
    for (const one of cases) {
      const runs = [];
      for (let round = 0; round < rounds; round += 1) {
        runs.push({ limit: await measure(limit, one.limit), keyward: await measure(keyward, one.keyward) });
      }
      const of = (side, field) => median(runs.map((run) => run[side][field]));
      const share = median(runs.map((run) => run.keyward.rate / run.limit.rate));
      console.log(
        `| ${one.name} | ${of("keyward", "rate").toFixed(0)} | ${of("limit", "rate").toFixed(0)} | ${(share * 100).toFixed(0)} % | ${of("keyward", "p50").toFixed(2)} | ${of("keyward", "p99").toFixed(2)} | ${of("keyward", "cpuMicros").toFixed(0)} | ${of("limit", "cpuMicros").toFixed(0)} | ${of("keyward", "rssMb").toFixed(0)} |`,
      );
    }
  } finally {
    await close();
  }
}
