// The folders that npm links together: the runtimes (server, cli) and the packages, which know nothing of them.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Each workspace's folder, `packages/*` written out. */
export function workspacesOf(root) {
  const { workspaces } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  return workspaces.flatMap((pattern) => {
    if (!pattern.endsWith("/*")) return [pattern];
    const parent = pattern.slice(0, -2);
    const names = existsSync(join(root, parent)) ? readdirSync(join(root, parent)).sort() : [];
    return names
      .map((name) => `${parent}/${name}`)
      .filter((folder) => existsSync(join(root, folder, "package.json")));
  });
}

const WORKSPACE = "((?:packages/)?[^/]+)";
const COMPILED_BOTH = new RegExp(`^${WORKSPACE}/dist/(src|test)/`);
const COMPILED = new RegExp(`^${WORKSPACE}/dist/`);
const COMPILED_NAME = new RegExp(`^(${WORKSPACE}/(?:src|test)/.*)\\.js$`);

/** Compiled paths are those of their sources: server/dist/src/x.js is server/src/x.ts, cli/dist/x.js is cli/src/x.ts. */
export const toSource = (path) =>
  path.replace(COMPILED_BOTH, "$1/$2/").replace(COMPILED, "$1/src/").replace(COMPILED_NAME, "$1.ts");

/** `packages/x509` of any path in it; undefined elsewhere. */
export const packageOf = (path) => /^packages\/[^/]+(?=\/)/.exec(path)?.[0];

export const isTest = (path) =>
  /\.test\.(ts|mjs)$/.test(path) || new RegExp(`^${WORKSPACE}/test/`).test(path);
