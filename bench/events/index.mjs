// The event benches as rows of a table: { case, keyward, limit, unit, bar, isKept }. A bar is the figure itself or, where it
// says so, the difference to or the multiple of the limit's.
import { broadcast } from "./broadcast.mjs";
import { latency } from "./latency.mjs";
import { revocation } from "./revocation.mjs";
import { openStage } from "./stage.mjs";

const memoryRow = (streams, usedKb) => ({
  case: `one of ${streams} open streams`,
  keyward: usedKb,
  limit: null,
  unit: "KB",
  bar: "≤ 14",
  isKept: usedKb <= 14,
});

const broadcastRows = (streams, isWeighed, { keyward, bare, usedKb }) => [
  ...(isWeighed ? [memoryRow(streams, usedKb)] : []),
  {
    case: `one event to ${streams} streams, commit → last received`,
    keyward: keyward.whole,
    limit: bare.whole,
    unit: "ms",
    bar: "≤ 2 × limit",
    isKept: keyward.whole <= 2 * bare.whole,
  },
];

const latencyRows = (rate, listeners, { bare, same, other, above }) => {
  const name = `${rate} writes/s to ${listeners} streams, commit → received`;
  const row = (what, keyward, limit, bar, isKept) => ({
    case: `${name}, ${what}`,
    keyward,
    limit,
    unit: "ms",
    bar,
    isKept,
  });
  return [
    row("same node, p50", same.p50, bare.p50, "≤ limit + 5", above.p50 <= 5),
    row("same node, p99", same.p99, bare.p99, "≤ limit + 25", above.p99 <= 25),
    row("other node, p99", other.p99, bare.p99, "≤ 60", other.p99 <= 60),
  ];
};

export const EVENT_CASES = ["broadcast", "latency", "revocation"];

export async function eventRows(options = {}) {
  const { streams = 10_000, listeners = 1000, rate = 100, seconds = 8, rounds = 3, warmup = 8000 } = options;
  const { wanted = EVENT_CASES, isWeighed = true, say, nodeFlags, build } = options;
  const stage = await openStage({ nodeFlags, build });
  const rows = [];
  try {
    if (wanted.includes("broadcast"))
      rows.push(
        ...broadcastRows(
          streams,
          isWeighed,
          await broadcast(stage, { streams, count: rounds + 2, isWeighed }, say),
        ),
      );
    if (wanted.includes("latency"))
      rows.push(
        ...latencyRows(
          rate,
          listeners,
          await latency(stage, { listeners, rate, seconds, rounds, warmup }, say),
        ),
      );
    if (wanted.includes("revocation")) {
      const { p99 } = await revocation(stage, {}, say);
      rows.push({
        case: "token revoked → stream closed on the other node, p99",
        keyward: p99,
        limit: null,
        unit: "ms",
        bar: "≤ 1000",
        isKept: p99 <= 1000,
      });
    }
  } finally {
    await stage.close();
  }
  return rows;
}
