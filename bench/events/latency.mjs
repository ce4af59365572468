// Commit → received, at a steady rate of writes with many streams open. Three runs in turns, each with the same
// writes to the same node and database beside it: the streams on the bare server, on the node that is written to, and
// on the other node.
import { now } from "./clock.mjs";
import { median, pause, quantile, show } from "./figures.mjs";
import { chunkOf, cpuMs, machineCpu } from "./stage.mjs";

const SIDES = ["bare", "same", "other"];
const GRACE_SECONDS = 30;

async function run(stage, side, { listeners, rate, seconds }) {
  const { holder, bare } = stage;
  const server = { bare, same: stage.near, other: stage.far }[side];
  const events = Math.round(rate * seconds);
  const nameOf = stage.newRun();
  const keys = Array.from({ length: events }, (_, n) => nameOf(n));
  await stage.open(server, listeners);
  await pause(500);
  await holder.ask("expect", { events, streams: listeners });
  await bare.ask("setClock");
  const before = { machine: machineCpu(), server: cpuMs(server.pid), holder: cpuMs(holder.pid) };
  const startedAt = now();
  const writes = [];
  const sends = [];
  for (const [n, key] of keys.entries()) {
    const due = startedAt + (n * 1000) / rate;
    if (due > now()) await pause(due - now());
    writes.push(stage.write(key));
    if (side === "bare") sends.push(bare.ask("write", { chunk: chunkOf(key) }));
  }
  await Promise.all(writes);
  const isWhole = await holder.ask("heard", { count: events * listeners, seconds: GRACE_SECONDS });
  const took = now() - startedAt;
  const after = { machine: machineCpu(), server: cpuMs(server.pid), holder: cpuMs(holder.pid) };
  const startAt = side === "bare" ? await Promise.all(sends) : await stage.committedAt(keys);
  const waits = (await holder.ask("times")).flatMap((times, n) => times.map((at) => at - startAt[n]));
  await holder.ask("close");
  if (!isWhole) throw new Error(`${side}: only ${waits.length} of ${events * listeners} deliveries came in`);
  const own = after.machine.own - before.machine.own;
  return {
    p50: quantile(waits, 0.5),
    p99: quantile(waits, 0.99),
    serverCpu: (after.server - before.server) / took,
    holderCpu: (after.holder - before.holder) / took,
    ownCpu: own / took,
    foreignCpu: (after.machine.all - before.machine.all - own) / took,
  };
}

async function warmUp(stage, { listeners, rate, writes }) {
  await stage.warmUp(writes);
  for (const side of SIDES) await run(stage, side, { listeners, rate, seconds: 3 });
}

export async function latency(
  stage,
  { listeners = 1000, rate = 100, seconds = 8, rounds = 3, warmup = 8000 } = {},
  say = () => {},
) {
  const runs = { bare: [], same: [], other: [] };
  await warmUp(stage, { listeners, rate, writes: warmup });
  for (let round = 0; round < rounds; round += 1) {
    for (const side of SIDES) {
      const figures = await run(stage, side, { listeners, rate, seconds });
      runs[side].push(figures);
      say(
        `${side}: ${rate} writes/s to ${listeners} streams: p50 ${show(figures.p50)} ms, p99 ${show(figures.p99)} ms; cores: server ${figures.serverCpu.toFixed(2)}, holder ${figures.holderCpu.toFixed(2)}, all of the bench ${figures.ownCpu.toFixed(2)}, others ${figures.foreignCpu.toFixed(2)}`,
      );
    }
  }
  const of = (side, field) => median(runs[side].map((figures) => figures[field]));
  return {
    bare: { p50: of("bare", "p50"), p99: of("bare", "p99") },
    same: { p50: of("same", "p50"), p99: of("same", "p99") },
    other: { p50: of("other", "p50"), p99: of("other", "p99") },
    // Each round is compared with the bare run beside it: what disturbed the machine disturbed both.
    above: {
      p50: median(runs.same.map(({ p50 }, n) => p50 - runs.bare[n].p50)),
      p99: median(runs.same.map(({ p99 }, n) => p99 - runs.bare[n].p99)),
    },
    foreignCores: median(SIDES.flatMap((side) => runs[side].map((figures) => figures.foreignCpu))),
  };
}
