// Compiles what changed. Shared by start, demo, test and check, so that none of them ever runs stale code.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

export const ROOT = fileURLToPath(new URL("..", import.meta.url));

export function build() {
  const compiler = fileURLToPath(new URL("../node_modules/ts7/bin/tsc", import.meta.url));
  const { status } = spawnSync(process.execPath, [compiler, "-b"], { cwd: ROOT, stdio: "inherit" });
  if (status !== 0) {
    console.error(
      "The sources do not compile; see above. On a fresh clone, or where a package is new, run `npm ci` first.",
    );
    process.exit(status ?? 1);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) build();
