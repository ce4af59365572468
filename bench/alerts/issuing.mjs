// node bench/alerts/issuing.mjs [--connections 16] [--seconds 4] [--rounds 5] [--alerts 1000 | --matching 500] [--warmup 12]
// What alerts cost whoever issues certificates, those that do not match and those that all do: the same issuing in a project without alerts and in
// one with a thousand, in turns, so that the ratio means something on any machine. On a machine with other work, look
// at the processor time per certificate (of the server and its database together) instead of the rate.
import { readdirSync, readFileSync } from "node:fs";
import { allAnswered, flagsOf, isStarted, median, showRows } from "../bars.mjs";
import { load } from "../load.mjs";
import { openWorld } from "../certificates/world.mjs";

const ALERTS = "/api/v1/cert-manager/alerts";

/** Fields of /proc/<pid>/stat from the third on; undefined when the process is gone. */
function statOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  } catch {
    return undefined;
  }
}

/** Seconds of processor time of a process, and of its children if it has any, those that ended included. */
function cpuSeconds(pid, withChildren) {
  const own = statOf(pid);
  const ticks = (fields, ...at) => at.reduce((sum, index) => sum + Number(fields[index]), 0);
  let total = ticks(own, 11, 12);
  if (withChildren) {
    total += ticks(own, 13, 14);
    for (const other of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
      const fields = statOf(other);
      if (fields && Number(fields[1]) === pid) total += ticks(fields, 11, 12);
    }
  }
  return total / 100;
}

/** The alerts step aside and come back: same project, same tables, same process. */
const ASIDE =
  "BEGIN; CREATE TABLE IF NOT EXISTS aside AS SELECT * FROM alerts; CREATE TABLE IF NOT EXISTS aside_channels AS SELECT * FROM alert_channels; DELETE FROM alerts; COMMIT";
const BACK =
  "BEGIN; INSERT INTO alerts SELECT * FROM aside; INSERT INTO alert_channels SELECT * FROM aside_channels; COMMIT";
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

async function makeAlerts(world, count, isMatching) {
  for (let n = 0; n < count; n += 1)
    await world.call("POST", ALERTS, {
      projectId: world.projectId,
      name: `alert ${n}`,
      eventType: "issuance",
      filters: [{ value: isMatching ? "example.com" : `service-${n}.nowhere.example.org` }],
      channels: [{ config: { recipients: ["ops@example.com"] } }],
    });
}

export async function issuingRows(options = {}) {
  const { connections = 16, seconds = 4, rounds = 5, warmup = 12, say = () => {} } = options;
  const { alerts = 1000, matching = 0 } = options;
  const [isMatching, most] = [matching > 0, matching > 0 ? 0.2 : 0.1];
  const world = await openWorld();
  try {
    const profileId = await world.profile("bench");
    await makeAlerts(world, isMatching ? matching : alerts, isMatching);
    const issue = (n) => ({
      method: "POST",
      path: "/api/v1/cert-manager/certificates",
      headers: world.headers,
      body: {
        profileId,
        attributes: {
          commonName: `host-${n}.example.com`,
          ttl: "90d",
          altNames: [{ type: "dns_name", value: `host-${n}.example.com` }],
        },
      },
    });
    const setAside = async (isAside) => {
      await world.database.query(isAside ? ASIDE : BACK);
      await pause(1500);
    };
    const found = await world.database.query("SELECT pg_backend_pid() AS pid");
    const postmaster = Number(statOf(found.rows[0].pid)[1]);
    const spent = () => cpuSeconds(world.keyward.pid, false) + cpuSeconds(postmaster, true);
    const measure = async () => {
      const before = spent();
      const run = await load(world.keyward.base, issue, { connections, seconds, warmup: 0 });
      allAnswered(run);
      // What was put off until after the answer belongs to it.
      await pause(500);
      return { rate: run.rate, cpuMs: ((spent() - before) * 1000) / run.statuses["200"] };
    };
    await load(world.keyward.base, issue, { connections, seconds: warmup });
    // Each round once with and once without, the order turned from round to round: a table that grows favours neither.
    const pairs = [];
    for (let round = 0; round < rounds; round += 1) {
      const isFirst = round % 2 === 0;
      const early = isFirst ? await measure() : undefined;
      await setAside(true);
      const without = await measure();
      await setAside(false);
      const with_ = early ?? (await measure());
      pairs.push({ with_, without });
      say(
        `issuing with ${isMatching ? matching : alerts} alerts ${with_.rate.toFixed(0)}/s, ${with_.cpuMs.toFixed(2)} ms of processor time each; without ${without.rate.toFixed(0)}/s, ${without.cpuMs.toFixed(2)} ms`,
      );
    }
    const of = (side, field) => median(pairs.map((pair) => pair[side][field]));
    const slower = median(pairs.map(({ with_, without }) => 1 - with_.rate / without.rate));
    const dearer = median(pairs.map(({ with_, without }) => with_.cpuMs / without.cpuMs - 1));
    const name = isMatching
      ? `issuing beside ${matching.toLocaleString("en")} issuance alerts that all match`
      : `issuing beside ${alerts.toLocaleString("en")} issuance alerts that do not match`;
    return [
      {
        case: name,
        ...{
          keyward: of("with_", "rate"),
          limit: of("without", "rate"),
          unit: "/s",
          bar: `≥ ${100 - most * 100} % of limit`,
        },
        isKept: slower <= most,
      },
      {
        case: `${name}, processor time`,
        ...{
          keyward: of("with_", "cpuMs"),
          limit: of("without", "cpuMs"),
          unit: "ms",
          bar: `≤ ${1 + most} × limit`,
        },
        isKept: dearer <= most,
      },
    ];
  } finally {
    await world.close();
  }
}

if (isStarted(import.meta))
  showRows(
    await issuingRows({
      ...flagsOf(["connections", "seconds", "rounds", "alerts", "matching", "warmup"]),
      say: console.log,
    }),
  );
