/**
 * Other people's programs, as Debian has them. One that is missing fails the test that wants it, with the name of
 * the package to install: a judge that is away must never look like one that agreed.
 */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** Debian's own, whichever other Python comes first in the path: its packages are where apt put them. */
export const PYTHON = "/usr/bin/python3";

const missing = (what: string, debianPackage: string): Error =>
  new Error(`${what} is not installed here. On Debian: apt-get install ${debianPackage}`);

/** The scripts stay where they were written; only the TypeScript beside them is compiled. */
export const scriptPath = (name: string): string =>
  fileURLToPath(new URL(`../../../test/clients/${name}`, import.meta.url));

export function requireProgram(path: string, debianPackage: string): void {
  if (!existsSync(path)) throw missing(path, debianPackage);
}

export function requireModule(name: string, debianPackage: string): void {
  requireProgram(PYTHON, "python3");
  const { status } = spawnSync(PYTHON, ["-c", `import ${name}`], { stdio: "ignore", timeout: 60_000 });
  if (status !== 0) throw missing(`Python's ${name}`, debianPackage);
}

/** Feeds a script and reads its answer. */
export function ask<Reply>(script: string, input: string | Buffer): Reply {
  requireProgram(PYTHON, "python3");
  const { status, stdout, stderr, error } = spawnSync(PYTHON, [scriptPath(script)], {
    input,
    encoding: "utf8",
    timeout: 60_000,
  });
  if (error) throw error;
  if (status !== 0) throw new Error(`${script}: ${stderr}`);
  return JSON.parse(stdout) as Reply;
}

export function run(command: string, args: readonly string[]): string {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: "utf8", timeout: 60_000 });
  if (error) throw error;
  if (status !== 0) throw new Error(`${command} ${args.join(" ")}: ${stdout}${stderr}`);
  return stdout;
}
