/** A synchronous standby that is away: no commit is confirmed, and PostgreSQL lets everybody wait for ever. */
import { clientOf, type Answer, type Client } from "../../harness.ts";
import type { ServerProcess } from "../../process.ts";
import { claimsRunOut, gather, holds, pause, type Outcome, type ScenarioOptions } from "../ground.ts";
import { Ledger } from "../ledger.ts";
import { judge, judgeTables, startLoad, type Place } from "../load.ts";
import { openStage, type Stage } from "../stage.ts";
import { startWitness } from "../witness.ts";

/** What a caller waits at most for the word that nothing is certain. */
const ANSWER_MS = 10_000;
/** From the first such word until balancers hear of it. */
const KNOWN_MS = 3000;
/** From the standby's return until changes are made again. */
const BACK_SECONDS = 10;
/** When the callers that came first have their answer, the number of backends is what it will be. */
const SETTLED_MS = 12_000;
const CROWD = 60;

interface Seen {
  longestMs: number;
  refused: number;
  made: number;
  readsFailed: number;
  longestReadMs: number;
  readyKnewMs: number | undefined;
  backends: number[];
}

const timed = async (ask: () => Promise<Answer>): Promise<{ answer: Answer; ms: number }> => {
  const from = performance.now();
  return { answer: await ask(), ms: performance.now() - from };
};

/** Everybody at once on the same secret, on things of their own, on one project, on one folder: each path queues elsewhere. */
const crowd = (
  clients: readonly Client[],
  { projectId, identityId }: Place,
  round: number,
): Promise<Answer>[] =>
  Array.from({ length: CROWD }, (_, n) => {
    const at = { projectId, environment: "prod", secretPath: "/" };
    const name = `crowd-${round}-${n}`;
    const client = clients[n % 3 === 0 ? 1 : 0] as Client;
    if (n % 5 === 0)
      return client.patch("/api/v4/secrets/batch", {
        ...{ ...at, mode: "upsert" },
        secrets: [{ secretKey: "SAME", secretValue: name }],
      });
    if (n % 5 === 1) return client.post(`/api/v4/secrets/OWN_${round}_${n}`, { ...at, secretValue: name });
    if (n % 5 === 2) return client.post(`/api/v1/auth/token-auth/identities/${identityId}/tokens`, { name });
    if (n % 5 === 3)
      return client.post("/api/v2/folders", { projectId, environment: "prod", path: "/", name });
    return client.patch(`/api/v1/projects/${projectId}`, { name: `Faults ${n}` });
  });

/** The standby is away for so long; what callers, balancers and the database see of it. */
async function whileAway(stage: Stage, ms: number, round: number): Promise<{ seen: Seen; faults: string[] }> {
  const { nodes, pair, place } = stage;
  const [first, second] = nodes as [ServerProcess, ServerProcess];
  const seen: Seen = {
    ...{ longestMs: 0, refused: 0, made: 0, readsFailed: 0, longestReadMs: 0 },
    ...{ readyKnewMs: undefined, backends: [] },
  };
  const faults: string[] = [];
  const from = performance.now();
  let firstRefusalAt = Number.POSITIVE_INFINITY;
  const isOn = (): boolean => performance.now() - from < ms;
  const clients = nodes.map((node) => clientOf(node.base, place.token));

  const crowds = async (): Promise<void> => {
    for (let n = 0; isOn(); n += 1) {
      const asked = crowd(clients, place, round * 100 + n).map((one) => timed(() => one));
      for (const { answer, ms: took } of await Promise.all(asked)) {
        seen.longestMs = Math.max(seen.longestMs, took);
        if (answer.status === 200) seen.made += 1;
        else if (answer.status === 503 && answer.headers.get("retry-after") !== null) {
          firstRefusalAt = Math.min(firstRefusalAt, performance.now());
          seen.refused += 1;
        } else faults.push(`a change answered ${answer.status} ${JSON.stringify(answer.body).slice(0, 200)}`);
      }
      await pause(1000);
    }
  };
  const readers = async (): Promise<void> => {
    const path = `/api/v4/secrets?projectId=${place.projectId}&environment=dev`;
    for (let n = 0; isOn(); n += 1) {
      const { answer, ms: took } = await timed(() =>
        clientOf(nodes[n % 2]?.base ?? "", place.token).get(path),
      );
      if (answer.status !== 200) seen.readsFailed += 1;
      seen.longestReadMs = Math.max(seen.longestReadMs, took);
      await pause(100);
    }
  };
  const balancer = async (): Promise<void> => {
    while (isOn()) {
      const { status, body } = await clientOf(first.base).get("/api/ready");
      if (status === 503 && /standby/.test(JSON.stringify(body)))
        seen.readyKnewMs ??= Math.max(0, performance.now() - firstRefusalAt);
      await pause(250);
    }
  };
  const counter = async (): Promise<void> => {
    while (isOn()) {
      const [row] = await pair.query<{ count: string }>(
        "SELECT count(*) AS count FROM pg_stat_activity WHERE application_name = 'keyward'",
      );
      seen.backends.push(Number(row?.count ?? 0));
      await pause(1000);
    }
  };
  await Promise.all([crowds(), readers(), balancer(), counter()]);
  judgeAway(seen, faults, second);
  return { seen, faults };
}

