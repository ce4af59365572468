/**
 * Real proxies in front of a node, each twice: with the settings it comes with, and with the block that
 * docs/events.md tells people to use. That block is read from the page itself: what is documented is what is tested.
 */
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { connect, createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const PAGE = fileURLToPath(new URL("../../../../docs/events.md", import.meta.url));

export interface Proxy {
  readonly name: string;
  readonly base: string;
}

export interface Proxies {
  readonly list: readonly Proxy[];
  /** Names of proxies that are not installed. */
  readonly missing: readonly string[];
  close(): Promise<void>;
}

/** The fenced block that follows `**title**` on the page. */
async function documented(title: string): Promise<string> {
  const page = await readFile(PAGE, "utf8");
  const block = page.split(`**${title}**`)[1]?.split("```")[1];
  if (block === undefined) throw new Error(`docs/events.md shows no settings for ${title}`);
  return block.slice(block.indexOf("\n") + 1);
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

async function answers(port: number): Promise<void> {
  for (let attempt = 0; attempt < 200; attempt += 1) {
    const socket = connect(port, "127.0.0.1");
    const isOpen = await new Promise<boolean>((resolve) => {
      socket.once("connect", () => resolve(true));
      socket.once("error", () => resolve(false));
    });
    socket.destroy();
    if (isOpen) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`nothing listens on port ${port}`);
}

interface Recipe {
  readonly program: string;
  readonly title: string;
  /** The configuration file, and how the program is told of it. */
  configure(folder: string, host: string, ports: readonly [number, number]): Promise<string>;
  arguments(folder: string, file: string): readonly string[];
}

const nginx: Recipe = {
  program: "nginx",
  title: "nginx",
  async configure(folder, host, [plain, advised]) {
    const server = (port: number, location: string) =>
      `server { listen 127.0.0.1:${port}; location / { proxy_pass http://keyward; } ${location} }`;
    const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
      (kind) => `${kind}_temp_path ${folder}/${kind};`,
    );
    return `${process.getuid?.() === 0 ? "user root;" : ""}
      daemon off; pid ${folder}/pid; error_log ${folder}/error.log; events {}
      http { access_log off; ${temporary.join(" ")}
        upstream keyward { server ${host}; }
        ${server(plain, "")}
        ${server(advised, await documented("nginx"))} }`;
  },
  arguments: (folder, file) => ["-c", file, "-p", folder],
};

const haproxy: Recipe = {
  program: "haproxy",
  title: "HAProxy",
  async configure(_folder, host, [plain, advised]) {
    const front = (name: string, port: number) =>
      `frontend ${name}\n    bind 127.0.0.1:${port}\n    default_backend ${name}_keyward\n` +
      `backend ${name}_keyward\n    server one ${host}\n`;
    // The first section is what Debian installs.
    return (
      "defaults\n    mode http\n    timeout connect 5000\n    timeout client 50000\n    timeout server 50000\n" +
      `${front("plain", plain)}${await documented("HAProxy")}${front("advised", advised)}`
    );
  },
  arguments: (_folder, file) => ["-db", "-f", file],
};

const caddy: Recipe = {
  program: "caddy",
  title: "Caddy",
  async configure(folder, host, [plain, advised]) {
    const site = (port: number, proxy: string) => `http://127.0.0.1:${port} {\n${proxy}\n}\n`;
    return (
      `{\n    admin off\n    auto_https off\n    storage file_system ${folder}/state\n}\n` +
      site(plain, `reverse_proxy ${host}`) +
      site(advised, (await documented("Caddy")).replace("keyward:8080", host))
    );
  },
  arguments: (_folder, file) => ["run", "--adapter", "caddyfile", "--config", file],
};

async function launch(recipe: Recipe, folder: string, host: string) {
  const ports = [await freePort(), await freePort()] as const;
  const home = join(folder, recipe.program);
  await mkdir(home);
  const file = join(home, "config");
  await writeFile(file, await recipe.configure(home, host, ports));
  const child = spawn(recipe.program, recipe.arguments(home, file), {
    stdio: ["ignore", "ignore", "pipe"],
    env: { PATH: process.env["PATH"], HOME: home },
  });
  let complaint = "";
  child.stderr.on("data", (chunk: Buffer) => (complaint = (complaint + chunk.toString()).slice(-2000)));
  const failed = once(child, "exit").then(() => {
    throw new Error(`${recipe.program} ended: ${complaint}`);
  });
  failed.catch(() => undefined);
  await Promise.race([Promise.all(ports.map(answers)), failed]);
  const [plain, advised] = ports.map((port) => `http://127.0.0.1:${port}`) as [string, string];
  return {
    child,
    proxies: [
      { name: `${recipe.title}, defaults`, base: plain },
      { name: `${recipe.title}, as documented`, base: advised },
    ],
  };
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGTERM");
  const force = setTimeout(() => child.kill("SIGKILL"), 5000);
  await ended;
  clearTimeout(force);
}

export async function startProxies(upstream: string): Promise<Proxies> {
  const folder = await mkdtemp(join(tmpdir(), "keyward-proxies-"));
  const children: ChildProcess[] = [];
  const list: Proxy[] = [];
  const missing: string[] = [];
  const close = async () => {
    await Promise.all(children.map(end));
    await rm(folder, { recursive: true, force: true });
  };
  try {
    for (const recipe of [nginx, haproxy, caddy]) {
      // Each answers to one of these; all that counts is whether the program is there.
      if (spawnSync(recipe.program, ["-v"]).error) {
        missing.push(recipe.title);
        continue;
      }
      const { child, proxies } = await launch(recipe, folder, new URL(upstream).host);
      children.push(child);
      list.push(...proxies);
    }
  } catch (error) {
    await close();
    throw error;
  }
  return { list, missing, close };
}
