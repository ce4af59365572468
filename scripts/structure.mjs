// `node scripts/structure.mjs [--list]`: the shape of the sources. Fails on exports nobody imports, on a type name with
// two meanings, on files nothing reaches, and on a figure above its bound. `--list` names what only tests import.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { moduleOf, WHOLE } from "./module-graph.mjs";
import { storiesOf } from "./stories.mjs";
import { isTest, packageOf, toSource, workspacesOf } from "./workspaces.mjs";

/** Today's figures, lines rounded up: they may only fall. Lower the bound in the commit that lowers the figure. */
const BOUNDS = {
  filesOfLargestRoom: 36,
  linesOfLargestRoom: 5_400,
  oneFileFolders: 0,
  serviceFiles: 45,
  onlyTested: 118,
};

/** Imported by nobody, but the declarations the compiler writes for other files must be able to name them. */
const NAMED_BY_THE_COMPILER = [
  "ApplicationPage",
  "CalendarRow",
  "FactKind",
  "GivenCaCertificate",
  "KeyPair",
  "ListedProject",
  "MovedSecrets",
  "Renewable",
  "Taken",
];

/** Started by hand or by another program, never imported. */
const STARTED = /^(server\/src\/(main|copy)|cli\/src\/main)\.ts$/;
const SOURCE = /^(packages\/)?[^/]+\/src\/.*\.ts$/;
const isSource = (path) => SOURCE.test(path) && !isTest(path);

function filesOf(root, folders) {
  const files = new Map();
  for (const folder of folders.filter((each) => existsSync(join(root, each)))) {
    for (const name of readdirSync(join(root, folder), { recursive: true }).map(String)) {
      if (/\.(ts|mjs)$/.test(name) && !name.includes("node_modules"))
        files.set(posix.join(folder, name), readFileSync(join(root, folder, name), "utf8"));
    }
  }
  return files;
}

/** The files behind a workspace's name, by which others enter. */
function facesOf(root, workspaces) {
  const faces = new Map();
  for (const workspace of workspaces) {
    const { name, exports } = JSON.parse(readFileSync(join(root, workspace, "package.json"), "utf8"));
    for (const [part, shown] of Object.entries(exports ?? {})) {
      const file = shown.default ?? shown;
      if (typeof file === "string") faces.set(posix.join(name, part), toSource(posix.join(workspace, file)));
    }
  }
  return faces;
}

/** Follows every import to the declaration it means, through the files that only pass it on. */
function usesIn(modules, faces) {
  const uses = { code: new Set(), tests: new Set() };
  const use = (by, path, name) => {
    const module = modules.get(path);
    const key = `${path} ${name}`;
    if (module === undefined || uses[by].has(key)) return;
    uses[by].add(key);
    for (const each of module.exports) {
      if (name !== WHOLE && each.name !== name) continue;
      uses[by].add(`${path} ${each.name}`);
      if (each.from !== undefined) use(by, each.from, each.of);
    }
    if (name === WHOLE || !module.exports.some((each) => each.name === name))
      for (const star of module.stars) use(by, star, name);
  };
  for (const [path, { imports }] of modules) {
    for (const { target, names, passesOn } of imports) {
      if (passesOn) continue; // used when somebody takes it from there
      for (const name of names) use(isTest(path) ? "tests" : "code", faces.get(target) ?? target, name);
    }
  }
  // What a runtime shows is for the world; a package is there for us, and what nobody of us takes from it is dead.
  for (const face of faces.values()) if (packageOf(face) === undefined) use("code", face, WHOLE);
  return uses;
}

function exportsIn(modules, uses) {
  const found = { unused: [], onlyTested: [] };
  for (const [path, { exports }] of modules) {
    if (!isSource(path)) continue;
    const lines = new Map(exports.map(({ name, line }) => [name, line]));
    for (const [name, line] of lines) {
      const key = `${path} ${name}`;
      if (uses.code.has(key)) continue;
      (uses.tests.has(key) ? found.onlyTested : found.unused).push({ path, name, line });
    }
  }
  return found;
}

function typesDeclaredTwice(modules) {
  const homes = new Map();
  for (const [path, { exports }] of modules) {
    if (!isSource(path)) continue;
    for (const { name, isTypeName, from } of exports)
      if (isTypeName && from === undefined) homes.set(name, (homes.get(name) ?? new Set()).add(path));
  }
  return [...homes]
    .filter(([, paths]) => paths.size > 1)
    .map(([name, paths]) => ({ name, paths: [...paths] }));
}

