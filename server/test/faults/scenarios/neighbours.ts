/** H4, H5, H7–H9: one organisation at ten times its fair load on each thing that is shared; another lives beside it. */
import { createServer, type AddressInfo, type Socket } from "node:net";
import { openReceiver } from "../../alert-receiver.ts";
import { aProfile, aRoot, ok } from "../../certificates.ts";
import { clientOf, type Answer, type Client, type Request } from "../../harness.ts";
import { withClient } from "../../postgres.ts";
import type { ServerProcess } from "../../process.ts";
import { holds, openCluster, pause, type Cluster, type Outcome, type ScenarioOptions } from "../ground.ts";
import { OWNER } from "../load.ts";

const CM = "/api/v1/cert-manager";
const ALERTS = 500;
const LARGE = { values: 20, bytes: 1_000_000 };
const AUDIT_ROWS = 200_000;
const ALERT_SECONDS = 10;
/** No answer but a login's, which is slow on purpose, takes longer, whatever a neighbour does; what counts is the comparison that is shown. */
const LONGEST_MS = 15_000;

const OLD_ROWS = `INSERT INTO audit_log (id, at, org_id, event, actor_type, actor_name, user_agent, metadata)
  SELECT gen_random_uuid(), now() - (n % 80000) * interval '1 second', $1, 'get-secret', 'identity', 'crowd', 'agent-' || md5(n::text), '{}'
  FROM generate_series(1, $2::int) AS n`;

/** Takes every connection and never says a word: what dead receivers and mail servers are like. */
async function openHole(): Promise<{ port: number; close(): void }> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on("error", () => undefined).on("close", () => sockets.delete(socket)));
    socket.resume();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

async function aPki(client: Client): Promise<{ projectId: string; profileId: string }> {
  const body = { projectName: "Certificates", type: "cert-manager" };
  const projectId = ok(await client.post("/api/v1/projects", body)).project.id as string;
  return {
    projectId,
    profileId: (await aProfile(client, projectId, (await aRoot(client, projectId)).id)).id,
  };
}

const certificate = (
  client: Client,
  profileId: string,
  more: Record<string, unknown> = {},
): Promise<Answer> =>
  client.post(`${CM}/certificates`, {
    profileId,
    attributes: { commonName: "host.example.com", ttl: "90d", ...more },
  });

/** Each has addresses of its own. */
const from = (address: string): Request => ({ headers: { "x-forwarded-for": address } });

interface Crowd {
  readonly name: string;
  readonly connections: number;
  readonly ask: (turn: number) => Promise<{ readonly status: number }>;
}

/** Received and thrown away: reading it would be this process's work, and be taken for the server's slowness. */
async function swallow(url: string, token: string): Promise<{ status: number }> {
  const answer = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
  for await (const chunk of answer.body ?? []) void chunk;
  return answer;
}

