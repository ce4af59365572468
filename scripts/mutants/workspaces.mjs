// Where the sources are, what they compile to, and which tests there are.
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";

/** Run for minutes, or need programs of other people: not asked about a mutant. */
const APART = /\/test\/(soak|verifiers|clients|budget|jar)\//;

const filesIn = (folder) =>
  existsSync(folder)
    ? readdirSync(folder, { recursive: true }).map((name) => String(name).replaceAll("\\", "/"))
    : [];

export const digest = (text) => createHash("sha256").update(text).digest("hex").slice(0, 12);

/** `{ folder, name, root }` of each: `root` is what its compiler puts into `dist`, "." or "src". */
export function workspacesOf(root) {
  const { workspaces } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const folders = workspaces.flatMap((pattern) => {
    if (!pattern.endsWith("/*")) return [pattern];
    const parent = pattern.slice(0, -2);
    return existsSync(join(root, parent))
      ? readdirSync(join(root, parent)).map((name) => `${parent}/${name}`)
      : [];
  });
  return folders
    .filter((folder) => existsSync(join(root, folder, "tsconfig.json")))
    .map((folder) => ({
      folder,
      name: JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8")).name,
      root:
        /"rootDir":\s*"([^"]*)"/.exec(readFileSync(join(root, folder, "tsconfig.json"), "utf8"))?.[1] ?? ".",
    }));
}

/** The compiled file of a source, both from the root of the repository. */
export function compiledPath(workspaces, path) {
  const { folder, root } = workspaces.find((each) => path.startsWith(`${each.folder}/`));
  return posix.join(folder, "dist", posix.relative(posix.join(folder, root), path)).replace(/\.ts$/, ".js");
}

export function sourcesOf(root, workspaces) {
  const paths = workspaces.flatMap(({ folder }) =>
    filesIn(join(root, folder, "src")).map((name) => `${folder}/src/${name}`),
  );
  return paths.filter((path) => path.endsWith(".ts") && !/\.(test|d)\.ts$/.test(path)).sort();
}

/** Test files by their source, whose compiled form exists. */
export function testsOf(root, workspaces) {
  const paths = workspaces.flatMap(({ folder }) =>
    ["src", "test"].flatMap((part) =>
      filesIn(join(root, folder, part)).map((name) => `${folder}/${part}/${name}`),
    ),
  );
  return paths
    .filter((path) => path.endsWith(".test.ts") && !APART.test(path))
    .filter((path) => existsSync(join(root, compiledPath(workspaces, path))))
    .sort();
}
