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

/**
 * the clock of one of two running nodes steps, by a day and by a month, ahead and back. Requests, events and
 * deliveries go on; a token's end is judged by the clock of the node that is asked, and for good by nobody; when the
 * clock is right again so is everything, jobs included.
 */
export async function clockSteps({ seed, seconds, say }: ScenarioOptions): Promise<Outcome> {
  const folder = mkdtempSync(join(tmpdir(), "keyward-clock-"));
  const file = join(folder, "offset");
  writeFileSync(file, "0");
  const cluster = await openCluster(2, (node) => ({
    KEYWARD_ALLOW_PRIVATE_TARGETS: "127.0.0.0/8",
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
  // An authority that is not valid yet, by the clock of the node that is behind, issues nothing there.
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
      const isMoved = await holds(async () => {
        const { body } = await at(moved).post("/api/v1/identities", { name: "clock reading" });
        return Math.abs(Date.parse(body.identity.createdAt) - Date.now() - offset) < 60_000;
      }, 30);
      if (!isMoved) faults.push(`${name}: the clock did not move; nothing was tried`);
      if (!(await opens(still, short))) faults.push(`${name}: the other node took a token for expired`);
      const isExpected = offset <= 0;
      if ((await opens(moved, short)) !== isExpected)
        faults.push(`${name}: the node ${isExpected ? "refuses a good" : "takes an old"} token`);
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
