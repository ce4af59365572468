// A place to try mutants in: a second tree with compiled files of its own, so that neither a mutant nor a build that runs
// meanwhile is seen on the other side; with a PostgreSQL of its own.
import { spawn, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { performance } from "node:perf_hooks";
import { compiledPath } from "./workspaces.mjs";

const SLOWER = 5;
/** Generous, for machines that have other things to do: nothing but a mutant that hangs takes so long. */
const MIN_LIMIT_MS = 60_000;
const LONGEST_MS = 600_000;
/** With a process table of its own, a mutant of what ends processes cannot end anybody else's. */
const APART = ["--pid", "--fork", "--kill-child", "--mount-proc"];
/** The first process of a table inherits orphans; a shell buries them, node does not. */
const WITH_A_PARENT = ["sh", "-c", '"$@"; exit $?', "sh"];
const canBeApart = spawnSync("unshare", [...APART, "true"]).status === 0;
/** Without it these are not tried: they send signals by numbers they read from files. */
export const mayEndProcesses = (path) => !canBeApart && path.includes("/embedded/");

export function makeLane({ folder, root, workspaces, postgres, variable }) {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const own = new Set(["node_modules", ".git", ...workspaces.map((each) => each.folder.split("/")[0])]);
  for (const name of readdirSync(root)) if (!own.has(name)) symlinkSync(join(root, name), join(folder, name));
  for (const workspace of workspaces) copyWorkspace({ root, folder, workspace });
  return {
    folder,
    async replace(path, text, work) {
      const target = join(folder, compiledPath(workspaces, path));
      const before = readFileSync(target);
      writeFileSync(target, text);
      try {
        return await work();
      } finally {
        writeFileSync(target, before);
      }
    },
    /** Of a test whose usual time is not known yet, all is wanted. */
    run: (test, { usualMs, env = {} } = {}) =>
      runTest({
        isWhole: usualMs === undefined,
        file: join(folder, compiledPath(workspaces, test)),
        cwd: folder,
        limitMs: usualMs === undefined ? LONGEST_MS : Math.max(MIN_LIMIT_MS, usualMs * SLOWER),
        env: { ...process.env, ...env, [variable]: JSON.stringify(postgres.server) },
      }),
  };
}

function copyWorkspace({ root, folder, workspace }) {
  const [from, to] = [join(root, workspace.folder), join(folder, workspace.folder)];
  mkdirSync(to, { recursive: true });
  for (const name of readdirSync(from)) if (name !== "dist") symlinkSync(join(from, name), join(to, name));
  cpSync(join(from, "dist"), join(to, "dist"), { recursive: true });
  // Who asks for the workspace by its name gets this lane's.
  const link = join(folder, "node_modules", workspace.name);
  mkdirSync(dirname(link), { recursive: true });
  symlinkSync(to, link);
}

/** One test file in a process of its own, stopped at its first failure. */
function runTest({ file, cwd, env, limitMs, isWhole }) {
  const node = [process.execPath, "--test-force-exit", "--test-reporter=tap", file];
  const [program, ...args] = canBeApart ? ["unshare", ...APART, ...WITH_A_PARENT, ...node] : node;
  const started = performance.now();
  const child = spawn(program, args, { cwd, env, detached: true, stdio: ["ignore", "pipe", "pipe"] });
  let [said, failure, isLate] = ["", undefined, false];
  const end = () => {
    try {
      process.kill(-child.pid, "SIGKILL");
    } catch {
      // It has ended by itself.
    }
  };
  const listen = (chunk) => {
    said = (said + chunk).slice(-20_000);
    failure ??= /^ *not ok \d+ - (?!.*# TODO)(.*)$/m.exec(said)?.[1];
    if (failure !== undefined && !isWhole) end();
  };
  child.stdout.setEncoding("utf8").on("data", listen);
  child.stderr.setEncoding("utf8").on("data", listen);
  const timer = setTimeout(() => {
    isLate = true;
    end();
  }, limitMs);
  return new Promise((resolve) =>
    child.on("close", (code) => {
      clearTimeout(timer);
      end();
      const isGreen = code === 0 && failure === undefined;
      resolve({ isGreen, isLate, failure, said, ms: Math.round(performance.now() - started) });
    }),
  );
}

/** Databases that stopped tests left behind. */
export async function sweep(withClient, { server }) {
  await withClient(server, "postgres", async (client) => {
    const { rows } = await client.query("SELECT datname FROM pg_database WHERE datname LIKE 'test\\_%'");
    for (const { datname } of rows) await client.query(`DROP DATABASE IF EXISTS ${datname} WITH (FORCE)`);
  });
}
