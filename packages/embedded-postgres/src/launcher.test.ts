// A process of its own: it changes the environment, and runs long.
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import {
  chmod,
  chown,
  cp,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  realpath,
  rename,
  rm,
  stat,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, afterEach, test } from "node:test";

import pg from "pg";

import { findPackage, prepareBinaries } from "./binaries.ts";
import { EmbeddedPostgresError, startEmbeddedPostgres, type EmbeddedPostgres } from "./index.ts";
import { lockDataDir } from "./lock.ts";
import { isAlive } from "./processes.ts";

const isRoot = process.getuid?.() === 0;
const NOBODY = { uid: 65534, gid: 65534 };
/** A programme that has its own PostgreSQL. */
const name = "shop";

const running: EmbeddedPostgres[] = [];
const children: ChildProcess[] = [];
const folders: string[] = [];
const said: string[] = [];
let pattern: string | undefined;

async function tempFolder(prefix = "launcher-"): Promise<string> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), prefix)));
  await chmod(folder, 0o755);
  folders.push(folder);
  return folder;
}

/** A data directory that already holds a cluster: a true copy of one, because each initdb costs a second. */
async function usedDataDir(dataDir?: string): Promise<string> {
  const copy = dataDir ?? (await tempFolder());
  if (pattern === undefined) {
    pattern = await mkdtemp(join(tmpdir(), "launcher-pattern-"));
    await chmod(pattern, 0o755);
    await (
      await startEmbeddedPostgres({ name, dataDir: pattern, log: () => undefined, durable: false })
    ).stop();
  }
  await mkdir(copy, { recursive: true });
  const [code] = (await once(spawn("cp", ["-a", join(pattern, "postgres"), copy]), "exit")) as [number];
  assert.equal(code, 0);
  return copy;
}

async function start(dataDir: string): Promise<EmbeddedPostgres> {
  const started = await startEmbeddedPostgres({
    name,
    dataDir,
    log: (line) => said.push(line),
    durable: false,
  });
  running.push(started);
  return started;
}

async function query(postgres: EmbeddedPostgres, sql: string): Promise<readonly unknown[][]> {
  const client = new pg.Client({ ...postgres.connection, ssl: false });
  client.on("error", () => undefined);
  await client.connect();
  try {
    return (await client.query<unknown[]>({ text: sql, rowMode: "array" })).rows;
  } finally {
    await client.end();
  }
}

const isClearLine = (mustSay: RegExp) => (error: unknown) => {
  assert.ok(error instanceof EmbeddedPostgresError, String(error));
  assert.match(error.message, mustSay);
  assert.ok(!error.message.includes("\n"), "one line");
  return true;
};

