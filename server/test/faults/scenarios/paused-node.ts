import { openStream } from "../../event-streams.ts";
import { clientOf } from "../../harness.ts";
import { gather, holds, openCluster, pause, type Outcome, type ScenarioOptions } from "../ground.ts";
import { Ledger } from "../ledger.ts";
import { dice, judge, judgeTables, startLoad } from "../load.ts";

/** The first pause of a full run. */
const A_MINUTE_MS = 60_000;

/** R-03, E-08: three nodes, one of them stopped in its tracks; the others go on, and it catches up when it wakes. */
export async function pausedNode({ seed, seconds, say }: ScenarioOptions): Promise<Outcome> {
  const roll = dice(seed);
  const cluster = await openCluster(3);
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
  const streams = await Promise.all(
    nodes.map((node) => openStream(node.base, place.token, { projectId: place.projectId })),
  );
  let pauses = 0;
  let endings: string[] = [];
  try {
    const until = performance.now() + seconds * 1000;
    while (performance.now() < until && faults.length === 0) {
      await pause(200 + roll(300));
      const stopped = roll(3);
      nodes[stopped]?.child.kill("SIGSTOP");
      pauses += 1;
      const other = nodes[(stopped + 1) % 3]?.base ?? "";
      const client = clientOf(other, place.token);
      const isFull = pauses === 1 && seconds >= 60;
      await pause(isFull ? A_MINUTE_MS : Math.min(20_000, (seconds * 1000) / 3));
      // A transaction that sleeps with the node may hold a lock; it is taken from it in time.
      const goesOn = await holds(
        async () => (await client.post("/api/v1/identities", { name: "goes-on" })).status === 200,
        30,
      );
      if (!goesOn) faults.push("the other nodes do not go on while one is paused");
      nodes[stopped]?.child.kill("SIGCONT");
      const value = `seen-${pauses}`;
      const body = {
        projectId: place.projectId,
        environment: "staging",
        secretPath: "/",
        mode: "upsert",
        secrets: [{ secretKey: "SHARED", secretValue: value }],
      };
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
    gather(faults, load, nodes);
    for (const node of nodes) faults.push(...(await judge(node.base, place, ledger)));
    faults.push(
      ...(await judgeTables(cluster.database.connection, ledger)).filter(
        (fault) => !fault.includes("identities, but"),
      ),
    );
    // Each stream heard of the last change, or was closed with a reason; none is open and deaf.
    const last = await clientOf(nodes[0]?.base ?? "", place.token).post("/api/v4/secrets/LAST_ONE", {
      projectId: place.projectId,
      environment: "staging",
      secretPath: "/",
      secretValue: "last",
    });
    if (last.status !== 200)
      faults.push(`the last change was refused: ${last.status} ${JSON.stringify(last.body)}`);
    endings = streams.filter((stream) => stream.isEnded).map((stream) => stream.error ?? "without a word");
    for (const [index, stream] of streams.entries()) {
      const hears = await holds(async () => stream.isEnded || stream.raw.includes("LAST_ONE"), 15);
      if (!hears) faults.push(`the stream on node ${index} is open and deaf`);
      const heard = stream.told.filter((line) => line.includes("LAST_ONE")).length;
      if (heard > 1) faults.push(`the stream on node ${index} heard the last change ${heard} times`);
    }
  } finally {
    for (const stream of streams) stream.close();
    await cluster.close();
  }
  return {
    faults,
    seen: {
      pauses,
      statuses: load.statuses,
      unanswered: ledger.unanswered,
      endings,
    },
  };
}
