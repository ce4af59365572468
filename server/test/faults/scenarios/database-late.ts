/** P-13: a database that answers each time five seconds late. Background jobs must not take all connections. */
import { clientOf, type Answer } from "../../harness.ts";
import { withClient } from "../../postgres.ts";
import type { ServerProcess } from "../../process.ts";
import {
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

/** Half of it each way. The rest of five seconds is for connecting, which is given up after as long. */
const LATE_MS = 4600;
/** Rate counts, last uses of tokens: one connection each. */
const MOST_FOR_CHORES = 2;
const WRITERS = 8;
/** A change takes several journeys, so there are few of them. */
const FEWEST = 3;
const CHORES = "INTO rate_limits|last_used_at = greatest";

export async function databaseLate({ seed, seconds, say }: ScenarioOptions): Promise<Outcome> {
  // Limits that nobody reaches, but near enough for the counts to be shared.
  const limits = Object.fromEntries(
    ["READ", "WRITE", "LOGIN"].map((kind) => [`KEYWARD_RATE_LIMIT_${kind}`, "4000"]),
  );
  const cluster = await openCluster(1, () => limits);
  const { place, database } = cluster;
  const [node] = cluster.nodes as [ServerProcess];
  const [proxy] = cluster.proxies as [Proxy];
  const faults: string[] = [];
  const ledger = new Ledger();
  const client = clientOf(node.base, place.token);
  const load = startLoad({ seed, generation: 0, writers: WRITERS, place, ledger, base: () => node.base });
  let [isOver, mostChores, mostBackends, reads] = [false, 0, 0, 0];
  const chores = async (): Promise<{ chores: number; all: number }> =>
    withClient(database.server, database.connection.database, async (asked) => {
      const { rows } = await asked.query<{ chores: number; all: number }>(
        `SELECT count(*) FILTER (WHERE state <> 'idle' AND query ~ '${CHORES}')::int AS chores, count(*)::int AS all
         FROM pg_stat_activity WHERE application_name = 'keyward' AND datname = current_database()`,
      );
      return rows[0] ?? { chores: 0, all: 0 };
    });
  const watching = async (): Promise<void> => {
    while (!isOver) {
      const now = await chores();
      mostChores = Math.max(mostChores, now.chores);
      mostBackends = Math.max(mostBackends, now.all);
      await pause(200);
    }
  };
  const reading = async (): Promise<void> => {
    while (!isOver) {
      const answer: Answer | undefined = await client
        .get(`/api/v1/projects/${place.projectId}`)
        .catch(() => undefined);
      if (answer === undefined) faults.push("a reading got no answer");
      else if (answer.status === 200) reads += 1;
      else if (answer.status !== 503) faults.push(`a reading answered ${answer.status}`);
      await pause(100);
    }
  };
  try {
    await pause(4000);
    const [usual, made] = [await chores(), load.statuses[200] ?? 0];
    proxy.set({ kind: "slow", ms: LATE_MS / 2 });
    const watched = Promise.all([watching(), reading()]);
    await pause(Math.max(30_000, Math.min(60_000, seconds * 1000)));
    const madeLate = (load.statuses[200] ?? 0) - made;
    isOver = true;
    proxy.set({ kind: "fair" });
    await watched;
    say?.(`late: ${JSON.stringify({ madeLate, reads, mostChores, statuses: load.statuses })}`);
    if (mostChores > MOST_FOR_CHORES)
      faults.push(`rate counts and last uses held ${mostChores} connections at once`);
    if (mostChores === 0) faults.push("no rate count and no last use was written: nothing was tried");
    if (madeLate < FEWEST) faults.push(`while the database was late only ${madeLate} changes were made`);
    if (reads === 0) faults.push("while the database was late nothing could be read");
    const isBack = await holds(
      async () => (await client.post("/api/v1/identities", { name: "back" })).status === 200,
      20,
    );
    if (!isBack || node.child.exitCode !== null)
      faults.push(`no recovery; its last words: ${lastWords(node)}`);
    await pause(1000);
    await load.stop();
    gather(faults, load, [node]);
    judgeSilence(faults, load);
    faults.push(
      ...(await judge(node.base, place, ledger)),
      ...(await judgeTables(database.connection, ledger)),
    );
    return {
      faults,
      seen: {
        ...{ madeLate, reads, mostChores, backends: `${usual.all}, then at most ${mostBackends}` },
        ...{ statuses: load.statuses, unanswered: ledger.unanswered },
      },
    };
  } finally {
    isOver = true;
    proxy.set({ kind: "fair" });
    await load.stop();
    await cluster.close();
  }
}
