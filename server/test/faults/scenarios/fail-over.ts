/** Real nodes on a pair of servers: the primary goes, with or without the last of what it committed. */
import { randomBytes } from "node:crypto";
import { anIdentity, aRole, unique } from "../../builders.ts";
import { openStream, type StreamReader } from "../../event-streams.ts";
import { clientOf, type Client } from "../../harness.ts";
import type { ServerProcess } from "../../process.ts";
import { holds, pause, type Outcome, type ScenarioOptions } from "../ground.ts";
import type { Place } from "../load.ts";
import type { Pair } from "../pair.ts";
import { openStage, type Stage } from "../stage.ts";

/** What P-04 asks for: around what a sequence is logged ahead, and far beyond it. */
const LOSSES = [1, 10, 31, 33, 1000];
const SERVED_FROM_MEMORY_MS = 1000;
const LATE_MS = 1500;

const secretAt = (projectId: string, key: string) =>
  [`/api/v4/secrets/${key}`, { projectId, environment: "dev", secretPath: "/", secretValue: "v" }] as const;

/** Someone who may look, and someone else's token; both are known to every node. */
async function prepare({ nodes, place }: Stage) {
  const [first] = nodes as [ServerProcess];
  const admin = clientOf(first.base, place.token);
  const slug = await aRole(admin, place.projectId, [
    { subject: "secrets", action: ["read"], conditions: { environment: "prod" } },
  ]);
  const path = `/api/v1/projects/${place.projectId}/roles`;
  const roleId = (await admin.get(`${path}/slug/${slug}`)).body.role.id as string;
  const reader = await anIdentity(admin, first.base, place.projectId, { roles: [{ role: slug }] });
  const streams: StreamReader[] = [];
  for (const { base } of nodes)
    streams.push(await openStream(base, place.token, { projectId: place.projectId }));
  return {
    admin,
    roleId,
    rolePath: `${path}/${roleId}`,
    reader,
    streams,
    doomed: await aToken(admin, place),
  };
}

async function aToken(client: Client, { identityId }: Place): Promise<string> {
  const path = `/api/v1/auth/token-auth/identities/${identityId}/tokens`;
  return (await client.post(path, { name: unique("token") })).body.accessToken as string;
}

const uses = async (base: string, token: string): Promise<number> =>
  (await clientOf(base, token).post("/api/v1/auth/checkAuth")).status;

/** Facts that nobody minds, as another node might state them. */
const noise = (pair: Pair, count: number) =>
  pair.query("INSERT INTO outbox (name, data) SELECT 'noise', '{}'::jsonb FROM generate_series(1, $1::int)", [
    count,
  ]);

/** One round: so many facts are lost, one of them a raise; the last node comes back later than the others. */
async function lose(stage: Stage, lost: number, faults: string[]): Promise<void> {
  const { pair, nodes, proxies, place } = stage;
  const { admin, rolePath, reader, streams, doomed } = await prepare(stage);
  const complain = (what: string): void => void faults.push(`${lost} lost: ${what}`);
  // Looking states no fact, so exactly as many are lost as are meant to be.
  const looks = async (base: string): Promise<number> =>
    (
      await clientOf(base, reader.token).get(
        `/api/v4/secrets?projectId=${place.projectId}&environment=dev&secretPath=/`,
      )
    ).status;
  const newest = async (): Promise<number> =>
    Number((await pair.query<{ seq: string }>("SELECT max(seq) AS seq FROM outbox"))[0]?.seq ?? 0);
  await pair.caughtUp();
  await pair.stopReceiving();
  const before = await newest();
  const ghost = await aToken(admin, place);
  if (lost > 1) await noise(pair, lost - 1);
  await admin.patch(rolePath, { permissions: [{ subject: "secrets", action: ["read", "create"] }] });
  for (const { base } of nodes) {
    // The raise takes effect, and everything is used where it will be used again: the nodes remember it.
    if (!(await holds(async () => (await looks(base)) === 200, 10)))
      complain("no raise before the fail-over");
    for (const token of [ghost, doomed, reader.token])
      if ((await uses(base, token)) !== 200) complain("a token does not work before the fail-over");
  }
  const stated = (await newest()) - before;
  if (stated !== lost) complain(`${stated} facts were stated`);
  await pair.endPrimary("killed");
  const late = proxies.at(-1);
  late?.set({ kind: "away" });
  await pair.promote();
  for (const proxy of proxies) if (proxy !== late) proxy.cut();
  // The others go on, past what the late node has seen, and what they do now it must not miss.
  await noise(pair, lost + 40);
  const isRevoked = await holds(
    async () => (await admin.post("/api/v1/auth/token/revoke", { accessToken: doomed })).status === 200,
    20,
  );
  if (!isRevoked) complain("nothing can be changed after the fail-over");
  await pause(LATE_MS);
  late?.set({ kind: "fair" });
  for (const { base } of nodes) {
    const isBack = await holds(async () => (await uses(base, place.token)) === 200, 20);
    if (!isBack) complain(`${base} did not come back`);
  }
  await pause(SERVED_FROM_MEMORY_MS);
  for (const [index, { base }] of nodes.entries()) {
    if ((await uses(base, ghost)) !== 401) complain(`node ${index} takes a token that never existed`);
    if ((await uses(base, doomed)) !== 401) complain(`node ${index} takes a token that was revoked`);
    const write = clientOf(base, reader.token).post(...secretAt(place.projectId, "RAISED"));
    for (const status of [await looks(base), (await write).status])
      if (status !== 403) complain(`node ${index} answers ${status} to who never was raised`);
  }
  for (const [index, stream] of streams.entries()) {
    await holds(async () => stream.isEnded, 5);
    if (!/lost sight/.test(stream.error ?? "")) complain(`stream ${index} was not told: ${stream.error}`);
    stream.close();
  }
  await goOn(stage, complain);
}

