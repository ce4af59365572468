// node bench/alerts/issuing.mjs [--connections 16] [--seconds 4] [--rounds 5] [--alerts 1000]
// What alerts that do not match cost whoever issues certificates: the same issuing in a project without alerts and in
// one with a thousand, in turns, so that the ratio means something on any machine. On a machine with other work, look
// at the processor time per certificate (of the server and its database together) instead of the rate.
import { readdirSync, readFileSync } from "node:fs";
import { load } from "../load.mjs";
import { openWorld } from "../certificates/world.mjs";

const flag = (name, fallback) => {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? fallback : Number(process.argv[at + 1]);
};
const [connections, seconds, rounds, alerts] = [
  flag("connections", 16),
  flag("seconds", 4),
  flag("rounds", 5),
  flag("alerts", 1000),
];
const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
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

const world = await openWorld();
try {
  const profileId = await world.profile("bench");
  const make = (n) =>
    world.call("POST", ALERTS, {
      projectId: world.projectId,
      name: `alert ${n}`,
      eventType: "issuance",
      filters: [{ value: `service-${n}.nowhere.example.org` }],
      channels: [{ config: { recipients: ["ops@example.com"] } }],
    });
  for (let n = 0; n < alerts; n += 1) await make(n);
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
  // The alerts step aside and come back: same project, same tables, same process.
  const [with_, without] = [[], []];
  const setAside = async (isAside) => {
    await world.database.query(
      isAside
        ? "BEGIN; CREATE TABLE IF NOT EXISTS aside AS SELECT * FROM alerts; CREATE TABLE IF NOT EXISTS aside_channels AS SELECT * FROM alert_channels; DELETE FROM alerts; COMMIT"
        : "BEGIN; INSERT INTO alerts SELECT * FROM aside; INSERT INTO alert_channels SELECT * FROM aside_channels; COMMIT",
    );
    await new Promise((done) => setTimeout(done, 1500));
  };
  const {
    rows: [{ pid: backend }],
  } = await world.database.query("SELECT pg_backend_pid() AS pid");
  const postmaster = Number(statOf(backend)[1]);
  const spent = () => cpuSeconds(world.keyward.pid, false) + cpuSeconds(postmaster, true);
  const measure = async (into) => {
    const before = spent();
    const { rate, statuses } = await load(world.keyward.base, issue, { connections, seconds });
    if (Object.keys(statuses).some((status) => status !== "200")) throw new Error(JSON.stringify(statuses));
    // What was put off until after the answer belongs to it.
    await new Promise((done) => setTimeout(done, 500));
    into.push({ rate, cpuMs: ((spent() - before) * 1000) / statuses["200"] });
  };
  await load(world.keyward.base, issue, { connections, seconds: 2 });
  for (let round = 0; round < rounds; round += 1) {
    const isFirst = round % 2 === 0;
    if (isFirst) await measure(with_);
    await setAside(true);
    await measure(without);
    await setAside(false);
    if (!isFirst) await measure(with_);
  }
  const report = (what, field, costOf) => {
    const costs = with_.map((one, index) => costOf(one[field], without[index][field]) * 100);
    const [a, b] = [without, with_].map((all) => median(all.map((one) => one[field])).toFixed(2));
    console.log(
      `${what}: ${a} without, ${b} with ${alerts}; cost ${median(costs).toFixed(1)} % (${costs.map((one) => one.toFixed(1)).join(", ")})`,
    );
  };
  report("issued per second", "rate", (mine, bare) => 1 - mine / bare);
  report("processor time per certificate, ms", "cpuMs", (mine, bare) => mine / bare - 1);
} finally {
  await world.close();
}
