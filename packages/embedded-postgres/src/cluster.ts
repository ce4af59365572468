// The cluster: PostgreSQL's data directory, <dataDir>/postgres. It is made under a temporary name beside its place
// and renamed when it is complete, so a kill in the middle of initdb leaves litter, never half a database.
//
// An account that is not root cannot walk to a path below a closed folder such as /root. It does not have to: a
// child is put into its working directory while it is still root, and /proc/self/cwd leads every process to its
// own working directory without walking. PostgreSQL works inside its data directory for all its life and hands it
// down to its children, so "-D /proc/self/cwd" holds for each of them. No capability and no program is needed.
import { existsSync } from "node:fs";
import { mkdtemp, open, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { userInfo } from "node:os";
import { join } from "node:path";

import { canReach, giveTo } from "./account.ts";
import type { Binaries, CommandLine } from "./binaries.ts";
import { cannotStart, errnoOf, otherDirectory, ownDatabase } from "./failure.ts";
import { type RunAs, run } from "./processes.ts";

const DRAFT_PREFIX = "postgres.new-";

/**
 * Anyone who can open the socket is trusted, and the socket's folder is closed to all but the database's account (and
 * root). Nothing listens on a network, and no line here would admit a network client if something did.
 */
const HOST_BASED_ACCESS = "local all all trust\n";

interface ClusterRequest {
  /** Real path, without symbolic links. */
  readonly dataDir: string;
  readonly binaries: Binaries;
  readonly account: RunAs | undefined;
  readonly superuser: string;
  readonly isDurable: boolean;
  readonly log: (line: string) => void;
}

export const clusterPath = (dataDir: string): string => join(dataDir, "postgres");

/** How a process that runs inside the cluster directory is told of it. */
export async function ownName(dataDir: string, account: RunAs | undefined, path: string): Promise<string> {
  if (await canReach(account, dataDir)) return path;
  if (existsSync("/proc/self/cwd")) return "/proc/self/cwd";
  throw cannotStart(
    `The data directory ${dataDir} lies below a folder that uid ${account?.uid ?? "?"}, which PostgreSQL must run as, may not enter`,
    [otherDirectory, "start as an ordinary user", ownDatabase],
  );
}

async function hasCluster(path: string, major: string): Promise<boolean> {
  let version: string;
  try {
    version = (await readFile(join(path, "PG_VERSION"), "utf8")).trim();
  } catch (error) {
    if (errnoOf(error) !== "ENOENT") throw error;
    if (!existsSync(path) || (await readdir(path)).length === 0) return false;
    throw cannotStart(`${path} holds files but no PostgreSQL database`, ["move them away", otherDirectory]);
  }
  if (version === major) return true;
  throw cannotStart(
    `The database in ${path} was made by PostgreSQL ${version}, and this release brings PostgreSQL ${major}`,
    ["export it with the release that made it", ownDatabase],
  );
}

function initdbCommand({ binaries, superuser, isDurable }: ClusterRequest, directory: string): CommandLine {
  const { command, args } = binaries.tied("KILL", binaries.initdb, [
    `--pgdata=${directory}`,
    `--username=${superuser}`,
    "--auth-local=trust",
    "--auth-host=reject",
    // The builtin provider sorts the same on every machine and never changes under an index, as libc and ICU do.
    "--locale=C",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--encoding=UTF8",
    "--data-checksums",
    "--no-instructions",
    ...(isDurable ? [] : ["--no-sync"]),
  ]);
  if (hasName()) return { command, args };
  // initdb insists on looking its own user up. A user id without a name, as containers are often given, gets one
  // inside a user namespace; the files still belong to the true id outside.
  return {
    command: "unshare",
    args: ["--user", "--map-user=65534", "--map-group=65534", "--", command, ...args],
  };
}

function hasName(): boolean {
  try {
    return userInfo().username !== "";
  } catch {
    return false;
  }
}

function explain(output: string): string {
  const lines = output.split("\n").filter((line) => /error|fatal|cannot|could not|failed/i.test(line));
  const said = lines.slice(0, 3).join(" ") || output.trim().slice(-300);
  return hasName()
    ? said
    : `the user id ${process.getuid?.() ?? "?"} has no name in the passwd file; ${said}`;
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

async function makeCluster(request: ClusterRequest, path: string): Promise<void> {
  const { dataDir, account, isDurable } = request;
  const draft = await mkdtemp(join(dataDir, DRAFT_PREFIX));
  await giveTo(account, draft);
  const { command, args } = initdbCommand(request, await ownName(dataDir, account, draft));
  const { code, notStarted, output } = await run(command, args, { cwd: draft, runAs: account });
  if (code !== 0) {
    await rm(draft, { recursive: true, force: true });
    throw cannotStart(`No database could be made in ${dataDir} (${notStarted ?? explain(output)})`, [
      otherDirectory,
      ownDatabase,
    ]);
  }
  await writeFile(join(draft, "pg_hba.conf"), HOST_BASED_ACCESS, { flush: isDurable });
  await rename(draft, path);
  if (isDurable) await syncFolder(dataDir);
}

/** Makes sure that a complete cluster exists, and removes what an interrupted initdb left. */
export async function ensureCluster(request: ClusterRequest): Promise<void> {
  const { dataDir, log, binaries } = request;
  for (const name of await readdir(dataDir)) {
    if (name.startsWith(DRAFT_PREFIX))
      await rm(join(dataDir, name), { recursive: true, force: true, maxRetries: 5 });
  }
  const path = clusterPath(dataDir);
  if (await hasCluster(path, binaries.major)) return;
  log(`making a new database in ${path}`);
  await makeCluster(request, path);
}