/** The heavy one: everything it can make, and then everything at once. */
async function moveIn({ nodes, place, database }: Cluster, deadPort: number): Promise<Crowd[]> {
  const [{ base }] = nodes as [ServerProcess];
  const made = ok(await clientOf(base, place.token).post("/api/v1/admin/organizations", { name: "Crowd" }));
  const token = made.identity.credentials.token as string;
  const client = clientOf(base, token);
  await withClient(database.server, database.connection.database, (admin) =>
    admin.query(OLD_ROWS, [made.organization.id, AUDIT_ROWS]),
  );
  const at = {
    projectId: ok(await client.post("/api/v1/projects", { projectName: "Crowd" })).project.id as string,
    environment: "dev",
    secretPath: "/",
  };
  const secretValue = "x".repeat(LARGE.bytes);
  for (let n = 0; n < LARGE.values; n += 1)
    ok(await client.post(`/api/v4/secrets/LARGE_${n}`, { ...at, secretValue }));
  const pki = await aPki(client);
  const watched = await aPki(client);
  for (let n = 0; n < ALERTS; n += 1)
    ok(
      await client.post(`${CM}/alerts`, {
        ...{ name: `alert ${n}`, eventType: "issuance", filters: [], projectId: watched.projectId },
        channels: [
          { config: { url: `http://127.0.0.1:${deadPort}/in/${n}` } },
          { config: { recipients: ["ops@example.com"] } },
        ],
      }),
      "an alert",
    );
  return [
    {
      name: `issuing under ${ALERTS} alerts to dead receivers and mail`,
      connections: 8,
      ask: () => certificate(client, watched.profileId),
    },
    {
      name: "searches of the audit log",
      connections: 40,
      ask: () => client.get("/api/v1/organization/audit-logs?userAgent=nobody-has-this&limit=20"),
    },
    {
      name: "large lists",
      connections: 6,
      ask: () => swallow(`${base}/api/v4/secrets?projectId=${at.projectId}&environment=dev`, token),
    },
    {
      name: "RSA keys",
      connections: 30,
      ask: () => certificate(client, pki.profileId, { keyAlgorithm: "RSA_3072" }),
    },
    {
      name: "wrong passwords",
      connections: 16,
      ask: (turn) =>
        clientOf(base).post(
          "/api/v3/auth/login",
          { email: `nobody-${turn}@example.com`, password: "wrong wrong wrong" },
          from(`203.0.113.${turn % 4}`),
        ),
    },
    {
      name: "writers",
      connections: 32,
      ask: (turn) => client.post(`/api/v4/secrets/MADE_${turn}`, { ...at, secretValue: "a value" }),
    },
  ];
}

/** Sends as fast as it is answered, whatever the answer. */
function startCrowd(crowds: readonly Crowd[]): { counts: Record<string, number>; stop(): Promise<void> } {
  const counts: Record<string, number> = {};
  let [turn, isOver] = [0, false];
  const loops = crowds.flatMap(({ connections, ask }) =>
    Array.from({ length: connections }, async () => {
      while (!isOver) {
        const status = (await ask((turn += 1)).catch(() => undefined))?.status ?? 0;
        counts[status] = (counts[status] ?? 0) + 1;
      }
    }),
  );
  return {
    counts,
    async stop() {
      isOver = true;
      await Promise.all(loops);
    },
  };
}

interface Living {
  readonly failed: string[];
  readonly p99: number;
  readonly longestMs: number;
  /** What took the longest. */
  readonly longest: string;
  readonly loginMs: number;
  readonly alertMs: number;
}

interface Neighbour {
  live(seconds: number): Promise<Living>;
  close(): Promise<void>;
}

