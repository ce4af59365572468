import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { join } from "node:path";
import { test } from "node:test";
import { ROOT } from "./build.mjs";
import { moduleOf } from "./module-graph.mjs";
import { isTest, workspacesOf } from "./workspaces.mjs";

const manifestOf = (workspace) => JSON.parse(readFileSync(join(ROOT, workspace, "package.json"), "utf8"));
const KINDS = ["dependencies", "devDependencies", "optionalDependencies"];

test("every dependency has one exact version in all workspaces", () => {
  const versions = new Map();
  for (const workspace of [".", ...workspacesOf(ROOT)]) {
    for (const [name, version] of KINDS.flatMap((kind) => Object.entries(manifestOf(workspace)[kind] ?? {})))
      versions.set(name, (versions.get(name) ?? new Set()).add(version));
  }
  // Two of pg would be two clients that do not know each other (packages/pg-pipeline looks into its own).
  const several = [...versions].filter(([, found]) => found.size > 1).map(([name]) => name);
  assert.deepEqual(several, []);
  const loose = [...versions].filter(([, found]) =>
    [...found].some((version) => !/^(npm:.*@)?\d/.test(version)),
  );
  assert.deepEqual(loose, []);
});

test("a package declares what it imports", () => {
  const undeclared = [];
  for (const workspace of workspacesOf(ROOT).filter((each) => each.startsWith("packages/"))) {
    const manifest = manifestOf(workspace);
    for (const name of readdirSync(join(ROOT, workspace, "src"), { recursive: true }).map(String)) {
      if (!name.endsWith(".ts")) continue;
      const path = `${workspace}/src/${name}`;
      const declared = new Set(
        Object.keys({
          ...manifest.dependencies,
          ...manifest.optionalDependencies,
          ...(isTest(path) ? manifest.devDependencies : {}),
        }),
      );
      for (const { target } of moduleOf(path, readFileSync(join(ROOT, path), "utf8")).imports) {
        const isOurs =
          target.startsWith("packages/") || target.startsWith("node:") || builtinModules.includes(target);
        if (!isOurs && !declared.has(target)) undeclared.push(`${path}: ${target}`);
      }
    }
  }
  assert.deepEqual(undeclared, []);
});
