// node bench/alerts/due.mjs [--most 1000000]
// How long it takes to find what is due: with ten thousand and with a million certificates of which none is, for a
// thousand alerts; then with a hundred due for each of the thousand. Runs inside this process, on a PostgreSQL of its own.
import { openTestHouse } from "../../server/dist/test/harness.js";
import { flagsOf, isStarted, median, showRows } from "../bars.mjs";

const ALERTS = 1000;
const FEW = 10_000;
const AT_ONCE = 50_000;
const LOOKS = 7;

async function makeAlerts(house, projectId) {
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
}

export async function dueRows({ most = 1_000_000, say = () => {} } = {}) {
  const house = await openTestHouse({ env: { KEYWARD_ALLOW_PRIVATE_TARGETS: "127.0.0.0/8" } });
  const raw = (text, values = []) =>
    house.house.database.write((tx) => tx.rows({ name: undefined, isSlow: true, text }, values), {
      audited: false,
    });
  // Search has no part in this, and its index would take longer than all the rest.
  await raw("DROP INDEX certificates_search");
  const seed = async (projectId, count, from, step) => {
    for (let at = 0; at < count; at += AT_ONCE)
      await raw(
        `INSERT INTO certificates (id, project_id, not_before, not_after, created_at, updated_at, source, serial_number, common_name, search_text, alt_names, key_fingerprint)
         SELECT gen_random_uuid(), $1, now(), now() + $2::interval + g * $3::interval, now(), now(), 'issued', $4 || '-' || g, 'host-' || g, 'host-' || g, '[]', decode(md5(g::text), 'hex')
         FROM generate_series($5::int, $6::int) g`,
        [projectId, from, step, `${projectId}${from}${count}`, at + 1, Math.min(count, at + AT_ONCE)],
      );
  };
  const look = house.house.alertWork.jobs.find((job) => job.name === "alert-due");
  const timed = async () => {
    const began = performance.now();
    await look.run();
    return performance.now() - began;
  };
  try {
    const made = await house.owner.post("/api/v1/projects", { projectName: "due", type: "cert-manager" });
    const projectId = made.body.project.id;
    await makeAlerts(house, projectId);
    const looks = [];
    for (const count of [FEW, most]) {
      await seed(projectId, count, "100 days", "10 seconds");
      await raw("ANALYZE certificates");
      await raw("UPDATE alerts SET looked_at = NULL");
      const first = await timed();
      const times = [];
      for (let round = 0; round < LOOKS; round += 1) times.push(await timed());
      looks.push({ first, later: median(times) });
      say(
        `${count} not due, ${ALERTS} alerts: first look ${first.toFixed(0)} ms, then ${median(times).toFixed(0)} ms`,
      );
    }
    await seed(projectId, 100, "1 hour", "1 second");
    await raw("UPDATE alerts SET looked_at = NULL");
    const due = await timed();
    const [{ messages, occasions }] = await raw(
      "SELECT (SELECT count(*) FROM alert_messages) AS messages, (SELECT count(*) FROM alert_occasions WHERE message_id IS NOT NULL) AS occasions",
    );
    say(
      `100 due for each of ${ALERTS} alerts: ${messages} messages about ${occasions} occasions in ${(due / 1000).toFixed(1)} s`,
    );
    const [few, many] = looks;
    const name = `look for what is due among ${most.toLocaleString("en")} certificates, ${ALERTS} alerts`;
    const slowest = Math.max(many.first, many.later);
    return [
      {
        case: `${name}, the slowest`,
        keyward: slowest,
        limit: null,
        unit: "ms",
        bar: "≤ 2000",
        isKept: slowest <= 2000,
      },
      {
        case: `${name}, against ${FEW.toLocaleString("en")}`,
        ...{ keyward: many.later, limit: few.later, unit: "ms", bar: "≤ 2 × limit" },
        isKept: many.later <= 2 * few.later,
      },
    ];
  } finally {
    await house.close();
  }
}

if (isStarted(import.meta)) showRows(await dueRows({ ...flagsOf(["most"]), say: console.log }));
