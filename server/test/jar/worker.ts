/** A stretch of histories on a thread of its own: the test runner follows every promise, which costs most of the time. */
import { parentPort, workerData } from "node:worker_threads";
import { runSchedule } from "./jar.ts";

export interface Stretch {
  readonly first: number;
  readonly count: number;
}

export interface Findings {
  /** The first history in which something did not hold. */
  readonly seed: number | undefined;
  readonly faults: readonly string[];
  readonly seen: Readonly<Record<string, number>>;
}

const { first, count } = workerData as Stretch;
const sum: Record<string, number> = {};
let found: Pick<Findings, "seed" | "faults"> = { seed: undefined, faults: [] };
for (let n = 0; n < count && found.faults.length === 0; n += 1) {
  const seed = (first + n) % 2 ** 31;
  const { faults, seen } = await runSchedule(seed);
  if (faults.length > 0) found = { seed, faults };
  for (const [what, times] of Object.entries(seen)) sum[what] = (sum[what] ?? 0) + times;
}
parentPort?.postMessage({ ...found, seen: sum } satisfies Findings);
