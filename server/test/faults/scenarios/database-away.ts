import { clientOf } from "../../harness.ts";
import type { ServerProcess } from "../../process.ts";
import {
  claimsRunOut,
  gather,
  holds,
  judgeSilence,
  lastWords,
  openCluster,
  pause,
  type Outcome,
  type ScenarioOptions,
} from "../ground.ts";
import { Ledger } from "../ledger.ts";
import { judge, judgeTables, startLoad } from "../load.ts";
import type { Proxy } from "../proxy.ts";
import { startWitness } from "../witness.ts";

/** How long the database stays away in a full run. */
const AWAY_SECONDS = 30;

/**
 * the database is away for half a minute under mixed load. Every request is answered 503 with a time to come
 * again, the server lives, comes back by itself, and neither an event nor an alert's delivery is lost.
 */
export async function databaseAway({ seed, seconds, say }: ScenarioOptions): Promise<Outcome> {
  const cluster = await openCluster(1, () => ({ KEYWARD_ALLOW_PRIVATE_TARGETS: "127.0.0.0/8" }));
  const { place } = cluster;
  const [node] = cluster.nodes as [ServerProcess];
  const [proxy] = cluster.proxies as [Proxy];
  const faults: string[] = [];
  const seen: Record<string, number> = {};
  const ledger = new Ledger();
  const client = clientOf(node.base, place.token);
  const witness = await startWitness({ place, base: () => node.base, listenAt: [node.base] });
  const load = startLoad({ seed, generation: 0, writers: 4, place, ledger, base: () => node.base });
  const count = (what: string): void => void (seen[what] = (seen[what] ?? 0) + 1);
  try {
    await pause(Math.min(2000, seconds * 200));
    const awaySeconds = Math.min(AWAY_SECONDS, seconds / 2);
    proxy.set({ kind: "away" });
    const until = performance.now() + awaySeconds * 1000;
    while (performance.now() < until) {
      const write = await client.post("/api/v1/identities", { name: "nobody" });
      const read = await client.get(`/api/v1/projects/${place.projectId}/roles`);
      for (const [what, { status, headers }] of Object.entries({ write, read })) {
        count(`${what} ${status}`);
        if (status === 503 && headers.get("retry-after") === null) faults.push(`a 503 without retry-after`);
        if (what === "write" && status !== 503) faults.push(`a write answered ${status} without a database`);
        if (status !== 503 && status !== 200) faults.push(`a ${what} answered ${status} without a database`);
      }
      await pause(Math.min(1000, awaySeconds * 100));
    }
    say?.(`away for ${awaySeconds} s: ${JSON.stringify({ ...seen, statuses: load.statuses })}`);
    proxy.set({ kind: "fair" });
    const backFrom = performance.now();
    const isBack = await holds(
      async () => (await client.post("/api/v1/identities", { name: "back" })).status === 200,
      30,
    );
    seen["ms until back"] = Math.round(performance.now() - backFrom);
    if (!isBack) faults.push(`no recovery after ${awaySeconds} s; its last words: ${lastWords(node)}`);
    await pause(Math.min(3000, seconds * 200));
    if (node.child.exitCode !== null) faults.push(`the server ended; its last words: ${lastWords(node)}`);
    await load.stop();
    await witness.stop();
    gather(faults, load, [node]);
    judgeSilence(faults, load);
    await claimsRunOut(cluster.database.connection);
    faults.push(...(await witness.judge(node.base, 120)));
    faults.push(...(await judge(node.base, place, ledger)));
    faults.push(...(await judgeTables(cluster.database.connection, ledger)));
    return {
      faults,
      seen: { ...seen, ...witness.counts, statuses: load.statuses, unanswered: ledger.unanswered },
    };
  } finally {
    await load.stop();
    await witness.close();
    await cluster.close();
  }
}
