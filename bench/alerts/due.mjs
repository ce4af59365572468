// node bench/alerts/due.mjs [--most 1000000]
// How long it takes to find what is due: with ten thousand and with a million certificates of which none is, for a
// thousand alerts; then with a hundred due for each of the thousand. Runs inside this process, on a PostgreSQL of its own.
import { openTestHouse } from "../../server/dist/test/harness.js";

const ALERTS = 1000;
const at = process.argv.indexOf("--most");
const MOST = at < 0 ? 1_000_000 : Number(process.argv[at + 1]);
const house = await openTestHouse({ env: { KEYWARD_ALLOW_PRIVATE_TARGETS: "127.0.0.0/8" } });
const raw = (text, values = []) =>
  house.house.database.write((tx) => tx.rows({ name: undefined, isSlow: false, text }, values), {
    audited: false,
  });
const seed = async (projectId, count, from, step) => {
  for (let at = 0; at < count; at += 5000)
    await raw(
      `INSERT INTO certificates (id, project_id, not_before, not_after, created_at, updated_at, source, serial_number, common_name, search_text, alt_names, key_fingerprint)
       SELECT gen_random_uuid(), $1, now(), now() + $2::interval + g * $3::interval, now(), now(), 'issued', $4 || '-' || g, 'host-' || g, 'host-' || g, '[]', decode(md5(g::text), 'hex')
       FROM generate_series($5::int, $6::int) g`,
      [projectId, from, step, `${projectId}${from}${count}`, at + 1, Math.min(count, at + 5000)],
    );
};
const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
const look = house.house.alertWork.jobs.find((job) => job.name === "alert-due");
const timed = async () => {
  const began = performance.now();
  await look.run();
  return performance.now() - began;
};

try {
  const made = await house.owner.post("/api/v1/projects", { projectName: "due", type: "cert-manager" });
  const projectId = made.body.project.id;
  for (let n = 0; n < ALERTS; n += 1) {
    const { status } = await house.owner.post("/api/v1/cert-manager/alerts", {
      projectId,
      name: `alert ${n}`,
      eventType: "expiration",
      alertBefore: `${1 + (n % 60)}d`,
      filters: [],
      channels: [{ config: { recipients: ["ops@example.com"] } }],
    });
    if (status !== 200) throw new Error(String(status));
  }
  for (const count of [10_000, MOST]) {
    await seed(projectId, count, "100 days", "10 seconds");
    await raw("ANALYZE certificates");
    await raw("UPDATE alerts SET looked_at = NULL");
    const full = await timed();
    const times = [];
    for (let round = 0; round < 7; round += 1) times.push(await timed());
    console.log(
      `${count} not due, ${ALERTS} alerts: first look ${full.toFixed(0)} ms, then ${median(times).toFixed(0)} ms`,
    );
  }
  await seed(projectId, 100, "1 hour", "1 second");
  await raw("UPDATE alerts SET looked_at = NULL");
  console.log(`100 due for each of ${ALERTS} alerts: ${((await timed()) / 1000).toFixed(1)} s`);
  const [{ messages, occasions }] = await raw(
    "SELECT (SELECT count(*) FROM alert_messages) AS messages, (SELECT count(*) FROM alert_occasions WHERE message_id IS NOT NULL) AS occasions",
  );
  console.log(`${messages} messages about ${occasions} occasions`);
} finally {
  await house.close();
}