function filesUnreached(modules, faces) {
  const reached = new Set(faces.values());
  for (const { imports } of modules.values()) {
    for (const { target } of imports) reached.add(faces.get(target) ?? target);
  }
  return [...modules.keys()].filter((path) => isSource(path) && !STARTED.test(path) && !reached.has(path));
}

function figuresOf(files) {
  const rooms = new Map();
  const folders = new Map();
  for (const [path, text] of files) {
    if (!isSource(path)) continue;
    const folder = posix.dirname(path);
    folders.set(folder, [...(folders.get(folder) ?? []), path]);
    const room = /^server\/src\/(?!platform\/)([^/]+)\//.exec(path)?.[1];
    if (room === undefined) continue;
    const { files: count, lines } = rooms.get(room) ?? { files: 0, lines: 0 };
    rooms.set(room, { files: count + 1, lines: lines + text.replace(/\n$/, "").split("\n").length });
  }
  const largest = (by) =>
    [...rooms].map(([room, size]) => ({ room, size: size[by] })).sort((a, b) => b.size - a.size)[0] ?? {
      room: "none",
      size: 0,
    };
  const [byFiles, byLines] = [largest("files"), largest("lines")];
  const alone = [...folders]
    .filter(
      ([folder, paths]) =>
        paths.length === 1 && ![...folders.keys()].some((other) => other.startsWith(`${folder}/`)),
    )
    .map(([folder]) => folder);
  return {
    largest: byLines.room,
    withMostFiles: byFiles.room,
    alone,
    filesOfLargestRoom: byFiles.size,
    linesOfLargestRoom: byLines.size,
    oneFileFolders: alone.length,
    serviceFiles: [...files.keys()].filter((path) => isSource(path) && path.endsWith("/service.ts")).length,
  };
}

export function structureOf(root, { bounds = BOUNDS, named = NAMED_BY_THE_COMPILER } = {}) {
  const workspaces = workspacesOf(root);
  const folders = workspaces.flatMap((each) => ["src", "test", "bin"].map((part) => `${each}/${part}`));
  const files = filesOf(root, [...folders, "scripts", "bench"]);
  const faces = facesOf(root, workspaces);
  const modules = new Map([...files].map(([path, text]) => [path, moduleOf(path, text)]));
  const { unused, onlyTested } = exportsIn(modules, usesIn(modules, faces));
  const dead = unused.filter(({ name }) => !named.includes(name));
  const needless = named.filter((name) => !unused.some((each) => each.name === name));
  const twice = typesDeclaredTwice(modules);
  const figures = {
    ...figuresOf(files),
    twoMeanings: twice.length,
    unusedExports: dead.length,
    onlyTested: onlyTested.length,
  };
  const failures = [
    ...dead.map(({ path, name, line }) => `unused-export: ${path}:${line} ${name} is imported by no file`),
    ...needless.map((name) => `needless-exemption: ${name} is imported, or gone`),
    ...twice.map(
      ({ name, paths }) => `one-meaning-per-type-name: ${name} is declared in ${paths.join(" and ")}`,
    ),
    ...filesUnreached(modules, faces).map(
      (path) => `unreached-file: ${path} is imported and started by nobody`,
    ),
    ...Object.entries(bounds)
      .filter(([figure, bound]) => figures[figure] > bound)
      .map(([figure, bound]) => `above-its-bound: ${figure} is ${figures[figure]}, at most ${bound}`),
  ];
  return { failures, figures, onlyTested };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = dirname(dirname(fileURLToPath(import.meta.url)));
  const { failures, figures, onlyTested } = structureOf(root);
  const stories = storiesOf(root);
  for (const { story, files, most, isRight } of stories)
    if (!isRight) failures.push(`story-too-long: ${story} takes ${files} files, at most ${most}`);
  for (const failure of failures) console.error(failure);
  if (process.argv.includes("--list")) {
    for (const { path, name, line } of onlyTested) console.log(`only tests import ${path}:${line} ${name}`);
    for (const folder of figures.alone) console.log(`one file alone in ${folder}`);
  }
  console.log(
    `Files to open: ${stories.map(({ story, files, most }) => `${story} ${files} of ${most}`).join(", ")}.\n` +
      `Largest rooms: ${figures.largest}, ${figures.linesOfLargestRoom} lines; ${figures.withMostFiles}, ${figures.filesOfLargestRoom} files. ` +
      `Folders with one file: ${figures.oneFileFolders}. Files called service.ts: ${figures.serviceFiles}. ` +
      `Type names with two meanings: ${figures.twoMeanings}. Unused exports: ${figures.unusedExports}. ` +
      `Exports only tests import: ${onlyTested.length}. Failures: ${failures.length}.`,
  );
  process.exit(failures.length === 0 ? 0 : 1);
}
