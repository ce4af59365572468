// What an earlier life may have left running. Called with the data directory's lock held, so a database process of
// this cluster that still lives has no owner any more: it is asked to end, and in the end made to. Such
// processes are known by their mark, the cluster_name, which PostgreSQL shows in the command line of the postmaster and
// in the title of each of its children.
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { chown, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";

import { cannotStart, errnoOf } from "./failure.ts";
import {
  type RunAs,
  isAlive,
  isKnown,
  listProcesses,
  type RunningProcess,
  signal,
  waitUntilGone,
} from "./processes.ts";

/** Beyond every process id a kernel gives out, so certainly not running. */
const NOBODYS_PID = 2_147_483_647;

/**
 * The mark of one cluster. Made of the directory's identity, not of its path: two containers may each have a
 * /data, and the host sees the processes of both.
 */
export async function markOf(clusterDir: string, name: string): Promise<string> {
  const { dev, ino } = await stat(clusterDir);
  return `${name}-${createHash("sha256").update(`${dev}:${ino}`).digest("hex").slice(0, 12)}`;
}

const isPostmaster = (command: string, mark: string): boolean => command.includes(`cluster_name=${mark} `);
const isChild = (command: string, mark: string): boolean => command.startsWith(`postgres: ${mark}: `);

async function processesOf(mark: string): Promise<{ postmasters: number[]; children: number[] }> {
  const all = await listProcesses();
  const pids = (is: (command: string, mark: string) => boolean): number[] =>
    all.filter(({ command }) => is(`${command.trimEnd()} `, mark)).map(({ pid }) => pid);
  return { postmasters: pids(isPostmaster), children: pids(isChild) };
}

/** INT ends it in order, QUIT at once but cleanly; after KILL, PostgreSQL recovers from its log at the next start. */
async function end(pids: readonly number[], patienceMs: number): Promise<void> {
  for (const name of ["SIGINT", "SIGQUIT", "SIGKILL"] as const) {
    for (const pid of pids.filter(isAlive)) signal(pid, name);
    if (await waitUntilGone(pids, patienceMs)) return;
  }
  throw cannotStart(
    `The database process ${pids.filter(isAlive).join(", ")} of an earlier run does not end`,
    ["end it by hand"],
  );
}

async function endLeftovers(mark: string, log: (line: string) => void): Promise<void> {
  const { postmasters } = await processesOf(mark);
  if (postmasters.length > 0) {
    log(`stopping the database an earlier run left running (process ${postmasters.join(", ")})`);
    await end(postmasters, 10_000);
  }
  // Children of a postmaster that was killed leave by themselves, except one that is deep in a computation. Each
  // may still write to the files, so none may live when the next postmaster starts.
  const { children } = await processesOf(mark);
  if (!(await waitUntilGone(children, 1_000))) await end(children, 2_000);
}

/** Whether a live process, named by a lock file but without our mark, may still be a database on this directory. */
async function mayBeDatabaseOf(clusterDir: string, pid: number): Promise<boolean> {
  const found: RunningProcess | undefined = (await listProcesses()).find((each) => each.pid === pid);
  const program = basename(found?.command.split(" ")[0] ?? "").replace(/:$/, "");
  if (program !== "postgres" && program !== "postmaster") return false;
  try {
    const [theirs, ours] = await Promise.all([stat(`/proc/${pid}/cwd`), stat(clusterDir)]);
    return theirs.dev === ours.dev && theirs.ino === ours.ino;
  } catch {
    return true;
  }
}

/**
 * Frees a lock file that PostgreSQL itself would refuse: one that is empty (a power cut), or whose process id now
 * belongs to somebody else, or to a postmaster that was killed and that no parent has taken note of yet (a zombie,
 * which PostgreSQL takes for alive). In these cases only the id is replaced: the other lines let PostgreSQL check that
 * no process is left on the old shared memory.
 */
async function healLockFile(clusterDir: string, account: RunAs | undefined): Promise<void> {
  const path = join(clusterDir, "postmaster.pid");
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return;
    throw error;
  }
  const pid = Math.abs(Number.parseInt(text, 10));
  if (!Number.isSafeInteger(pid) || pid === 0) return rm(path);
  if (!isKnown(pid)) return;
  if (await mayBeDatabaseOf(clusterDir, pid)) {
    throw cannotStart(
      `The database in ${clusterDir} is being served by process ${pid}, which is none of ours`,
      ["stop it first"],
    );
  }
  const healed = join(clusterDir, "postmaster.pid.healed");
  await writeFile(healed, text.replace(/^\s*-?\d+/, String(NOBODYS_PID)), { mode: 0o600 });
  if (account !== undefined) await chown(healed, account.uid, account.gid);
  await rename(healed, path);
}

interface LeftoversRequest {
  readonly clusterDir: string;
  readonly account: RunAs | undefined;
  readonly name: string;
  readonly log: (line: string) => void;
}

/** Makes the way free for a new postmaster on this cluster. */
export async function clearLeftovers({ clusterDir, account, name, log }: LeftoversRequest): Promise<void> {
  if (!existsSync(clusterDir)) return;
  await endLeftovers(await markOf(clusterDir, name), log);
  await healLockFile(clusterDir, account);
}
