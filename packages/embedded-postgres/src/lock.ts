// One owner per data directory. The lock proper is the kernel's flock on <dataDir>/<name>.lock: it ends with
// its holder however that dies, and it is seen across containers that share the directory, where process
// ids mean nothing. Node cannot call flock, but the small program flock(1) can lock a descriptor it is handed:
// the lock belongs to the open file, so it stays with us when that program has ended. Where there is no
// flock(1), the holder written in the file decides: its process id and its start time. The file is never deleted,
// for a deleted lock file could be locked by one process while another locks its successor.
import { closeSync, constants, ftruncateSync, openSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";

import { cannotStart, errnoOf, otherDirectory, ownDatabase } from "./failure.ts";
import { isAlive, run, startTimeOf } from "./processes.ts";

export interface DataDirLock {
  release(): void;
}

interface Holder {
  readonly pid: number;
  readonly startTime: string;
}

function readHolder(path: string): Holder | undefined {
  const [, pid, startTime] = /^(\d+) (.+)\n$/.exec(readFileSync(path, "utf8")) ?? [];
  return pid === undefined || startTime === undefined ? undefined : { pid: Number(pid), startTime };
}

async function isStillRunning(holder: Holder): Promise<boolean> {
  return isAlive(holder.pid) && (await startTimeOf(holder.pid)) === holder.startTime;
}

function openLockFile(dataDir: string, name: string): { readonly path: string; readonly fd: number } {
  const path = join(dataDir, `${name}.lock`);
  try {
    // O_NOFOLLOW: a symbolic link planted here must not let us truncate somebody else's file.
    return { path, fd: openSync(path, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o600) };
  } catch (error) {
    throw cannotStart(
      `The data directory ${dataDir} is not writable by uid ${process.getuid?.() ?? "?"} (${errnoOf(error) ?? String(error)})`,
      ["change its owner", otherDirectory, ownDatabase],
      error,
    );
  }
}

/** Takes the data directory for this process, or refuses in one line that names the process which has it. */
export async function lockDataDir(dataDir: string, name: string): Promise<DataDirLock> {
  const { path, fd } = openLockFile(dataDir, name);
  try {
    const holder = readHolder(path);
    const { code } = await run("flock", ["-x", "-n", "3"], { handOver: fd });
    // The record counts even where flock was granted: its writer may not have had flock(1).
    const isTaken = code === 1 || (holder !== undefined && (await isStillRunning(holder)));
    if (isTaken) {
      const who = holder === undefined ? "another process" : `process ${holder.pid}`;
      throw cannotStart(
        `The data directory ${dataDir} is in use by ${holder?.pid === process.pid ? "this very process" : who}`,
        ["stop that one first", otherDirectory],
      );
    }
    ftruncateSync(fd);
    writeSync(fd, `${process.pid} ${(await startTimeOf(process.pid)) ?? "unknown"}\n`, 0);
  } catch (error) {
    closeSync(fd);
    throw error;
  }
  let isHeld = true;
  return {
    release() {
      if (!isHeld) return;
      isHeld = false;
      ftruncateSync(fd);
      closeSync(fd);
    },
  };
}