/** New streams hear what comes, once. */
async function goOn({ nodes, place }: Stage, complain: (what: string) => void): Promise<void> {
  for (const [index, { base }] of nodes.entries()) {
    const stream = await openStream(base, place.token, { projectId: place.projectId });
    const key = `AFTER_${randomBytes(4).toString("hex").toUpperCase()}`;
    const other = nodes[(index + 1) % nodes.length] as ServerProcess;
    await clientOf(other.base, place.token).post(...secretAt(place.projectId, key));
    const heard = () => stream.told.filter((line) => line.endsWith(key)).length;
    await holds(async () => heard() > 0, 10);
    await pause(50);
    if (heard() !== 1) complain(`a stream of node ${index} heard a change ${heard()} times`);
    stream.close();
  }
}

const judgeNodes = ({ nodes }: Stage, faults: string[]): void => {
  for (const { child, lines } of nodes) {
    if (child.exitCode !== null) faults.push(`a node ended: ${lines.slice(-3).join("\n")}`);
    const bugs = lines.filter((line) => line.includes("this is a bug") || line.includes("failed on a bug"));
    faults.push(...bugs.slice(0, 2));
  }
};

/** P-04, F2. `seconds` below ten: the first losses alone. */
export async function failOver({ seconds, say }: ScenarioOptions): Promise<Outcome> {
  const stage = await openStage(3);
  const faults: string[] = [];
  const losses = seconds < 10 ? LOSSES.slice(1, 2) : LOSSES;
  try {
    for (const [round, lost] of losses.entries()) {
      if (round > 0) {
        await stage.pair.follow();
        for (const proxy of stage.proxies) proxy.cut();
        const [first] = stage.nodes as [ServerProcess];
        await holds(async () => (await uses(first.base, stage.place.token)) === 200, 20);
      }
      await lose(stage, lost, faults);
      say?.(`${lost} facts lost: ${faults.length} faults`);
      if (faults.length > 0) break;
    }
    judgeNodes(stage, faults);
  } finally {
    await stage.close();
  }
  return { faults, seen: { losses } };
}

/** P-05: a planned switch-over and a restart, under writing: streams stay open, each change is heard once. */
export async function switchOver({ say }: ScenarioOptions): Promise<Outcome> {
  const stage = await openStage(2);
  const { pair, nodes, place, proxies } = stage;
  const faults: string[] = [];
  const streams: StreamReader[] = [];
  for (const { base } of nodes)
    streams.push(await openStream(base, place.token, { projectId: place.projectId }));
  let isOver = false;
  const acknowledged: string[] = [];
  let refused = 0;
  const writer = (async () => {
    for (let n = 0; !isOver; n += 1) {
      const { base } = nodes[n % nodes.length] as ServerProcess;
      const answer = await clientOf(base, place.token)
        .post(...secretAt(place.projectId, `SEEN_${n}`))
        .catch(() => undefined);
      if (answer?.status === 200) acknowledged.push(`SEEN_${n}`);
      else refused += 1;
      await pause(15);
    }
  })();
  try {
    await pause(700);
    await pair.endPrimary("in order");
    await pair.promote();
    say?.(`switched over after ${acknowledged.length} changes`);
    await pause(2500);
    await pair.endPrimary("in order");
    await pair.restart();
    for (const proxy of proxies) proxy.cut();
    await pause(2500);
    isOver = true;
    await writer;
    const [row] = await pair.query<{ keys: string[] }>(
      "SELECT array_agg(k) AS keys FROM outbox, jsonb_array_elements_text(data->'keys') k WHERE name = 'secrets.changed'",
    );
    const there = new Set((row?.keys ?? []).filter((key) => key.startsWith("SEEN_")));
    for (const key of acknowledged) if (!there.has(key)) faults.push(`${key} was acknowledged and is gone`);
    for (const [index, stream] of streams.entries()) {
      const heard = (): string[] => stream.told.flatMap((line) => line.split(" ").at(-1)?.split(",") ?? []);
      await holds(async () => stream.isEnded || heard().length >= there.size, 10);
      if (stream.isEnded) faults.push(`stream ${index} was closed: ${stream.error}`);
      const told = heard();
      const missing = [...there].filter((key) => !told.includes(key));
      if (missing.length > 0) faults.push(`stream ${index} missed ${missing.length}: ${missing[0]}`);
      if (new Set(told).size !== told.length) faults.push(`stream ${index} heard something twice`);
      stream.close();
    }
    judgeNodes(stage, faults);
  } finally {
    isOver = true;
    await stage.close();
  }
  return { faults, seen: { acknowledged: acknowledged.length, refused } };
}
