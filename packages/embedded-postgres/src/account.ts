// The account that runs the database. PostgreSQL refuses to run as root, so for a root caller it uses the account every Unix has
// for owning nothing. Such an account cannot walk through /root (mode 0700), where `npm start` may well be
// run: `canReach` tells beforehand which paths are closed to it.
import { chown, chmod, lchown, readdir, stat } from "node:fs/promises";
import { dirname, join } from "node:path";

import { cannotStart, errnoOf, ownDatabase } from "./failure.ts";
import type { RunAs } from "./processes.ts";

/**
 * nobody and nogroup on Linux. It must be in the passwd file, for initdb looks its own name up. On macOS
 * nobody is -2, which not every call here can carry; its "daemon" owns as little.
 */
const UNPRIVILEGED: RunAs = process.platform === "darwin" ? { uid: 1, gid: 1 } : { uid: 65534, gid: 65534 };

async function ownerOf(path: string): Promise<RunAs | undefined> {
  try {
    const { uid, gid } = await stat(path);
    return { uid, gid };
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return undefined;
    throw error;
  }
}

async function chownTree(root: string, to: RunAs): Promise<void> {
  for (const entry of await readdir(root, { recursive: true }))
    await lchown(join(root, entry), to.uid, to.gid);
  await chown(root, to.uid, to.gid);
}

/** The identity to start PostgreSQL with; undefined means our own. */
export async function chooseAccount(clusterDir: string): Promise<RunAs | undefined> {
  const us = process.getuid?.() ?? -1;
  const owner = await ownerOf(clusterDir);
  if (us !== 0) {
    if (owner === undefined || owner.uid === us) return undefined;
    throw cannotStart(
      `The database in ${clusterDir} belongs to uid ${owner.uid}, but this process runs as uid ${us}`,
      ["run it as that user or as root", "give the directory to this user with chown -R", ownDatabase],
    );
  }
  // A cluster made by an ordinary user keeps its owner, so that it can be run without root again.
  if (owner !== undefined && owner.uid !== 0) return owner;
  // Root owns it after a restore with cp or tar. PostgreSQL insists on owning its files.
  if (owner !== undefined) await chownTree(clusterDir, UNPRIVILEGED);
  return UNPRIVILEGED;
}

/** Gives a path to the database's account, for its eyes only. */
export async function giveTo(account: RunAs | undefined, directory: string): Promise<void> {
  await chmod(directory, 0o700);
  if (account !== undefined) await chown(directory, account.uid, account.gid);
}

/**
 * Whether the account may walk down to the (real) path and read and enter it. Judged by mode bits alone; where
 * access lists say otherwise, the answer errs and a start falls back to what works for closed paths.
 */
export async function canReach(account: RunAs | undefined, path: string): Promise<boolean> {
  if (account === undefined) return true;
  for (let here = path, needed = 0o5; ; here = dirname(here), needed = 0o1) {
    const { uid, gid, mode } = await stat(here);
    const granted = uid === account.uid ? mode >> 6 : gid === account.gid ? mode >> 3 : mode;
    if ((granted & needed) !== needed) return false;
    if (dirname(here) === here) return true;
  }
}
