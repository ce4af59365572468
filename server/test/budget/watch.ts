/**
 * Loaded into a server before its own code (`--import`): measures the longest stretch for which its event loop gave way
 * to nobody. A ping goes round the loop as fast as it turns; between two of them lies one stretch. It is counted in
 * processor time of this thread, by the kernel's own count, and never as more than the time that passed: what others
 * on the machine take away is not ours.
 */
import { openSync, readSync } from "node:fs";
import { Session, type Profiler } from "node:inspector";
import { isMainThread } from "node:worker_threads";

export interface Stretch {
  readonly milliseconds: number;
  /** What ran in it, by its share; only where it was asked for. */
  readonly ran: readonly string[];
}

const SHOWN = 25;
const micros = (): number => Number(process.hrtime.bigint() / 1000n);

/** Of the samples between two moments: which functions were on the stack, and in how many. */
function ranBetween(
  { nodes, samples = [], timeDeltas = [], startTime }: Profiler.Profile,
  from: number,
  to: number,
) {
  const parents = new Map(nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id])));
  const names = new Map(
    nodes.map(({ id, callFrame: { functionName, url, lineNumber } }) => [
      id,
      `${functionName || "(anonymous)"} ${url.split("/").slice(-3).join("/")}:${lineNumber + 1}`,
    ]),
  );
  const counts = new Map<string, number>();
  let at = startTime;
  let all = 0;
  for (const [index, sample] of samples.entries()) {
    at += timeDeltas[index] ?? 0;
    if (at < from || at > to) continue;
    all += 1;
    const stack = new Set<string>();
    for (let node: number | undefined = sample; node !== undefined; node = parents.get(node))
      stack.add(names.get(node) ?? "");
    for (const name of stack) counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return [...counts]
    .sort(([, a], [, b]) => b - a)
    .slice(0, SHOWN)
    .map(([name, count]) => `${Math.round((100 * count) / all)} % ${name}`);
}

function watch(): void {
  const stat = openSync(`/proc/self/task/${process.pid}/schedstat`, "r");
  const buffer = Buffer.alloc(64);
  const cpu = (): number => {
    const length = readSync(stat, buffer, 0, buffer.length, 0);
    return Number.parseInt(buffer.toString("latin1", 0, length), 10) / 1000;
  };
  const profiler = process.env["KEYWARD_BUDGET_PROFILE"] === "1" ? new Session() : undefined;
  profiler?.connect();
  profiler?.post("Profiler.enable");
  profiler?.post("Profiler.setSamplingInterval", { interval: 500 });
  let isOn = false;
  let longest = { micros: 0, from: 0, to: 0 };
  let last = { cpu: 0, at: 0 };
  const ping = (): void => {
    const now = { cpu: cpu(), at: micros() };
    const stretch = Math.min(now.cpu - last.cpu, now.at - last.at);
    if (stretch > longest.micros) longest = { micros: stretch, from: last.at, to: now.at };
    last = now;
    if (isOn) setImmediate(ping);
  };
  const say = (ran: readonly string[]) =>
    process.send?.({ milliseconds: longest.micros / 1000, ran } satisfies Stretch);
  process.on("message", (message) => {
    isOn = message === "watch";
    if (isOn) {
      profiler?.post("Profiler.start");
      longest = { micros: 0, from: 0, to: 0 };
      last = { cpu: cpu(), at: micros() };
      setImmediate(ping);
    } else if (profiler)
      profiler.post("Profiler.stop", (_error, { profile }) =>
        say(ranBetween(profile, longest.from, longest.to)),
      );
    else say([]);
  });
  process.channel?.unref();
}

if (isMainThread && process.send) watch();
