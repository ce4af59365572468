// One event to very many streams: how long until the last has it, and what a stream costs in memory.
import { median, pause, show } from "./figures.mjs";
import { chunkOf, cpuMs, rssKb } from "./stage.mjs";

const FIRST = 50;
const WARM_UP_WRITES = 20;
const GRACE_SECONDS = 60;
const PING_ROUND_MS = 16_000;

async function rounds(stage, server, { streams, count, send }) {
  const { holder } = stage;
  const nameOf = stage.newRun();
  const figures = [];
  // The first pays for warm-up.
  await holder.ask("expect", { events: count + 1, streams });
  for (let n = 0; n <= count; n += 1) {
    const cpu = cpuMs(server.pid);
    const startAt = await send(nameOf(n));
    const isWhole = await holder.ask("heard", { count: (n + 1) * streams, seconds: GRACE_SECONDS });
    if (!isWhole) throw new Error("a broadcast did not reach everyone");
    const times = (await holder.ask("times"))[n];
    const [first, last] = [times.reduce((a, b) => Math.min(a, b)), times.reduce((a, b) => Math.max(a, b))];
    figures.push({ whole: last - startAt, spread: last - first, cpu: cpuMs(server.pid) - cpu });
    await pause(200);
  }
  const of = (field) => median(figures.slice(1).map((figure) => figure[field]));
  return { whole: of("whole"), spread: of("spread"), cpu: of("cpu") };
}

/** `isWeighed`: wait for a round of pings and tell the memory; a few hundred streams drown in what the collector does. */
export async function broadcast(
  stage,
  { streams = 10_000, count = 5, isWeighed = true } = {},
  say = () => {},
) {
  const { holder, bare, near } = stage;
  await stage.open(bare, streams);
  await bare.ask("setClock");
  const limit = await rounds(stage, bare, {
    streams,
    count,
    send: (key) => bare.ask("write", { chunk: chunkOf(key) }),
  });
  await holder.ask("close");
  await stage.warmUp(WARM_UP_WRITES);
  await stage.open(near, FIRST);
  await pause(1000);
  const before = rssKb(near.pid);
  const perStream = () => (rssKb(near.pid) - before) / (streams - FIRST);
  const opened = await stage.open(near, streams - FIRST);
  await pause(2000);
  const openKb = perStream();
  const own = await rounds(stage, near, {
    streams,
    count,
    async send(key) {
      await stage.write(key);
      const [at] = await stage.committedAt([key]);
      return at;
    },
  });
  if (isWeighed) await pause(PING_ROUND_MS);
  const usedKb = perStream();
  await holder.ask("close");
  say(
    `${streams} streams: opened in ${show(opened.milliseconds / 1000)} s; ${show(openKb)} KB each (after ${count} broadcasts and a round of pings ${show(usedKb)} KB)`,
  );
  say(
    `one event to all: commit → last received ${show(own.whole)} ms; bare: write → last received ${show(limit.whole)} ms; ratio ${(own.whole / limit.whole).toFixed(2)}`,
  );
  say(
    `  first → last received: ${show(own.spread)} ms; bare ${show(limit.spread)} ms. CPU ${show(own.cpu)} ms; bare ${show(limit.cpu)} ms`,
  );
  return { keyward: own, bare: limit, openKb, usedKb, openedSeconds: opened.milliseconds / 1000 };
}
