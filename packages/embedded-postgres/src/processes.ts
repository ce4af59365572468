// What the operating system knows about other processes. A process id alone proves nothing, because ids are
// reused: a lock remembers the start time beside it, and a leftover database is recognised by its command
// line, which (unlike /proc/<pid>/exe and cwd) a root without CAP_SYS_PTRACE, as in a container, may read too.
import { spawn, type StdioOptions } from "node:child_process";
import { readFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";

import { errnoOf } from "./failure.ts";

export interface RunAs {
  readonly uid: number;
  readonly gid: number;
}

interface RunOptions {
  readonly cwd?: string;
  readonly runAs?: RunAs | undefined;
  /** An open file handed to the program as descriptor 3. */
  readonly handOver?: number;
}

export interface RunOutcome {
  /** The exit code; null when a signal ended it or when it never ran. */
  readonly code: number | null;
  /** The errno name when the program could not be started at all. */
  readonly notStarted?: string;
  readonly output: string;
}

/**
 * The whole environment of every program started here. PG* variables of the operator must not steer our
 * database, and the secrets in the caller's own environment are none of its business.
 */
export function plainEnvironment(): Record<string, string> {
  return { PATH: process.env["PATH"] ?? "/usr/bin:/bin:/usr/sbin:/sbin", LC_ALL: "C", TZ: "UTC" };
}

/** Runs a program to its end and keeps what it said. Never throws: not starting is an outcome too. */
export function run(command: string, args: readonly string[], options: RunOptions = {}): Promise<RunOutcome> {
  const stdio: StdioOptions = ["ignore", "pipe", "pipe"];
  if (options.handOver !== undefined) stdio.push(options.handOver);
  return new Promise((resolve) => {
    let output = "";
    const failed = (error: unknown): void =>
      resolve({ code: null, notStarted: errnoOf(error) ?? "UNKNOWN", output: String(error) });
    try {
      const child = spawn(command, args, {
        stdio,
        env: plainEnvironment(),
        ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
        ...options.runAs,
      });
      const keep = (chunk: Buffer): void => {
        output += chunk.toString("utf8");
      };
      child.stdout?.on("data", keep);
      child.stderr?.on("data", keep);
      child.on("error", failed);
      child.on("close", (code) => resolve({ code, output }));
    } catch (error) {
      failed(error); // some failures (EACCES on certain platforms) are thrown, not emitted
    }
  });
}

function readOrNothing(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}

/** The fields of /proc/<pid>/stat after the program name, which itself may hold spaces and brackets. */
function statFields(pid: number): readonly string[] | undefined {
  const stat = readOrNothing(`/proc/${pid}/stat`);
  return stat?.slice(stat.lastIndexOf(")") + 2).split(" ");
}

/** Whether the kernel still knows the id, be it only as a zombie. */
export function isKnown(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return errnoOf(error) === "EPERM";
  }
}

/** Whether the process runs. A zombie does not: it only waits for a parent that may never look. */
export const isAlive = (pid: number): boolean => isKnown(pid) && statFields(pid)?.[0] !== "Z";

/** A text that differs between two processes which were given the same id one after the other. */
export async function startTimeOf(pid: number): Promise<string | undefined> {
  if (process.platform === "linux") {
    const ticksSinceBoot = statFields(pid)?.[19]; // field 22 of proc(5)
    // Ticks begin anew at each boot, and machines boot alike: the boot is part of the answer.
    const boot = readOrNothing("/proc/sys/kernel/random/boot_id")?.trim() ?? "";
    return ticksSinceBoot === undefined ? undefined : `${boot}:${ticksSinceBoot}`;
  }
  const ps = await run("ps", ["-o", "lstart=", "-p", String(pid)]);
  return ps.code === 0 ? ps.output.trim() : undefined;
}

export interface RunningProcess {
  readonly pid: number;
  readonly command: string;
}

/** Every visible process with its command line, arguments joined by spaces. */
export async function listProcesses(): Promise<readonly RunningProcess[]> {
  if (process.platform === "linux") {
    const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number);
    return pids.map((pid) => ({
      pid,
      command: (readOrNothing(`/proc/${pid}/cmdline`) ?? "").replaceAll("\0", " "),
    }));
  }
  const ps = await run("ps", ["-axww", "-o", "pid=,command="]);
  return ps.output.split("\n").flatMap((line) => {
    const [, pid, command] = /^\s*(\d+)\s(.*)$/.exec(line) ?? [];
    return pid === undefined || command === undefined ? [] : [{ pid: Number(pid), command }];
  });
}

/** Waits until none of the processes runs; false when some still does after the given time. */
export async function waitUntilGone(pids: readonly number[], withinMs: number): Promise<boolean> {
  const deadline = performance.now() + withinMs;
  while (pids.some(isAlive)) {
    if (performance.now() > deadline) return false;
    await pause(10);
  }
  return true;
}

/** Sends a signal to a process that may have ended meanwhile. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if (errnoOf(error) !== "ESRCH") throw error;
  }
}