function judgeAway(seen: Seen, faults: string[], { child }: ServerProcess): void {
  if (seen.refused === 0) faults.push("no change was refused: the standby was not away");
  if (seen.longestMs > ANSWER_MS) faults.push(`a change was answered after ${Math.round(seen.longestMs)} ms`);
  if (seen.readsFailed > 0) faults.push(`${seen.readsFailed} readings failed`);
  if (seen.longestReadMs > 5000) faults.push(`a reading took ${Math.round(seen.longestReadMs)} ms`);
  if (seen.readyKnewMs === undefined) faults.push("/api/ready never said that the standby is away");
  else if (seen.readyKnewMs > KNOWN_MS)
    faults.push(`/api/ready knew ${Math.round(seen.readyKnewMs)} ms late`);
  const settled = seen.backends.slice(SETTLED_MS / 1000);
  const [at = 0] = settled;
  const most = Math.max(0, ...settled);
  if (most > at + 2) faults.push(`backends pile up: ${seen.backends.join(", ")}`);
  if (child.exitCode !== null) faults.push("a node ended");
}

/** First a receiver that stands still, then a standby that is stopped; both come back. */
export async function standbyAway({ seed, seconds, say }: ScenarioOptions): Promise<Outcome> {
  const stage = await openStage(2, { KEYWARD_ALLOW_PRIVATE_TARGETS: "127.0.0.0/8" });
  const { pair, place, nodes } = stage;
  const [first] = nodes as [ServerProcess];
  const faults: string[] = [];
  const ledger = new Ledger();
  const rounds: Record<string, unknown> = {};
  await pair.synchronous();
  const base = (turn: number): string => nodes[turn % 2]?.base ?? "";
  const witness = await startWitness({ place, base, listenAt: nodes.map((node) => node.base) });
  const load = startLoad({ seed, generation: 0, writers: 6, place, ledger, base });
  try {
    await pause(Math.min(3000, seconds * 100));
    const ways = seconds < 10 ? (["frozen"] as const) : (["frozen", "gone"] as const);
    for (const [round, how] of ways.entries()) {
      const back = await pair.standbyAway(how);
      const away = await whileAway(stage, Math.max(9000, Math.min(30_000, seconds * 1000)), round);
      faults.push(...away.faults.map((fault) => `${how}: ${fault}`));
      await back();
      const from = performance.now();
      for (const node of nodes) {
        const client = clientOf(node.base, place.token);
        const works = await holds(
          async () =>
            (await client.post("/api/v1/identities", { name: "back" })).status === 200 &&
            (await client.get("/api/ready")).status === 200,
          BACK_SECONDS,
        );
        if (!works) faults.push(`${how}: no changes ${BACK_SECONDS} s after the standby is back`);
      }
      const { backends, ...seen } = away.seen;
      rounds[how] = {
        ...Object.fromEntries(Object.entries(seen).map(([name, value]) => [name, Math.round(value ?? -1)])),
        ...{ backends: `${Math.min(...backends)}–${Math.max(...backends)}` },
        msUntilBack: Math.round(performance.now() - from),
      };
      say?.(`${how}: ${JSON.stringify(rounds[how])}`);
      await pause(1000);
    }
    await load.stop();
    await witness.stop();
    gather(faults, load, nodes);
    await claimsRunOut(pair.connection);
    faults.push(...(await witness.judge(first.base, 60)));
    for (const node of nodes) faults.push(...(await judge(node.base, place, ledger)));
    faults.push(...(await judgeTables(pair.connection, ledger)));
    if (ledger.acknowledged === 0) faults.push("nothing was acknowledged: the load did not run");
    return {
      faults,
      seen: { ...rounds, ...witness.counts, statuses: load.statuses, unanswered: ledger.unanswered },
    };
  } finally {
    await load.stop();
    await witness.close();
    await stage.close();
  }
}
