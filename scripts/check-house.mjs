import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./build.mjs";
import { check } from "./house-rules.mjs";
import { checkTables } from "./table-rules.mjs";

const files = new Map();
for (const folder of ["server/src", "server/test", "cli/src"]) {
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
