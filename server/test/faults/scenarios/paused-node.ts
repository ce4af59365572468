import { clientOf, type Client } from "../../harness.ts";
import {
  claimsRunOut,
  gather,
  holds,
  openCluster,
  pause,
  type Outcome,
  type ScenarioOptions,
} from "../ground.ts";
import { Ledger } from "../ledger.ts";
import { dice, judge, judgeTables, startLoad, type Place } from "../load.ts";
import { startWitness } from "../witness.ts";

/** The first pause of a full run. */
const A_MINUTE_MS = 60_000;
/** What a sleeping transaction holds is taken from it after fifteen seconds; the rest is a busy machine. */
const STANDSTILL_MS = 30_000;
/** A node that slept for longer than this knows that what it remembers may be old. */
const OLD_MS = 2000;

const inStaging = ({ projectId }: Place, secretKey: string, secretValue: string) => ({
  ...{ projectId, environment: "staging", secretPath: "/", mode: "upsert" },
  secrets: [{ secretKey, secretValue }],
});

/** For so long a change every half second; answers the longest time in which none was acknowledged. */
async function changeAllTheWhile(client: Client, place: Place, ms: number): Promise<number> {
  const until = performance.now() + ms;
  let [last, longest] = [performance.now(), 0];
  for (let n = 0; performance.now() < until; n += 1) {
    const { status } = await client.patch("/api/v4/secrets/batch", inStaging(place, "PROBE", `value ${n}`));
    longest = Math.max(longest, performance.now() - last);
    if (status === 200) last = performance.now();
    await pause(500);
  }
  return longest;
}

/** A token that works, to be revoked. */
async function aToken(client: Client, { identityId }: Place): Promise<string> {
  const path = `/api/v1/auth/token-auth/identities/${identityId}/tokens`;
  return (await client.post(path, { name: "to be revoked" })).body.accessToken as string;
}

/** R-03, E-08: three nodes, one of them stopped in its tracks; the others go on, and it catches up when it wakes. */
export async function pausedNode({ seed, seconds, say }: ScenarioOptions): Promise<Outcome> {
  const roll = dice(seed);
  const cluster = await openCluster(3, () => ({ KEYWARD_ALLOW_PRIVATE_TARGETS: "127.0.0.0/8" }));
  const { place, nodes } = cluster;
  const faults: string[] = [];
  const ledger = new Ledger();
  const load = startLoad({
    seed,
    generation: 0,
    writers: 6,
    place,
    ledger,
    base: (writer) => nodes[writer % 3]?.base,
  });
  let pauses = 0;
  let stopped = 0;
  let longestMs = 0;
  const witness = await startWitness({
    place,
    base: (turn) => nodes[(stopped + 1 + (turn % 2)) % 3]?.base ?? "",
    listenAt: nodes.map((node) => node.base),
    mayEnd: true,
  });
  try {
    const until = performance.now() + seconds * 1000;
    while (performance.now() < until && faults.length === 0) {
      await pause(200 + roll(300));
      stopped = roll(3);
      const doomed = await aToken(clientOf(nodes[stopped]?.base ?? "", place.token), place);
      // Used once where it will be used again: the node remembers it.
      await clientOf(nodes[stopped]?.base ?? "", doomed).post("/api/v1/auth/checkAuth");
      nodes[stopped]?.child.kill("SIGSTOP");
      pauses += 1;
      const other = nodes[(stopped + 1) % 3]?.base ?? "";
      const client = clientOf(other, place.token);
      const sleep =
        pauses === 1 && seconds >= 60 ? A_MINUTE_MS : Math.min(20_000, Math.max(3000, seconds * 333));
      await holds(
        async () => (await client.post("/api/v1/auth/token/revoke", { accessToken: doomed })).status === 200,
        30,
      );
      // Waits at the door of the node that sleeps, and is the first thing it sees.
      const asked = clientOf(nodes[stopped]?.base ?? "", doomed)
        .post("/api/v1/auth/checkAuth")
        .catch(() => undefined);
      longestMs = Math.max(longestMs, await changeAllTheWhile(client, place, sleep));
      // A transaction that sleeps with the node may hold a lock; it is taken from it in time.
      const goesOn = await holds(
        async () => (await client.post("/api/v1/identities", { name: "goes-on" })).status === 200,
        30,
      );
      if (!goesOn) faults.push("the other nodes do not go on while one is paused");
      nodes[stopped]?.child.kill("SIGCONT");
      if (sleep > OLD_MS && (await asked)?.status === 200)
        faults.push("a node that slept takes a token that was revoked meanwhile");
      const value = `seen-${pauses}`;
      const body = inStaging(place, "SHARED", value);
      await holds(async () => (await client.patch("/api/v4/secrets/batch", body)).status === 200, 30);
      const woken = clientOf(nodes[stopped]?.base ?? "", place.token);
      const read = async () =>
        (await woken.get(`/api/v4/secrets/SHARED?projectId=${place.projectId}&environment=staging`)).body
          .secret.secretValue as string;
      if (!(await holds(async () => (await read()) === value, 15)))
        faults.push("a node that was paused does not catch up");
      say?.(
        `pause ${pauses} of node ${stopped}: ${JSON.stringify({ statuses: load.statuses, faults: faults.length })}`,
      );
    }
    await load.stop();
    await witness.stop();
    gather(faults, load, nodes);
    for (const node of nodes) faults.push(...(await judge(node.base, place, ledger)));
    faults.push(...(await judgeTables(cluster.database.connection, ledger)));
    if (longestMs > STANDSTILL_MS)
      faults.push(`while a node slept nobody could change anything for ${Math.round(longestMs / 1000)} s`);
    // Each stream got each change once, or was closed with a reason; none is open and cut off.
    await claimsRunOut(cluster.database.connection);
    faults.push(...(await witness.judge(nodes[0]?.base ?? "", 60)));
  } finally {
    await load.stop();
    await witness.close();
    await cluster.close();
  }
  return {
    faults,
    seen: {
      pauses,
      statuses: load.statuses,
      unanswered: ledger.unanswered,
      ...witness.counts,
      longestStandstillMs: Math.round(longestMs),
    },
  };
}
