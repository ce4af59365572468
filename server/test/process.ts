/** The server as its users run it: a process of its own, known by its pid, ended by it. */
import { spawn, type ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const MAIN = fileURLToPath(new URL("../src/main.js", import.meta.url));

export interface ServerProcess {
  readonly base: string;
  readonly child: ChildProcess;
  readonly lines: string[];
  readonly exited: Promise<number | null>;
  stop(): Promise<number | null>;
  kill(): Promise<void>;
}

export interface FailedStart {
  readonly code: number | null;
  readonly errors: string;
}

function launch(env: Record<string, string>) {
  const { PATH = "", HOME = "" } = process.env;
  const child = spawn(process.execPath, ["--enable-source-maps", MAIN], {
    // No balancer in front of it needs time to notice that it stops.
    env: { PATH, HOME, PORT: "0", KEYWARD_DRAIN_SECONDS: "0", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  // A test that fails half-way must not leave its server behind.
  const end = () => child.kill("SIGKILL");
  process.once("exit", end);
  child.once("exit", () => process.off("exit", end));
  const exited = new Promise<number | null>((resolve) => child.once("exit", resolve));
  let errors = "";
  child.stderr.on("data", (chunk: Buffer) => (errors += chunk.toString()));
  return { child, exited, errors: () => errors };
}

export interface BeginningServer extends Pick<ServerProcess, "child" | "lines" | "exited"> {
  readonly ready: Promise<ServerProcess>;
  /** What it said on its way out. */
  readonly errors: () => string;
}

export const startServer = (env: Record<string, string>): Promise<ServerProcess> => beginServer(env).ready;

/** For a start that is expected to take its time. */
export function beginServer(env: Record<string, string>): BeginningServer {
  const { child, exited, errors } = launch(env);
  const lines: string[] = [];
  const ready = whenReady({ child, exited, errors, lines });
  // Who only waits for its end does not ask whether it was ever ready.
  ready.catch(() => undefined);
  return { child, exited, errors, lines, ready };
}

async function whenReady({
  child,
  exited,
  errors,
  lines,
}: Omit<BeginningServer, "ready">): Promise<ServerProcess> {
  const base = await new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout as NodeJS.ReadableStream }).on("line", (line) => {
      lines.push(line);
      const { url, msg } = JSON.parse(line) as { url?: string; msg?: string };
      if (msg === "Keyward is ready" && url) resolve(url);
    });
    void exited.then((code) => reject(new Error(`the server ended with ${code}: ${errors()}`)));
  });
  return {
    base,
    child,
    lines,
    exited,
    stop() {
      child.kill("SIGTERM");
      return exited;
    },
    async kill() {
      child.kill("SIGKILL");
      await exited;
    },
  };
}

/** For a start that is expected to be refused. */
export async function failToStart(env: Record<string, string>): Promise<FailedStart> {
  const { exited, errors } = launch(env);
  return { code: await exited, errors: errors() };
}
