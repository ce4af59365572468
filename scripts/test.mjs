// `npm test [-- [--full | --processes | --verifiers] part-of-a-path …]`: compile, start one PostgreSQL for all test files, run them with node's runner.
import { setMaxListeners } from "node:events";
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join, relative } from "node:path";
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { pathToFileURL } from "node:url";
import { build, ROOT } from "./build.mjs";
import { entryOf, groupsOf, isApart, isFullSize, isJudged, isOfProcesses } from "./test-groups.mjs";
import { toSource, workspacesOf } from "./workspaces.mjs";

const FULL = "KEYWARD_FULL";
const JUDGES = "KEYWARD_JUDGES";

build();
const { SERVER_VARIABLE, startTestPostgres } = await import("../server/dist/test/postgres.js");

const args = process.argv.slice(2);
const wanted = args.filter((arg) => !arg.startsWith("--"));
// Whoever names a file wants all of it.
if (args.includes("--full") || wanted.length > 0) process.env[FULL] ??= "1";
if (args.includes("--verifiers")) process.env[JUDGES] = "1";
const named = (file) => relative(ROOT, file);
const compiled = [...workspacesOf(ROOT).map((workspace) => join(workspace, "dist")), "scripts"].flatMap(
  (part) => testFiles(join(ROOT, part)),
);
const isWanted = (file) => {
  if (wanted.length > 0)
    return wanted.some((part) => [named(file), toSource(named(file))].some((name) => name.includes(part)));
  if (args.includes("--verifiers")) return named(file).includes("/test/verifiers/") || isJudged(file);
  if (isApart(named(file))) return false;
  if (process.env[FULL] === "1") return true;
  return !isFullSize(named(file)) && isOfProcesses(named(file)) === args.includes("--processes");
};
const files = compiled.filter(isWanted);
if (files.length === 0) {
  console.error("No test file matches.");
  process.exit(1);
}

const postgres = await startTestPostgres();
const folder = mkdtempSync(join(tmpdir(), "keyward-tests-"));
process.env[SERVER_VARIABLE] = JSON.stringify(postgres.server);
// From Node 22 on: what was compiled for one process is not compiled again for the next.
process.env["NODE_COMPILE_CACHE"] ??= join(folder, "compiled");
// node's runner hands these on to the processes it starts.
process.execArgv.push("--enable-source-maps");
const groups = wanted.length > 0 ? files.map((file) => [file]) : groupsOf(files, named);
const entries = groups.map((group, number) => {
  const entry = join(folder, `${String(number).padStart(3, "0")}.mjs`);
  writeFileSync(entry, entryOf(group.map((file) => ({ name: named(file), url: pathToFileURL(file).href }))));
  return entry;
});
const interrupted = new AbortController();
// Each file listens to it.
setMaxListeners(0, interrupted.signal);
const tests = run({
  signal: interrupted.signal,
  files: entries,
  // Some of them wait most of the time.
  concurrency: availableParallelism() + 2,
  // For what hangs, not for what is slow: a busy machine must not fail a test.
  timeout: 3_600_000,
});
tests.on("test:fail", ({ todo }) => {
  if (todo === undefined || todo === false) process.exitCode = 1;
});
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => interrupted.abort());
const report = tests.compose(new spec());
report.pipe(process.stdout);
report.once("end", () => void end());

async function end() {
  await postgres.stop();
  rmSync(folder, { recursive: true, force: true });
}

// A compiled test whose source is gone must not haunt the run.
function testFiles(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true })
    .map((name) => join(folder, String(name)))
    .filter((file) => /\.test\.m?js$/.test(file) && !file.includes("node_modules"))
    .filter((file) => existsSync(join(ROOT, toSource(named(file)))))
    .sort();
}
