import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./build.mjs";
import { check } from "./house-rules.mjs";
import { checkTables } from "./table-rules.mjs";
import { workspacesOf } from "./workspaces.mjs";

const files = new Map();
const folders = workspacesOf(ROOT)
  .flatMap((workspace) => [`${workspace}/src`, `${workspace}/test`])
  .filter((folder) => existsSync(join(ROOT, folder)));
for (const folder of folders) {
  for (const name of readdirSync(join(ROOT, folder), { recursive: true }).map(String)) {
    if (name.endsWith(".ts")) files.set(`${folder}/${name}`, readFileSync(join(ROOT, folder, name), "utf8"));
  }
}
const violations = [...check(files), ...checkTables(files)];
for (const { rule, path, detail } of violations) console.error(`${rule}: ${path} ${detail}`);
console.log(
  violations.length === 0
    ? `The house rules hold in ${files.size} files.`
    : `${violations.length} violations of the house rules.`,
);
process.exit(violations.length === 0 ? 0 : 1);
