/** HAProxy in front of nodes, set up with exactly the lines that the documentation gives. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { holds } from "./ground.ts";

const DOCS = new URL("../../../../docs/", import.meta.url);

/** The first block of code behind a heading or another landmark of a page. */
function documented(page: string, landmark: string): string {
  const text = readFileSync(new URL(page, DOCS), "utf8");
  const block = /```\n([\s\S]*?)```/.exec(text.slice(text.indexOf(landmark)))?.[1];
  if (!text.includes(landmark) || block === undefined) throw new Error(`${page} has no block at ${landmark}`);
  return block;
}

export const whyNoBalancer = (): string | undefined =>
  spawnSync("haproxy", ["-v"]).status === 0 ? undefined : "haproxy is not installed";

export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, "close");
  return port;
}

export interface Balancer {
  readonly base: string;
  close(): Promise<void>;
}

export async function openBalancer(ports: readonly number[]): Promise<Balancer> {
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), "keyward-balancer-"));
  const file = join(folder, "haproxy.cfg");
  const servers = ports.map((each, n) => `    server node${n} 127.0.0.1:${each}\n`).join("");
  writeFileSync(
    file,
    `${documented("events.md", "**HAProxy**")}
frontend public
    bind 127.0.0.1:${port}
    default_backend keyward
backend keyward
    balance roundrobin
${documented("operating.md", "## Stop and restart a node").replace(/^/gm, "    ")}
${servers}`,
  );
  const child = spawn("haproxy", ["-db", "-f", file], { stdio: ["ignore", "ignore", "pipe"] });
  let complaint = "";
  child.stderr.on("data", (chunk: Buffer) => (complaint = (complaint + chunk.toString()).slice(-2000)));
  const base = `http://127.0.0.1:${port}`;
  if (!(await holds(async () => (await fetch(`${base}/api/ready`)).status === 200, 10)))
    throw new Error(`HAProxy serves nothing: ${complaint}`);
  return {
    base,
    async close() {
      child.kill("SIGKILL");
      if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
