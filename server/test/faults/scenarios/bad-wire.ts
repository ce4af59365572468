import { clientOf } from "../../harness.ts";
import { withClient, type TestDatabase } from "../../postgres.ts";
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
import { dice, judge, judgeTables, startLoad, type Place } from "../load.ts";
import type { Proxy } from "../proxy.ts";
import { startWitness } from "../witness.ts";

/** the database connection is slow, cut, or cut after COMMIT; then the database is unreachable, then read-only. */
export async function badWire({ seed, seconds, say }: ScenarioOptions): Promise<Outcome> {
  const roll = dice(seed);
  const cluster = await openCluster(1, () => ({ KEYWARD_ALLOW_PRIVATE_TARGETS: "127.0.0.0/8" }));
  const { place, database } = cluster;
  const [node] = cluster.nodes as [ServerProcess];
  const [proxy] = cluster.proxies as [Proxy];
  const faults: string[] = [];
  const ledger = new Ledger();
  const client = clientOf(node.base, place.token);
  const base = () => node.base;
  const witness = await startWitness({ place, base, listenAt: [node.base], mayEnd: true });
  const load = startLoad({ seed, generation: 0, writers: 4, place, ledger, base });
  const phases: Record<string, number> = {};
  // Until a silent connection times out half a minute passes.
  const PHASES = process.env["KEYWARD_FAULTS_PHASE"]?.split(",") ?? [
    "slow",
    "cuts",
    "cut-after-commit",
    "away",
    "read-only",
    ...(seconds > 20 ? ["silent"] : []),
  ];
  const recovers = async (after: string): Promise<void> => {
    proxy.set({ kind: "fair" });
    // What was swallowed stays lost: those connections are dead and learn it now, or by their own patience.
    if (after === "silent") proxy.cut();
    const isBack = await holds(
      async () =>
        (await client.post("/api/v1/auth/checkAuth")).status === 200 &&
        (await client.get(`/api/v4/secrets?projectId=${place.projectId}&environment=dev`)).status === 200,
      20,
    );
    if (!isBack) faults.push(`no recovery after: ${after}`);
    if (node.child.exitCode !== null)
      faults.push(`the server ended after: ${after}; its last words: ${lastWords(node)}`);
  };
  try {
    await pause(300);
    const until = performance.now() + seconds * 1000;
    for (let n = 0; performance.now() < until && faults.length === 0; n += 1) {
      const phase: string = PHASES[n < PHASES.length ? n : roll(PHASES.length)] ?? "slow";
      phases[phase] = (phases[phase] ?? 0) + 1;
      const ms = Math.min(3000, seconds * 100);
      if (phase === "slow") {
        proxy.set({ kind: "slow", ms: 5 + roll(30) });
        await pause(ms);
      } else if (phase === "cuts") {
        for (let cut = 0; cut < 5; cut += 1) {
          await pause(ms / 10 + roll(100));
          proxy.cut();
        }
      } else if (phase === "cut-after-commit") {
        proxy.set({ kind: "cut-after-commit", every: 2 + roll(4) });
        await pause(ms);
      } else if (phase === "away" || phase === "silent") {
        proxy.set({ kind: phase });
        const answer = await client.post("/api/v1/identities", { name: "nobody" }).catch(() => undefined);
        if (answer?.status !== 503 || answer.headers.get("retry-after") === null)
          faults.push(
            `with the database ${phase} a write answered ${answer?.status} ${JSON.stringify(answer?.body)}, retry-after ${answer?.headers.get("retry-after")}`,
          );
        await pause(ms);
      } else {
        faults.push(...(await whileReadOnly(database, client, place)));
      }
      await recovers(phase);
      say?.(
        `wire ${n}, ${phase}: ${JSON.stringify({ statuses: load.statuses, cuts: proxy.cuts(), faults: faults.length })}`,
      );
    }
    await load.stop();
    await witness.stop();
    gather(faults, load, [node]);
    judgeSilence(faults, load);
    faults.push(...(await judge(node.base, place, ledger)));
    faults.push(...(await judgeTables(database.connection, ledger)));
    await claimsRunOut(cluster.database.connection);
    faults.push(...(await witness.judge(node.base, 60)));
    if (phases["cut-after-commit"] && proxy.cuts() === 0)
      faults.push("no COMMIT was seen on the wire: the worst moment was never tried");
    const isJudged = ledger.acknowledged > 0;
    if (!isJudged) faults.push("nothing was acknowledged: the load did not run");
    return {
      faults,
      seen: {
        ...{ phases, cutsAfterCommit: proxy.cuts(), statuses: load.statuses, unanswered: ledger.unanswered },
        ...witness.counts,
      },
    };
  } finally {
    await load.stop();
    await witness.close();
    await cluster.close();
  }
}

/** what a full disk or a standby looks like from here. Reading goes on. */
async function whileReadOnly(
  database: TestDatabase,
  client: ReturnType<typeof clientOf>,
  place: Place,
): Promise<string[]> {
  const { database: name } = database.connection;
  const faults: string[] = [];
  const all = (text: string) => withClient(database.server, "postgres", (admin) => admin.query(text));
  const dropConnections = () =>
    all(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${name}'`);
  await all(`ALTER DATABASE ${name} SET default_transaction_read_only = on`);
  await dropConnections();
  try {
    const reads = await holds(
      async () =>
        (await client.get(`/api/v4/secrets?projectId=${place.projectId}&environment=dev`)).status === 200,
      10,
    );
    if (!reads) faults.push("on a read-only database reading does not go on");
    const write = await client.post("/api/v1/identities", { name: "nobody" });
    if (write.status !== 503 || write.headers.get("retry-after") === null)
      faults.push(`on a read-only database a write answered ${write.status} ${JSON.stringify(write.body)}`);
  } finally {
    await all(`ALTER DATABASE ${name} RESET default_transaction_read_only`);
    await dropConnections();
  }
  return faults;
}
