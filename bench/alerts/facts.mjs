// node bench/alerts/facts.mjs [--rounds 6] [--alerts 1000]
// What a thousand issuance alerts that do not match add to each issued certificate, in processor time of server and
// database: certificates are stated in a project without alerts and in one with a thousand, in turns, thirty per turn
// of the reader (three hundred a second), beside what issuing over HTTP takes. Processor time, unlike a rate, can be
// compared on a machine that has other work.
import { readdirSync, readFileSync } from "node:fs";
import { openTestHouse } from "../../server/dist/test/harness.js";
import { inventory } from "../../server/dist/test/alert-receiver.js";
import { aPki, issue } from "../../server/dist/test/certificates.js";

const flag = (name, fallback) => {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? fallback : Number(process.argv[at + 1]);
};
const [rounds, alerts] = [flag("rounds", 6), flag("alerts", 1000)];
const [PER_TURN, PER_ROUND] = [30, 300];
const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
const statOf = (pid) => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  } catch {
    return undefined;
  }
};

const house = await openTestHouse();
const raw = (text, values = []) =>
  house.house.database.write((tx) => tx.rows({ name: undefined, isSlow: false, text }, values), {
    audited: false,
  });
const [{ pid }] = await raw("SELECT pg_backend_pid() AS pid");
const postmaster = Number(statOf(pid)[1]);
/** Milliseconds of this process and of all of PostgreSQL's. */
const spent = () => {
  const { user, system } = process.cpuUsage();
  let ticks = 0;
  for (const name of readdirSync("/proc").filter((one) => /^\d+$/.test(one))) {
    const fields = statOf(name);
    if (fields && Number(fields[1]) === postmaster) ticks += Number(fields[11]) + Number(fields[12]);
  }
  return (user + system) / 1000 + ticks * 10;
};
const facts = house.house.alertWork.jobs.find((job) => job.name === "alert-facts");
const store = inventory(house.house.database, house.owner.orgId);
const state = async (projectId) => {
  const before = spent();
  for (let n = 0; n < PER_ROUND; n += 1) {
    const now = Date.now();
    await store.issue({
      projectId,
      commonName: `host-${n}.example.com`,
      notBefore: new Date(now),
      notAfter: new Date(now + 90 * 86_400_000),
    });
    if (n % PER_TURN === PER_TURN - 1) await facts.run();
  }
  return (spent() - before) / PER_ROUND;
};

try {
  const [bare, watched] = [await aPki(house), await aPki(house)];
  for (let n = 0; n < alerts; n += 1)
    await house.owner.post("/api/v1/cert-manager/alerts", {
      projectId: watched.project.id,
      name: `alert ${n}`,
      eventType: "issuance",
      filters: [{ value: `service-${n}.nowhere.example.org` }],
      channels: [{ config: { recipients: ["ops@example.com"] } }],
    });
  await state(bare.project.id);
  await state(watched.project.id);
  const [without, with_, whole] = [[], [], []];
  for (let round = 0; round < rounds; round += 1) {
    without.push(await state(bare.project.id));
    with_.push(await state(watched.project.id));
    const before = spent();
    for (let n = 0; n < 100; n += 1) await issue(house.owner, bare.profile.id, { ttl: "90d" });
    whole.push((spent() - before) / 100);
  }
  const extra = with_.map((one, index) => one - without[index]);
  const share = (median(extra) / median(whole)) * 100;
  console.log(
    `per certificate: ${median(extra).toFixed(3)} ms more with ${alerts} alerts (${extra.map((one) => one.toFixed(2)).join(", ")}); ` +
      `issuing takes ${median(whole).toFixed(2)} ms; cost ${share.toFixed(1)} %`,
  );
} finally {
  await house.close();
}
