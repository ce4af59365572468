/** Nodes whose clocks are minutes apart from the start: they agree on what time it is, and who is far off signs nothing. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { anIdentity, aRole, unique } from "../../builders.ts";
import { clientOf, type Answer } from "../../harness.ts";
import type { ServerProcess } from "../../process.ts";
import { holds, openCluster, pause, type Cluster, type Outcome, type ScenarioOptions } from "../ground.ts";
import { decodePemOf, parseCertificate, parseCrl } from "@keyward/x509";

const PRELOAD = new URL("../moved-clock.js", import.meta.url).href;
const MINUTES = 5 * 60_000;
/** The first is right. Beyond 2 s a node goes by the database's time, beyond 30 s it signs nothing either. */
const OFFSETS = [0, MINUTES, -MINUTES, 5000] as const;
const SIGNERS = [0, 3];
const METRICS_TOKEN = "a token for the metrics of this run";
/** Between two nodes' comparisons, and what a request takes. */
const AGREEMENT_MS = 2500;
const CERTIFICATES = "/api/v1/cert-manager/certificates";

type Complain = (what: string) => void;

const everywhere = async (
  { nodes }: Cluster,
  ask: (node: ServerProcess, index: number) => Promise<number>,
): Promise<string> => {
  const statuses: number[] = [];
  for (const [index, node] of nodes.entries()) statuses.push(await ask(node, index));
  return statuses.join(" ");
};

/** A token that lives for a minute, by the node that is asked. */
async function aToken(base: string, token: string, seconds: number): Promise<string> {
  const client = clientOf(base, token);
  const { identity } = (await client.post("/api/v1/identities", { name: unique("clocks") })).body;
  const path = `/api/v1/auth/token-auth/identities/${identity.id}`;
  await client.post(path, { accessTokenTTL: seconds, accessTokenMaxTTL: seconds });
  return (await client.post(`${path}/tokens`, {})).body.accessToken as string;
}

const uses = async ({ base }: ServerProcess, token: string): Promise<number> =>
  (await clientOf(base, token).post("/api/v1/auth/checkAuth")).status;

async function judgeTokens(cluster: Cluster, complain: Complain): Promise<void> {
  const { nodes, place } = cluster;
  for (const [index, { base }] of nodes.entries()) {
    const long = await aToken(base, place.token, 60);
    const seen = await everywhere(cluster, (node) => uses(node, long));
    if (seen !== "200 200 200 200") complain(`a token for a minute of node ${index} is answered ${seen}`);
    const short = await aToken(base, place.token, 1);
    await pause(1000 + AGREEMENT_MS);
    const after = await everywhere(cluster, (node) => uses(node, short));
    if (after !== "401 401 401 401") complain(`a token of node ${index} that is over is answered ${after}`);
    const made = await clientOf(base, place.token).post("/api/v1/identities", { name: unique("dated") });
    const off = Date.parse(made.body.identity.createdAt) - Date.now();
    if (Math.abs(off) > AGREEMENT_MS) complain(`what node ${index} writes down is dated ${off} ms off`);
  }
}

/** A role for a minute: begun, over, not begun. */
async function judgeRoles(cluster: Cluster, complain: Complain): Promise<void> {
  const { nodes, place } = cluster;
  const [right] = nodes as [ServerProcess];
  const admin = clientOf(right.base, place.token);
  const role = await aRole(admin, place.projectId, [{ subject: "secrets", action: ["read"] }]);
  const cases = [
    { what: "has begun", startsIn: -20_000, wanted: 200 },
    { what: "is over", startsIn: -120_000, wanted: 403 },
    { what: "has not begun", startsIn: 120_000, wanted: 403 },
  ];
  for (const { what, startsIn, wanted } of cases) {
    const window = {
      ...{ role, isTemporary: true, temporaryMode: "relative", temporaryRange: "60s" },
      temporaryAccessStartTime: new Date(Date.now() + startsIn).toISOString(),
    };
    const holder = await anIdentity(admin, right.base, place.projectId, { roles: [window] });
    const seen = await everywhere(
      cluster,
      async ({ base }) =>
        (
          await clientOf(base, holder.token).get(
            `/api/v4/secrets?projectId=${place.projectId}&environment=dev`,
          )
        ).status,
    );
    if (seen !== Array(nodes.length).fill(wanted).join(" "))
      complain(`a role whose time ${what} is answered ${seen}`);
  }
}

const issue = ({ base }: ServerProcess, { place }: Cluster): Promise<Answer> =>
  clientOf(base, place.token).post(CERTIFICATES, {
    profileId: place.profileId,
    attributes: { commonName: unique("host"), ttl: "1h" },
  });

const parsed = (pem: string) => parseCertificate(decodePemOf("CERTIFICATE", pem)[0] ?? Buffer.alloc(0));

