import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { clientOf, type Client } from "../../harness.ts";
import { withClient, type TestDatabase } from "../../postgres.ts";
import type { ServerProcess } from "../../process.ts";
import {
  claimsRunOut,
  gather,
  holds,
  judgeSilence,
  openCluster,
  pause,
  type Outcome,
  type ScenarioOptions,
} from "../ground.ts";
import { Ledger } from "../ledger.ts";
import { judge, judgeTables, startLoad } from "../load.ts";
import { startWitness } from "../witness.ts";

const DAY = 86_400_000;
const PRELOAD = new URL("../moved-clock.js", import.meta.url).href;
/** Forward a day and a month, back by a month, into the past, and right again. */
const STEPS = [
  { name: "a day ahead", offset: DAY },
  { name: "a month ahead", offset: 31 * DAY },
  { name: "right", offset: 0 },
  { name: "a day behind", offset: -DAY },
  { name: "right again", offset: 0 },
] as const;
/** Looked at by every node every few seconds. */
const FREQUENT_JOBS = ["certificates-lists", "alert-facts"];

/** A token that lives for an hour. */
async function anHour(client: Client): Promise<string> {
  const { body: made } = await client.post("/api/v1/identities", { name: "for an hour" });
  const path = `/api/v1/auth/token-auth/identities/${made.identity.id}`;
  await client.post(path, { accessTokenTTL: 3600, accessTokenMaxTTL: 3600 });
  return (await client.post(`${path}/tokens`, {})).body.accessToken;
}

/** Whether the frequent jobs were done within the last seconds, by the right time. */
async function jobsGoOn(database: TestDatabase): Promise<boolean> {
  return withClient(database.server, database.connection.database, async (client) => {
    const { rowCount } = await client.query(
      "SELECT FROM jobs WHERE name = ANY($1) AND last_finished_at BETWEEN now() - interval '20 seconds' AND now() + interval '20 seconds'",
      [FREQUENT_JOBS],
    );
    return rowCount === FREQUENT_JOBS.length;
  });
}

const METRICS_TOKEN = "a token for the metrics of this run";

/** How far a node knows its clock to be behind the database's, in milliseconds. */
async function offsetOf({ base }: ServerProcess): Promise<number> {
  const answer = await fetch(`${base}/metrics`, { headers: { authorization: `Bearer ${METRICS_TOKEN}` } });
  return Number(/^keyward_clock_offset_seconds (\S+)$/m.exec(await answer.text())?.[1]) * 1000;
}

/**
 * the clock of one of two running nodes steps, by a day and by a month, ahead and back. Requests, events and
 * deliveries go on; the node notices, and whether a token has expired is decided by the database's time; when the clock is
 * right again so is everything, jobs included.
 */
export async function clockSteps({ seed, seconds, say }: ScenarioOptions): Promise<Outcome> {
  const folder = mkdtempSync(join(tmpdir(), "keyward-clock-"));
  const file = join(folder, "offset");
  writeFileSync(file, "0");
  const cluster = await openCluster(2, (node) => ({
    ...{ KEYWARD_ALLOW_PRIVATE_TARGETS: "127.0.0.0/8", KEYWARD_METRICS_TOKEN: METRICS_TOKEN },
    ...(node === 0 ? { NODE_OPTIONS: `--import=${PRELOAD}`, KEYWARD_TEST_CLOCK: file } : {}),
  }));
  const { place } = cluster;
  const [moved, still] = cluster.nodes as [ServerProcess, ServerProcess];
  const at = (node: ServerProcess, token: string = place.token): Client => clientOf(node.base, token);
  const faults: string[] = [];
  const ledger = new Ledger();
  const bases = [moved.base, still.base];
  const base = (turn: number): string => bases[turn % 2] ?? "";
  // Otherwise, by the clock of the moved node, the licence is over or not yet begun, and with it, rightly, its streams.
  const [notBefore, notAfter] = [-3, 365].map((days) => new Date(Date.now() + days * DAY).toISOString());
  const licence = { organizationId: place.orgId, plan: "enterprise", notBefore, notAfter };
  const granted = await at(still).post("/api/v1/admin/licences", licence);
  if (granted.status !== 200) throw new Error(`no licence: ${JSON.stringify(granted.body)}`);
  // A CA that is not valid yet, by the clock of the node that is behind, issues nothing there.
  const witness = await startWitness({ place, base, listenAt: bases, allowed: [400] });
  const load = startLoad({
    ...{ seed, generation: 0, writers: 4, place, ledger, base },
    without: ["certificate"],
  });
  const opens = async (node: ServerProcess, token: string): Promise<boolean> =>
    (await at(node, token).post("/api/v1/auth/checkAuth")).status === 200;
  try {
    const short = await anHour(at(still));
    for (const { name, offset } of STEPS) {
      writeFileSync(file, String(offset));
      moved.child.kill("SIGUSR2");
      // Compared as soon as it is noticed; before and after, the node goes by the database's time, as all do.
      const isNoticed = await holds(async () => Math.abs((await offsetOf(moved)) + offset) < 60_000, 30);
      if (!isNoticed) faults.push(`${name}: the clock did not move, or nobody noticed`);
      for (const [index, node] of cluster.nodes.entries()) {
        if (!(await opens(node, short))) faults.push(`${name}: node ${index} refuses a good token`);
        const { body } = await at(node).post("/api/v1/identities", { name: "clock reading" });
        const off = Date.parse(body.identity.createdAt) - Date.now();
        if (Math.abs(off) > 60_000) faults.push(`${name}: what node ${index} writes is dated ${off} ms off`);
      }
      await pause(Math.min(15_000, (seconds * 1000) / STEPS.length));
      for (const [index, node] of cluster.nodes.entries()) {
        const write = await at(node).post("/api/v1/identities", { name: "goes on" });
        if (write.status !== 200) faults.push(`${name}: node ${index} answers ${write.status} to a write`);
      }
      say?.(
        `${name}: ${JSON.stringify({ statuses: load.statuses, ...witness.counts, faults: faults.length })}`,
      );
    }
    if (!(await holds(() => jobsGoOn(cluster.database), 60)))
      faults.push("the clock is right and jobs stand still");
    await load.stop();
    await witness.stop();
    gather(faults, load, cluster.nodes);
    judgeSilence(faults, load);
    await claimsRunOut(cluster.database.connection);
    faults.push(...(await witness.judge(still.base, 120)));
    for (const node of cluster.nodes) faults.push(...(await judge(node.base, place, ledger)));
    faults.push(...(await judgeTables(cluster.database.connection, ledger)));
    return { faults, seen: { ...witness.counts, statuses: load.statuses, unanswered: ledger.unanswered } };
  } finally {
    await load.stop();
    await witness.close();
    await cluster.close();
    rmSync(folder, { recursive: true, force: true });
  }
}