/** The other one: reads, writes, logs in and issues at a steady pace, and waits for the notification of each certificate. */
async function openNeighbour({ nodes, place }: Cluster): Promise<Neighbour> {
  const [{ base }] = nodes as [ServerProcess];
  const client = clientOf(base, place.token);
  const receiver = await openReceiver();
  const { projectId, profileId } = await aPki(client);
  ok(
    await client.post(`${CM}/alerts`, {
      ...{ name: "news", eventType: "issuance", filters: [], projectId },
      channels: [{ config: { url: `${receiver.url}/in` } }],
    }),
  );
  const at = { projectId: place.projectId, environment: "dev", secretPath: "/" };
  ok(await client.post("/api/v4/secrets/ONE", { ...at, secretValue: "v" }));
  let turn = 0;
  const habits: readonly (readonly [name: string, everyMs: number, ask: () => Promise<Answer>])[] = [
    ["read", 25, () => client.get(`/api/v4/secrets/ONE?projectId=${at.projectId}&environment=dev`)],
    ["list", 250, () => client.get("/api/v1/projects")],
    ["write", 200, () => client.post(`/api/v4/secrets/OWN_${(turn += 1)}`, { ...at, secretValue: "v" })],
    ["audit", 1000, () => client.get("/api/v1/organization/audit-logs?limit=5")],
    ["login", 1000, () => clientOf(base).post("/api/v3/auth/login", OWNER, from("198.51.100.7"))],
  ];
  const newsMs = async (failed: string[]): Promise<number> => {
    const since = performance.now();
    const answer = await certificate(client, profileId);
    if (answer.status !== 200) {
      failed.push(`issue: ${answer.status} ${JSON.stringify(answer.body).slice(0, 200)}`);
      return 0;
    }
    const id = answer.body.certificate.certificateId as string;
    await holds(async () => receiver.received.some(({ body }) => body.includes(id)), ALERT_SECONDS + 20);
    return performance.now() - since;
  };
  return {
    async live(seconds) {
      const failed: string[] = [];
      const reads: number[] = [];
      let [longestMs, longest, loginMs] = [0, "", 0];
      const until = performance.now() + seconds * 1000;
      const loops = habits.map(async ([name, everyMs, ask]) => {
        for (let due = performance.now(); due < until; due += everyMs) {
          await pause(Math.max(0, due - performance.now()));
          const since = performance.now();
          const { status, body } = await ask();
          const ms = performance.now() - since;
          if (name === "read") reads.push(ms);
          if (name === "login") loginMs = Math.max(loginMs, ms);
          else if (ms > longestMs) [longestMs, longest] = [ms, name];
          if (status !== 200) failed.push(`${name}: ${status} ${JSON.stringify(body).slice(0, 200)}`);
        }
      });
      await pause(Math.min(2000, seconds * 300));
      const alertMs = await newsMs(failed);
      await Promise.all(loops);
      reads.sort((a, b) => a - b);
      const p99 = reads[Math.floor(reads.length * 0.99)] ?? 0;
      return { failed, p99, longestMs, longest, loginMs, alertMs };
    },
    close: () => receiver.close(),
  };
}

export async function neighbours({ seconds, say }: ScenarioOptions): Promise<Outcome> {
  const hole = await openHole();
  const cluster = await openCluster(1, () => ({
    KEYWARD_ALLOW_PRIVATE_TARGETS: "127.0.0.0/8",
    KEYWARD_TRUSTED_PROXIES: "127.0.0.0/8",
    KEYWARD_SMTP_URL: `smtp://127.0.0.1:${hole.port}`,
  }));
  const faults: string[] = [];
  const seen: Record<string, string> = {};
  const neighbour = await openNeighbour(cluster);
  const tell = (name: string, { failed, p99, longestMs, longest, loginMs, alertMs }: Living): void => {
    seen[name] =
      `p99 ${p99.toFixed(1)} ms, longest ${Math.round(longestMs)} ms (${longest}), a login ${Math.round(loginMs)} ms, news after ${Math.round(alertMs)} ms`;
    say?.(`${name}: ${seen[name]}`);
    if (failed.length > 0) faults.push(`beside ${name}, ${failed.length} requests failed: ${failed[0]}`);
    if (longestMs > LONGEST_MS)
      faults.push(`beside ${name}, the answer to ${longest} took ${Math.round(longestMs)} ms`);
    if (alertMs > ALERT_SECONDS * 1000)
      faults.push(`beside ${name}, news came after ${Math.round(alertMs)} ms`);
  };
  try {
    const crowds = await moveIn(cluster, hole.port);
    const each = Math.max(3, seconds / (crowds.length + 2));
    tell("nobody", await neighbour.live(each));
    for (const group of [...crowds.map((crowd) => [crowd]), crowds]) {
      const name = group.length > 1 ? "all of them" : (group[0]?.name ?? "");
      const crowd = startCrowd(group);
      await pause(1000);
      tell(name, await neighbour.live(each));
      await crowd.stop();
      seen[name] += `; it was answered ${JSON.stringify(crowd.counts)}`;
      if (Object.values(crowd.counts).length === 0) faults.push(`${name} did nothing`);
    }
    return { faults, seen };
  } finally {
    await neighbour.close();
    for (const node of cluster.nodes) await node.kill();
    await cluster.close();
    hole.close();
  }
}
