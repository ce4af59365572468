// `npm run check`: format, types, lint, import rules, structure, generated files. Runs all of them and says which failed.
import { spawnSync } from "node:child_process";
import { ROOT } from "./build.mjs";

const steps = [
  ["format", ["node_modules/prettier/bin/prettier.cjs", "--check", "--log-level", "warn", "."]],
  ["types", ["node_modules/ts7/bin/tsc", "-b"]],
  ["lint", ["node_modules/eslint/bin/eslint.js", "."]],
  ["house rules", ["scripts/check-house.mjs"]],
  ["structure", ["scripts/structure.mjs"]],
  ["generated files", ["scripts/generate.mjs", "--check"]],
];
const failed = steps.filter(([name, args]) => {
  const started = Date.now();
  const { status } = spawnSync(process.execPath, args, { cwd: ROOT, stdio: "inherit" });
  console.log(
    `${status === 0 ? "ok    " : "FAILED"} ${name} (${((Date.now() - started) / 1000).toFixed(1)} s)`,
  );
  return status !== 0;
});
process.exit(failed.length === 0 ? 0 : 1);