/** Another shop: a Node process that starts the database, says its pid and stays. */
async function otherShop(dataDir: string, environment: Record<string, string> = {}) {
  const script = `
    const { startEmbeddedPostgres } = await import(${JSON.stringify(new URL("./index.js", import.meta.url).href)});
    const { pid } = await startEmbeddedPostgres({ name: "shop", dataDir: ${JSON.stringify(dataDir)}, log() {}, durable: false });
    console.log(pid);
    setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, ...environment },
  });
  children.push(child);
  const [line] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
  const { pid } = child;
  assert.ok(pid !== undefined);
  return { child, pid, postmaster: Number(line) };
}

async function killHard(child: ChildProcess): Promise<void> {
  const over = once(child, "exit");
  child.kill("SIGKILL");
  await over;
}

afterEach(async () => {
  for (const child of children.splice(0))
    if (child.exitCode === null && child.signalCode === null) await killHard(child);
  for (const postgres of running.splice(0)) await postgres.stop();
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  said.length = 0;
});

after(async () => {
  if (pattern !== undefined) await rm(pattern, { recursive: true, force: true });
});

test("a first start makes a database that answers on a closed socket and on no network", async () => {
  const dataDir = join(await tempFolder(), "new", "data");
  const postgres = await start(dataDir);
  const [row] = await query(
    postgres,
    `SELECT current_database(), current_user, current_setting('listen_addresses'), current_setting('data_checksums'),
            current_setting('TimeZone'), current_setting('server_encoding'), datlocprovider, datlocale
       FROM pg_database WHERE datname = current_database()`,
  );
  assert.deepEqual(row, ["shop", "shop", "", "on", "UTC", "UTF8", "b", "C.UTF-8"]);
  const folder = await stat(postgres.connection.host);
  assert.equal(folder.mode & 0o777, 0o700);
  assert.equal(folder.uid, isRoot ? NOBODY.uid : process.getuid?.());
  process.kill(-postgres.pid, 0); // throws unless it leads a process group, out of reach of Ctrl-C in our terminal
  assert.equal((await stat(dataDir)).uid, process.getuid?.(), "only the postgres folder changes hands");
  assert.ok(
    said.some((line) => line.includes("ready to accept connections")),
    "the server log is passed on",
  );
});

test("a durable start syncs to disk, and settings given by the caller win", async () => {
  const postgres = await startEmbeddedPostgres({
    name,
    dataDir: await tempFolder(),
    log: () => undefined,
    settings: { max_connections: "17" },
  });
  running.push(postgres);
  const [row] = await query(
    postgres,
    "SELECT current_setting('fsync'), current_setting('synchronous_commit'), current_setting('full_page_writes'), current_setting('max_connections')",
  );
  assert.deepEqual(row, ["on", "on", "on", "17"]);
});

test("stop ends the database although clients are connected, and a warm start finds the data", async () => {
  const dataDir = await usedDataDir();
  const first = await start(dataDir);
  await query(first, "CREATE TABLE kept AS SELECT 42 AS answer");
  const lingering = new pg.Client({ ...first.connection, ssl: false });
  lingering.on("error", () => undefined);
  await lingering.connect();
  await Promise.all([first.stop(), first.stop()]);
  assert.equal(await first.exited, 0);
  assert.equal(isAlive(first.pid), false);
  assert.equal(existsSync(join(dataDir, "postgres", "postmaster.pid")), false, "a shutdown in order");
  assert.deepEqual(await query(await start(dataDir), "SELECT answer FROM kept"), [[42]]);
});

test("a database that was suspended with all its processes is ended in order", async () => {
  const dataDir = await usedDataDir();
  const postgres = await start(dataDir);
  const lingering = new pg.Client({ ...postgres.connection, ssl: false });
  lingering.on("error", () => undefined);
  await lingering.connect();
  const children = readFileSync(`/proc/${postgres.pid}/task/${postgres.pid}/children`, "latin1");
  for (const pid of [postgres.pid, ...children.trim().split(" ").map(Number)]) process.kill(pid, "SIGSTOP");
  await postgres.stop();
  assert.equal(await postgres.exited, 0);
  assert.equal(existsSync(join(dataDir, "postgres", "postmaster.pid")), false, "a shutdown in order");
});

test("kill -9 of the postmaster is reported, and a start in the same process keeps every acknowledged row", async () => {
  const dataDir = await usedDataDir();
  const first = await start(dataDir);
  await query(first, "CREATE TABLE kept (n int)");
  const client = new pg.Client({ ...first.connection, ssl: false });
  client.on("error", () => undefined);
  await client.connect();
  let acknowledged = 0;
  const writing = (async () => {
    for (;;) {
      await client.query("INSERT INTO kept VALUES ($1)", [acknowledged + 1]);
      acknowledged += 1;
      if (acknowledged === 50) process.kill(first.pid, "SIGKILL");
    }
  })();
  // A backend deep in a computation does not notice that its postmaster is gone; the next start has to end it.
  const busy = query(
    first,
    "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 1000000) b",
  );
  const [busyEnd, writingEnd] = [assert.rejects(busy), assert.rejects(writing)];
  assert.equal(await first.exited, null);
  const second = await start(dataDir);
  await Promise.all([busyEnd, writingEnd]);
  const [row] = await query(second, "SELECT count(*)::int, max(n) FROM kept");
  const [count, highest] = row ?? [];
  assert.ok(acknowledged >= 50 && Number(count) >= acknowledged, `${String(count)} of ${acknowledged} rows`);
  assert.equal(count, highest, "no row twice and none missing in between");
});

test("a process that is killed takes its database along, and the next start works", async () => {
  const dataDir = await usedDataDir();
  const other = await otherShop(dataDir);
  assert.ok(isAlive(other.postmaster));
  await killHard(other.child);
  const postgres = await start(dataDir);
  assert.notEqual(postgres.pid, other.postmaster);
  assert.equal(isAlive(other.postmaster), false);
  assert.deepEqual(await query(postgres, "SELECT 1"), [[1]]);
});

test("without setpriv and flock a database that outlived its owner is ended by the next start", async () => {
  const dataDir = await usedDataDir();
  const other = await otherShop(dataDir, { PATH: await tempFolder() });
  await assert.rejects(start(dataDir), isClearLine(new RegExp(`process ${other.pid}\\b`)));
  await killHard(other.child);
  assert.ok(isAlive(other.postmaster), "nothing tied it to its parent");
  const postgres = await start(dataDir);
  assert.equal(isAlive(other.postmaster), false);
  assert.deepEqual(await query(postgres, "SELECT 1"), [[1]]);
});

test("a second live owner of one data directory is refused by name and leaves the first alone", async () => {
  const dataDir = await usedDataDir();
  const other = await otherShop(dataDir);
  await assert.rejects(start(dataDir), isClearLine(new RegExp(`in use by process ${other.pid}\\b`)));
  assert.ok(isAlive(other.postmaster));
  await killHard(other.child);
  await start(dataDir);
  await assert.rejects(start(dataDir), isClearLine(/in use by this very process/));
});

test("a lock left by a dead process, or by a process whose id was given away, does not block", async () => {
  const dataDir = await tempFolder();
  const pathWithFlock = process.env["PATH"];
  for (const leftover of [`${process.ppid} 1\n`, "2147483647 77\n", "", "garbage"]) {
    for (const path of [pathWithFlock, dataDir]) {
      await writeFile(join(dataDir, "shop.lock"), leftover);
      process.env["PATH"] = path;
      try {
        (await lockDataDir(dataDir, name)).release();
      } finally {
        process.env["PATH"] = pathWithFlock;
      }
    }
  }
});

test("a stale postmaster.pid never blocks: unrelated live process, dead process, empty file", async () => {
  const dataDir = await usedDataDir();
  const first = await start(dataDir);
  const lockFile = join(dataDir, "postgres", "postmaster.pid");
  const genuine = await readFile(lockFile, "utf8");
  await first.stop();
  // A live process of the very account, for otherwise PostgreSQL sees by itself that it cannot be a postmaster.
  const bystander = spawn("sleep", ["600"], { stdio: "ignore", ...(isRoot ? NOBODY : {}) });
  children.push(bystander);
  await once(bystander, "spawn");
  const withPid = (pid: number): string => genuine.replace(/^\d+/, String(pid));
  for (const stale of [withPid(bystander.pid ?? -1), withPid(2_000_000_000), "", "garbage\n"]) {
    await writeFile(lockFile, stale, { mode: 0o600 });
    if (isRoot) await chown(lockFile, NOBODY.uid, NOBODY.gid);
    const postgres = await start(dataDir);
    assert.deepEqual(await query(postgres, "SELECT 1"), [[1]]);
    await postgres.stop();
  }
  assert.ok(isAlive(bystander.pid ?? -1), "the bystander is left alone");
});

test("what an interrupted initdb left is removed, and foreign files in the cluster's place are not touched", async () => {
  const dataDir = await tempFolder();
  const half = join(dataDir, "postgres.new-abc123");
  await mkdir(join(half, "base"), { recursive: true });
  await writeFile(join(half, "PG_VERSION"), "18\n");
  const postgres = await start(dataDir);
  assert.deepEqual(await query(postgres, "SELECT 1"), [[1]]);
  assert.deepEqual((await readdir(dataDir)).sort(), ["postgres", "shop.lock"]);

  const occupied = await tempFolder();
  await mkdir(join(occupied, "postgres"));
  await writeFile(join(occupied, "postgres", "letters.txt"), "mine");
  await assert.rejects(start(occupied), isClearLine(/letters|holds files but no PostgreSQL/));
  assert.equal(await readFile(join(occupied, "postgres", "letters.txt"), "utf8"), "mine");
});

test("kill -9 in the middle of initdb leaves nothing that stops the next start", async () => {
  const dataDir = await tempFolder();
  const script = `
    const { startEmbeddedPostgres } = await import(${JSON.stringify(new URL("./index.js", import.meta.url).href)});
    await startEmbeddedPostgres({ name: "shop", dataDir: ${JSON.stringify(dataDir)}, log() {}, durable: false });`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], { stdio: "ignore" });
  children.push(child);
  const isHalfMade = async (): Promise<boolean> =>
    (await readdir(dataDir, { recursive: true })).some((name) => /postgres\.new-.*\/PG_VERSION$/.test(name));
  while (!(await isHalfMade())) assert.equal(child.exitCode, null);
  await killHard(child);
  assert.equal(existsSync(join(dataDir, "postgres")), false);
  const postgres = await start(dataDir);
  assert.deepEqual(await query(postgres, "SELECT 1"), [[1]]);
  assert.deepEqual(
    (await readdir(dataDir)).filter((name) => name.startsWith("postgres.new-")),
    [],
  );
});

test("a cluster of another PostgreSQL version and an unusable data directory are refused in one line", async () => {
  const dataDir = await tempFolder();
  await mkdir(join(dataDir, "postgres"));
  await writeFile(join(dataDir, "postgres", "PG_VERSION"), "9\n");
  await assert.rejects(
    start(dataDir),
    isClearLine(/made by PostgreSQL 9\b.*use a PostgreSQL of your own\.$/),
  );
  const file = join(await tempFolder(), "file");
  await writeFile(file, "");
  await assert.rejects(
    start(join(file, "data")),
    isClearLine(/ENOTDIR.*: use another data directory, or use a PostgreSQL of your own\.$/),
  );
});

test("error messages use the caller's advice, and keep their cause", async () => {
  const file = join(await tempFolder(), "file");
  await writeFile(file, "");
  const advice = { otherDirectory: "set SHOP_DIR to another folder", ownDatabase: "give --database" };
  const refused = startEmbeddedPostgres({ name, dataDir: join(file, "data"), log: () => undefined, advice });
  await assert.rejects(refused, (error: unknown) => {
    isClearLine(/ENOTDIR\): set SHOP_DIR to another folder, or give --database\.$/)(error);
    assert.equal(((error as Error).cause as NodeJS.ErrnoException).code, "ENOTDIR");
    return true;
  });
});

test("a name that would need quotes in SQL or in a path is refused before anything is made", async () => {
  const folder = await tempFolder();
  for (const bad of ["", "Shop", "my shop", "../shop", "shop;", "1shop", "s".repeat(41)]) {
    const start = startEmbeddedPostgres({ name: bad, dataDir: join(folder, "data"), log: () => undefined });
    await assert.rejects(start, TypeError);
  }
  assert.deepEqual(await readdir(folder), []);
});

test("a data directory whose path is too long for a socket gets a closed folder elsewhere, the same each time", async () => {
  const dataDir = await usedDataDir(join(await tempFolder(), "long-".repeat(20), "data"));
  const first = await start(dataDir);
  const { host } = first.connection;
  folders.push(host);
  assert.ok(!host.startsWith(dataDir) && host.length < 90, host);
  const made = await lstat(host);
  assert.ok(made.isDirectory() && (made.mode & 0o777) === 0o700);
  assert.deepEqual(await query(first, "SELECT 1"), [[1]]);
  await first.stop();
  const second = await start(dataDir);
  assert.equal(second.connection.host, host);
  await second.stop();
  // Somebody else's folder under that name is not taken.
  await chmod(host, 0o777);
  const third = await start(dataDir);
  folders.push(third.connection.host);
  assert.notEqual(third.connection.host, host);
});

async function packageWithoutLinks(parent: string): Promise<string> {
  const packageRoot = join(parent, "package");
  await cp(findPackage(), packageRoot, { recursive: true, verbatimSymlinks: true });
  const library = join(packageRoot, "native", "lib");
  for (const name of await readdir(library)) {
    if ((await lstat(join(library, name))).isSymbolicLink()) await rm(join(library, name));
  }
  return packageRoot;
}

test("programs installed without install scripts are completed in place, or in a copy when that is closed", async () => {
  const parent = await tempFolder();
  const packageRoot = await packageWithoutLinks(parent);
  const copies = join(await tempFolder(), "copies");
  const account = isRoot ? NOBODY : undefined;
  const inPlace = await prepareBinaries({ packageRoot, account, copyPlaces: [copies], log: () => undefined });
  assert.ok(inPlace.postgres.startsWith(packageRoot));
  assert.match(
    await readlink(join(packageRoot, "native", "lib", "libicuuc.so.60")),
    /^libicuuc\.so\.60\.\d+$/,
  );
  assert.equal(existsSync(copies), false);
  if (!isRoot) return;

  await rm(join(packageRoot, "native", "lib", "libicuuc.so.60"));
  await chmod(parent, 0o700);
  const closedToo = join(parent, "closed-too");
  const request = { packageRoot, account, copyPlaces: [closedToo, copies], log: () => undefined };
  const copied = await prepareBinaries(request);
  assert.ok(copied.postgres.startsWith(copies));
  const { ino } = await stat(copied.postgres);
  assert.equal((await stat((await prepareBinaries(request)).postgres)).ino, ino, "copied only once");
  assert.equal((await readdir(copies)).length, 1, "no draft is left beside the copy");
  await assert.rejects(
    prepareBinaries({ ...request, copyPlaces: [closedToo] }),
    isClearLine(/closed to uid 65534.*use a PostgreSQL of your own\.$/),
  );
});

test("programs that cannot be loaded are refused in one line", async () => {
  const packageRoot = await packageWithoutLinks(await tempFolder());
  await rename(
    join(packageRoot, "native", "lib", "libicuuc.so.60.2"),
    join(packageRoot, "native", "lib", "gone"),
  );
  const request = { packageRoot, account: isRoot ? NOBODY : undefined, copyPlaces: [], log: () => undefined };
  await assert.rejects(
    prepareBinaries(request),
    isClearLine(/libicuuc\.so\.60.*use a PostgreSQL of your own\.$/),
  );
  // What a missing loader looks like: the file is there, yet the kernel answers that it is not.
  const postgres = join(packageRoot, "native", "bin", "postgres");
  await rm(postgres);
  await writeFile(postgres, "#!/lib/ld-of-another-libc\n", { mode: 0o755 });
  await assert.rejects(prepareBinaries(request), isClearLine(/musl.*use a PostgreSQL of your own\.$/));
});

test("as root, a data directory below a closed folder works", { skip: !isRoot }, async () => {
  const closed = await tempFolder();
  await chmod(closed, 0o700);
  const dataDir = join(closed, "data");
  const first = await start(dataDir);
  await query(
    first,
    "CREATE EXTENSION pg_trgm; CREATE TABLE kept AS SELECT similarity('shop', 'shops') > 0.2 AS close",
  );
  assert.equal((await stat(join(dataDir, "postgres"))).uid, NOBODY.uid);
  process.kill(first.pid, "SIGKILL");
  await first.exited;
  assert.deepEqual(await query(await start(dataDir), "SELECT close FROM kept"), [[true]]);
  assert.equal((await stat(closed)).mode & 0o777, 0o700, "the closed folder stays closed");
});

test(
  "as root, a cluster keeps the account that made it, and one restored as root is given away",
  { skip: !isRoot },
  async () => {
    const dataDir = await usedDataDir();
    const first = await start(dataDir);
    await first.stop();
    const cluster = join(dataDir, "postgres");
    const giveAll = async (uid: number): Promise<void> => {
      for (const name of await readdir(cluster, { recursive: true }))
        await chown(join(cluster, name), uid, uid);
      await chown(cluster, uid, uid);
    };
    await giveAll(12345);
    const second = await start(dataDir);
    assert.deepEqual(await query(second, "SELECT 1"), [[1]]);
    assert.equal((await stat(second.connection.host)).uid, 12345);
    await second.stop();
    await giveAll(0);
    const third = await start(dataDir);
    assert.deepEqual(await query(third, "SELECT 1"), [[1]]);
    assert.equal((await stat(cluster)).uid, NOBODY.uid);
  },
);
