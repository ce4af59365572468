// `npm test [-- part-of-a-path …]`: compile, start one PostgreSQL for all test files, run them with node's runner.
import { spawn } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { join, posix } from "node:path";
import { build, ROOT } from "./build.mjs";
import { toSource, workspacesOf } from "./workspaces.mjs";

build();
const { SERVER_VARIABLE, startTestPostgres } = await import("../server/dist/test/postgres.js");

const wanted = process.argv.slice(2);
const compiled = [...workspacesOf(ROOT).map((workspace) => `${workspace}/dist`), "scripts"].flatMap(
  testFiles,
);
// Soaks, verifiers and full-size runs have scripts of their own; `npm test` needs Node and npm packages alone.
const apart = /\/test\/(soak|verifiers|clients)\//;
const files = compiled.filter((file) =>
  wanted.length > 0
    ? wanted.some((part) => file.includes(part) || toSource(file).includes(part))
    : !apart.test(file),
);
// The long ones first, so that none of them runs alone at the end.
const isLong = (file) => /\/test\/(start|faults|fuzz|events|canary|budget)\//.test(file);
files.sort((a, b) => Number(isLong(b)) - Number(isLong(a)));
if (files.length === 0) {
  console.error("No test file matches.");
  process.exit(1);
}

const postgres = await startTestPostgres();
const runner = spawn(
  process.execPath,
  [
    "--enable-source-maps",
    "--test",
    "--test-concurrency=3",
    "--test-force-exit",
    // For what hangs, not for what is slow: a busy machine must not fail a test.
    `--test-timeout=${wanted.length > 0 ? 3_600_000 : 900_000}`,
    "--test-reporter=spec",
    ...files,
  ],
  {
    cwd: ROOT,
    stdio: "inherit",
    env: { ...process.env, [SERVER_VARIABLE]: JSON.stringify(postgres.server) },
  },
);
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => runner.kill(signal));
runner.on("exit", async (code) => {
  await postgres.stop();
  process.exit(code ?? 1);
});

// A compiled test whose source is gone must not haunt the run.
function testFiles(folder) {
  if (!existsSync(join(ROOT, folder))) return [];
  return readdirSync(join(ROOT, folder), { recursive: true })
    .map((name) => posix.join(folder, String(name)))
    .filter((file) => /\.test\.m?js$/.test(file) && !file.includes("node_modules"))
    .filter((file) => existsSync(join(ROOT, toSource(file))))
    .sort();
}
