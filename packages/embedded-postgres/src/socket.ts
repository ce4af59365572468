// Where the database listens: one unix socket in a folder that only its account (and root) may enter. The folder is
// <cluster>/run; PostgreSQL works inside the cluster, so it names it "run" however long or closed the path above
// is. We, who connect from outside, need the whole path, and the kernel allows about 107 bytes for it. A longer
// one moves to a short folder in the temporary directory, freshly made under an unguessable name, because a stranger could
// have made a guessable one before us. Its name is kept in the cluster and used again while it is still ours.
import { existsSync } from "node:fs";
import { lstat, mkdir, mkdtemp, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { canReach, giveTo } from "./account.ts";
import { cannotStart, otherDirectory, ownDatabase } from "./failure.ts";
import type { RunAs } from "./processes.ts";

export const PORT = 5432;

/** macOS has the smallest room for a socket path: 104 bytes with the closing zero. */
const LONGEST_PATH = 103;

export interface SocketPlace {
  /** What we hand to clients. */
  readonly directory: string;
  /** What we hand to PostgreSQL. */
  readonly setting: string;
}

const fits = (directory: string): boolean =>
  Buffer.byteLength(join(directory, `.s.PGSQL.${PORT}`)) <= LONGEST_PATH;

/** A folder under its true name, of the database's account, closed to all others: nobody else can have made it. */
async function isOurs(directory: string, account: RunAs | undefined): Promise<boolean> {
  try {
    const { uid, mode } = await lstat(directory);
    const isFolder = (mode & 0o170000) === 0o040000;
    return isFolder && (mode & 0o077) === 0 && uid === (account?.uid ?? process.getuid?.());
  } catch {
    return false;
  }
}

async function shortFolder(clusterDir: string, account: RunAs | undefined, name: string): Promise<string> {
  const note = join(clusterDir, "socket-directory");
  const known = existsSync(note) ? (await readFile(note, "utf8")).trim() : "";
  if (known !== "" && fits(known) && (await isOurs(known, account))) return known;
  for (const candidate of [tmpdir(), "/tmp"]) {
    const parent = await realpath(candidate);
    if (!fits(join(parent, `${name}-XXXXXX`)) || !(await canReach(account, parent))) continue;
    const made = await mkdtemp(join(parent, `${name}-`));
    await giveTo(account, made);
    await writeFile(note, `${made}\n`, { mode: 0o600 });
    return made;
  }
  throw cannotStart(
    `No folder for the database socket: ${clusterDir} is too long a path, and ${tmpdir()} is closed or too long as well`,
    [otherDirectory, ownDatabase],
  );
}

/** Called when no database of this cluster runs any more: a lock left here can only name one that is gone. */
export async function prepareSocketPlace(
  clusterDir: string,
  account: RunAs | undefined,
  name: string,
): Promise<SocketPlace> {
  const place = await chooseSocketPlace(clusterDir, account, name);
  // PostgreSQL would take a killed one for alive for as long as nobody has taken note of its end (a zombie).
  await rm(join(place.directory, `.s.PGSQL.${PORT}.lock`), { force: true });
  return place;
}

async function chooseSocketPlace(
  clusterDir: string,
  account: RunAs | undefined,
  name: string,
): Promise<SocketPlace> {
  const inside = join(clusterDir, "run");
  if (!fits(inside)) {
    const directory = await shortFolder(clusterDir, account, name);
    return { directory, setting: directory };
  }
  await mkdir(inside, { recursive: true, mode: 0o700 });
  await giveTo(account, inside);
  return { directory: inside, setting: "run" };
}
