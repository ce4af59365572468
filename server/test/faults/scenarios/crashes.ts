import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { clientOf } from "../../harness.ts";
import { startServer, type ServerProcess } from "../../process.ts";
import {
  claimsRunOut,
  gather,
  holds,
  lastWords,
  pause,
  postmasterOf,
  READY,
  watch,
  type Outcome,
  type ScenarioOptions,
} from "../ground.ts";
import { Ledger } from "../ledger.ts";
import { dice, furnish, judge, judgeTables, startLoad, type Place } from "../load.ts";
import { startWitness, type Witness } from "../witness.ts";

/** A server waits longer before each start of a PostgreSQL that keeps dying; more than this would be all waiting. */
const POSTGRES_KILLS_A_MINUTE = 4;

/** To tell slow from stuck, also on a machine that has other things to do. */
const PATIENCE_SECONDS = 180;

/** On a starved machine a start may miss a time-out of its own; whoever runs a server tries again, and so do we. */
async function startAgain(env: Record<string, string>): Promise<ServerProcess> {
  const deadline = performance.now() + PATIENCE_SECONDS * 1000;
  for (;;) {
    try {
      return watch(await startServer(env));
    } catch (error) {
      if (performance.now() > deadline || !(error as Error).message.includes("timeout expired")) throw error;
    }
  }
}

async function isBackAlone(base: string, place: Place, name: string): Promise<boolean> {
  return holds(
    async () => (await clientOf(base, place.token).post("/api/v1/identities", { name })).status === 200,
    PATIENCE_SECONDS,
  );
}

/**
 * kill -9 of the server, of its PostgreSQL, or of both, at random moments under load; after each, everything is
 * judged. Goes on for `seconds`, or for KEYWARD_KILLS kills when that is set.
 */
export async function crashes({ seed, seconds, say }: ScenarioOptions): Promise<Outcome> {
  const roll = dice(seed);
  const dataDir = mkdtempSync(join(tmpdir(), "keyward-faults-"));
  const env = { ...READY, KEYWARD_DATA_DIR: dataDir, KEYWARD_ALLOW_PRIVATE_TARGETS: "127.0.0.0/8" };
  const faults: string[] = [];
  const killed = { server: 0, postgres: 0, both: 0 };
  const wanted = Number(process.env["KEYWARD_KILLS"] ?? 0);
  const ledger = new Ledger();
  const statuses: Record<string, number> = {};
  let server: ServerProcess | undefined = watch(await startServer(env));
  let witness: Witness | undefined;
  try {
    const place = await furnish(server.base);
    // Streams end with their server; webhooks must still be sent.
    witness = await startWitness({ place, base: () => server?.base ?? "http://127.0.0.1:9", listenAt: [] });
    const until = performance.now() + seconds * 1000;
    // Only those that the present server process has seen: it counts from its start.
    let postgresKills: number[] = [];
    const isOver = (generation: number): boolean =>
      wanted > 0 ? generation >= wanted : performance.now() >= until;
    for (let generation = 0; !isOver(generation) && faults.length === 0; generation += 1) {
      const load = startLoad({ seed, generation, writers: 4, place, ledger, base: () => server?.base });
      await pause(200 + roll(800));
      const recent = postgresKills.filter((at) => performance.now() - at < 61_000).length;
      const victim = roll(5);
      if (victim < 2 && recent < POSTGRES_KILLS_A_MINUTE) {
        postgresKills.push(performance.now());
        process.kill(postmasterOf(dataDir).pid, "SIGKILL");
        killed.postgres += 1;
        if (!(await isBackAlone(server.base, place, `back-${generation}`)))
          faults.push(`no return after its PostgreSQL was killed; its last words: ${lastWords(server)}`);
        await load.stop();
      } else {
        const dying = server;
        server = undefined;
        if (victim === 4) process.kill(postmasterOf(dataDir).pid, "SIGKILL");
        await dying.kill();
        killed[victim === 4 ? "both" : "server"] += 1;
        await load.stop();
        server = await startAgain(env);
        postgresKills = [];
      }
      for (const [status, count] of Object.entries(load.statuses))
        statuses[status] = (statuses[status] ?? 0) + count;
      gather(faults, load, [server]);
      const { base } = server;
      const answers = await holds(
        async () => (await clientOf(base, place.token).get("/api/v1/organization")).status === 200,
        PATIENCE_SECONDS,
      );
      if (!answers) faults.push(`no answer afterwards; its last words: ${lastWords(server)}`);
      if (faults.length > 0) break;
      faults.push(...(await judge(base, place, ledger)));
      faults.push(...(await judgeTables(postmasterOf(dataDir).connection, ledger)));
      say?.(`crash ${generation}: ${JSON.stringify({ ...killed, statuses, faults: faults.length })}`);
    }
    await witness.stop();
    if (faults.length === 0) {
      await claimsRunOut(postmasterOf(dataDir).connection);
      faults.push(...(await witness.judge(server.base, 120)));
    }
  } finally {
    await witness?.close();
    await server?.stop();
    rmSync(dataDir, { recursive: true, force: true });
  }
  return { faults, seen: { ...killed, statuses, unanswered: ledger.unanswered, ...witness?.counts } };
}
