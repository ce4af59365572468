// Starts what is measured as processes of their own, ends them by their pid, and reads their CPU time and memory.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const MAIN = fileURLToPath(new URL("../server/dist/src/main.js", import.meta.url));

const children = new Set();
const folders = new Set();
const farewells = [];

/** What else is to be done when a run is ended early. */
export const beforeEarlyEnd = (work) => void farewells.push(work);

/** A folder for data, gone after the run, however it ends. */
export function dataFolder() {
  const folder = mkdtempSync(join(tmpdir(), "keyward-bench-"));
  folders.add(folder);
  return folder;
}

// A run that is ended early must leave no servers and no gigabytes behind.
for (const signal of ["SIGINT", "SIGTERM"])
  process.once(signal, async () => {
    await Promise.all([...[...children].map(stop), ...farewells.map((work) => work())]);
    for (const folder of folders) rmSync(folder, { recursive: true, force: true });
    process.exit(130);
  });

function launch(args, env, isReady) {
  const child = spawn(process.execPath, args, {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  children.add(child);
  child.once("exit", () => children.delete(child));
  return new Promise((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`${args[0]} ended with ${code}`)));
    createInterface({ input: child.stdout }).on("line", (line) => {
      const base = isReady(line);
      if (/"level":(50|60|"error"|"fatal")/.test(line)) console.error(line);
      if (base) resolve({ base, pid: child.pid, stop: () => stop(child) });
    });
  });
}

function stop(child) {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve();
    child.once("exit", resolve);
    child.kill("SIGTERM");
  });
}

/** Rate limits off and a quiet log: the limits are a setting, and log lines would measure the terminal. */
export const QUIET = {
  PORT: "0",
  KEYWARD_RATE_LIMIT_READ: "0",
  KEYWARD_RATE_LIMIT_WRITE: "0",
  KEYWARD_RATE_LIMIT_LOGIN: "0",
  KEYWARD_DRAIN_SECONDS: "0",
};

export const startKeyward = (env) =>
  launch([MAIN], { ...QUIET, ...env }, (line) => {
    const { msg, url } = JSON.parse(line);
    return msg === "Keyward is ready" ? url : undefined;
  });

export const startLimit = (file, env) =>
  launch([fileURLToPath(new URL(file, import.meta.url))], env, (line) =>
    line.startsWith("http://") ? line : undefined,
  );

const TICK = 100;
export function usageOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const rss = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
    return {
      cpuSeconds: (Number(fields[11]) + Number(fields[12])) / TICK,
      rssMb: Number(rss?.[1] ?? 0) / 1024,
    };
  } catch {
    return { cpuSeconds: 0, rssMb: 0 };
  }
}