async function judgeSignatures(cluster: Cluster, complain: Complain): Promise<void> {
  const { nodes, place } = cluster;
  let newest = 0;
  for (let turn = 0; turn < 8; turn += 1) {
    const index = turn % nodes.length;
    const node = nodes[index] as ServerProcess;
    const answer = await issue(node, cluster);
    if (!SIGNERS.includes(index)) {
      if (answer.status !== 503 || answer.headers.get("retry-after") === null)
        complain(`node ${index} is minutes off and answers ${answer.status} to who wants a certificate`);
      continue;
    }
    if (answer.status !== 200) {
      const bug = node.lines.find((line) => line.includes("failed on a bug")) ?? "";
      complain(`node ${index} answers ${answer.status} to who wants a certificate ${bug.slice(0, 900)}`);
      continue;
    }
    const { certificate, certificateId } = answer.body.certificate;
    const { notBefore, extensions } = parsed(certificate);
    if (notBefore.getTime() > Date.now() + 1000)
      complain(`a certificate of node ${index} begins in the future`);
    await clientOf(node.base, place.token).post(`${CERTIFICATES}/${certificateId}/revoke`, {});
    const path = new URL(extensions.crlDistributionPoints?.[0] ?? "").pathname;
    for (const [at, { base }] of nodes.entries()) {
      const list = await fetch(`${base}${path}`);
      if (list.status !== 200) {
        complain(`node ${at} answers ${list.status} to who wants the list`);
        continue;
      }
      const { thisUpdate } = parseCrl(Buffer.from(await list.arrayBuffer()));
      if (thisUpdate.getTime() < newest) complain(`the list's time went back at node ${at}`);
      if (thisUpdate.getTime() > Date.now() + AGREEMENT_MS) complain(`node ${at} has a list of the future`);
      newest = Math.max(newest, thisUpdate.getTime());
    }
    // Lists are signed in the background.
    await pause(1500);
  }
  if (newest === 0) complain("no list was seen");
}

async function judgeWords({ nodes }: Cluster, complain: Complain): Promise<number[]> {
  const shown: number[] = [];
  for (const [index, { base, lines }] of nodes.entries()) {
    const answer = await fetch(`${base}/metrics`, { headers: { authorization: `Bearer ${METRICS_TOKEN}` } });
    const value = /^keyward_clock_offset_seconds (\S+)$/m.exec(await answer.text())?.[1];
    const off = OFFSETS[index] ?? 0;
    shown.push(Number(value));
    if (value === undefined || Math.abs(Number(value) * 1000 + off) > 1000)
      complain(`the metrics of node ${index} say ${value}`);
    const told = lines.filter((line) => /this machine's clock and the database's/.test(line));
    const wanted = off === 0 ? 0 : 1;
    if (told.length !== wanted) complain(`the log of node ${index} has ${told.length} lines about its clock`);
    const isError = told.some((line) => /nothing is signed here/.test(line));
    if (isError !== Math.abs(off) > 30_000) complain(`the log of node ${index} has the wrong word for it`);
  }
  return shown;
}

export async function clocks({ say }: ScenarioOptions): Promise<Outcome> {
  const folder = mkdtempSync(join(tmpdir(), "keyward-clocks-"));
  const file = (node: number): string => join(folder, `offset-${node}`);
  for (const [node, offset] of OFFSETS.entries()) writeFileSync(file(node), String(offset));
  const cluster = await openCluster(OFFSETS.length, (node) => ({
    ...{ NODE_OPTIONS: `--import=${PRELOAD}`, KEYWARD_TEST_CLOCK: file(node) },
    KEYWARD_METRICS_TOKEN: METRICS_TOKEN,
  }));
  const faults: string[] = [];
  const complain: Complain = (what) => void faults.push(what);
  try {
    await judgeTokens(cluster, complain);
    say?.(`tokens: ${faults.length} faults`);
    await judgeRoles(cluster, complain);
    await judgeSignatures(cluster, complain);
    say?.(`roles, certificates and lists: ${faults.length} faults`);
    const offsets = await judgeWords(cluster, complain);
    const ahead = cluster.nodes[1] as ServerProcess;
    writeFileSync(file(1), "0");
    ahead.child.kill("SIGUSR2");
    const from = performance.now();
    if (!(await holds(async () => (await issue(ahead, cluster)).status === 200, 25)))
      complain("its clock is right again and a node still signs nothing");
    if (!ahead.lines.some((line) => /agree again/.test(line)))
      complain("nobody was told that clocks agree again");
    return { faults, seen: { offsets, msUntilItSigns: Math.round(performance.now() - from) } };
  } finally {
    await cluster.close();
    rmSync(folder, { recursive: true, force: true });
  }
}
