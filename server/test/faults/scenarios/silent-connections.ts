/** P-29: connections that take a place and do nothing with it; a node serves on beside them and ends in time under them. */
import { connect, type Socket } from "node:net";
import { clientOf } from "../../harness.ts";
import type { ServerProcess } from "../../process.ts";
import { lastWords, openCluster, pause, type Outcome, type ScenarioOptions } from "../ground.ts";
import type { Place } from "../load.ts";

const DRAIN_SECONDS = 1;
const CLOSE_MS = 2000;
/** For a machine that has more to do. */
const SLACK_MS = 2500;
const EACH = 120;
const DEAF_READERS = 24;
const LARGE = { values: 40, bytes: 200_000 };

const KINDS = ["nothing", "half a head", "half a body", "deaf"] as const;
type Kind = (typeof KINDS)[number];

const opening = (kind: Kind, { token, projectId }: Place): string => {
  const head = (line: string): string =>
    `${line} HTTP/1.1\r\nhost: keyward\r\nauthorization: Bearer ${token}\r\n`;
  if (kind === "nothing") return "";
  if (kind === "half a head") return head("GET /api/v1/projects").slice(0, -10);
  if (kind === "half a body")
    return `${head("POST /api/v1/projects")}content-type: application/json\r\ncontent-length: 900\r\n\r\n{"proj`;
  return `${head(`GET /api/v4/secrets?projectId=${projectId}&environment=dev`)}\r\n`;
};

/** One that never reads: what the kernel takes for it is all it gets. */
const open = (base: string, kind: Kind, place: Place): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(base);
    const socket = connect(Number(port), hostname.replace(/[[\]]/g, ""), () => {
      socket.on("error", () => undefined);
      socket.pause();
      socket.write(opening(kind, place));
      resolve(socket);
    });
    socket.once("error", reject);
  });

async function fill({ base }: ServerProcess, { token, projectId }: Place): Promise<void> {
  const secretValue = "x".repeat(LARGE.bytes);
  for (let n = 0; n < LARGE.values; n += 1) {
    const body = { projectId, environment: "dev", secretPath: "/", secretValue };
    const { status } = await clientOf(base, token).post(`/api/v4/secrets/LARGE_${n}`, body);
    if (status !== 200) throw new Error(`no large secret: ${status}`);
  }
}

export async function silentConnections({ seconds, say }: ScenarioOptions): Promise<Outcome> {
  const cluster = await openCluster(1, () => ({ KEYWARD_DRAIN_SECONDS: String(DRAIN_SECONDS) }));
  const { place } = cluster;
  const [node] = cluster.nodes as [ServerProcess];
  const faults: string[] = [];
  const statuses: Record<string, number> = {};
  const sockets: Socket[] = [];
  let longestMs = 0;
  let isOver = false;
  const ask = async (turn: number): Promise<void> => {
    const client = clientOf(node.base, place.token);
    const from = performance.now();
    const { status } =
      turn % 2 === 0
        ? await client.get(`/api/v1/projects/${place.projectId}`)
        : await client.post("/api/v1/identities", { name: "beside" });
    longestMs = Math.max(longestMs, performance.now() - from);
    statuses[status] = (statuses[status] ?? 0) + 1;
    if (status !== 200) faults.push(`beside silent connections a request answered ${status}`);
  };
  const serving = async (): Promise<void> => {
    for (let turn = 0; !isOver; turn += 1) {
      await ask(turn).catch((error: unknown) => faults.push(`no answer: ${String(error)}`));
      await pause(20);
    }
  };
  try {
    await fill(node, place);
    for (const kind of KINDS)
      for (let n = 0; n < (kind === "deaf" ? DEAF_READERS : EACH); n += 1)
        sockets.push(await open(node.base, kind, place));
    const served = serving();
    await pause(Math.min(20_000, seconds * 1000));
    isOver = true;
    await served;
    const left = sockets.filter((socket) => !socket.closed).length;
    if (left < EACH) faults.push(`only ${left} silent connections were left: nothing was tried`);
    say?.(`${left} silent connections: ${JSON.stringify({ statuses, longestMs: Math.round(longestMs) })}`);
    if (longestMs > 5000) faults.push(`beside silent connections an answer took ${Math.round(longestMs)} ms`);
    const from = performance.now();
    const code = await Promise.race([node.stop(), pause(30_000).then(() => "not at all")]);
    const endedMs = Math.round(performance.now() - from);
    if (code !== 0) faults.push(`told to stop it ended with ${code}: ${lastWords(node)}`);
    if (endedMs > DRAIN_SECONDS * 1000 + CLOSE_MS + SLACK_MS) faults.push(`it took ${endedMs} ms to end`);
    return { faults, seen: { connections: left, statuses, longestMs: Math.round(longestMs), endedMs } };
  } finally {
    isOver = true;
    for (const socket of sockets) socket.destroy();
    await node.kill();
    await cluster.close();
  }
}
