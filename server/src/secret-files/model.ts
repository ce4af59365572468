/**
 * The plan of an import, made before anything is written: afterwards everything that is in
 * the file is in the project as it is in the file, and what the project has besides stays. The dry run shows this
 * plan and the import carries it out.
 */
import { badRequest } from "../platform/problem.ts";
import { addToGroup } from "../platform/group-by.ts";
import { wordsOf } from "../permissions/index.ts";
import { MOST_IMPORTS, tooManyImports } from "../secret-imports/model.ts";
import {
  MOST_VERSIONS,
  type Archive,
  type ArchivedImport,
  type ArchivedRole,
  type ArchivedSecret,
} from "./archive/contract.ts";

export const projectTooLarge = () =>
  badRequest(
    "The file would be larger than the 48 MB that an import takes. Export fewer environments at once (environments), or without history.",
  );

export const tooManyVersions = (key: string) =>
  badRequest(
    `${JSON.stringify(key)} has more than the ${MOST_VERSIONS} older versions that a file takes. Export without history, or keep fewer versions (pitVersionLimit).`,
  );

interface Diff<T> {
  readonly created: readonly T[];
  readonly updated: readonly T[];
  readonly unchanged: number;
}

/** The parts of a project that the file names; a value that the importer may not see is undefined and never equal. */
export interface PresentSecrets {
  readonly environments: Archive["environments"];
  readonly tags: Archive["tags"];
  readonly folders: Archive["folders"];
  readonly secrets: readonly (Omit<ArchivedSecret, "value"> & { readonly value: string | undefined })[];
  readonly imports: readonly ArchivedImport[];
  readonly roles: readonly ArchivedRole[];
}

type Folder = Archive["folders"][number];

/** One folder's imports, in the order in which they will stand. */
export interface ImportStep {
  readonly environment: string;
  readonly path: string;
  readonly created: readonly ArchivedImport[];
  /** Those of the file first, in its order. */
  readonly order: readonly ArchivedImport[];
  /** Those that were there already and get another place. */
  readonly moved: readonly ArchivedImport[];
}

export interface ImportPlan {
  readonly environments: Diff<Archive["environments"][number]>;
  readonly tags: Diff<Archive["tags"][number]>;
  readonly folders: Diff<Folder>;
  readonly secrets: Diff<ArchivedSecret>;
  readonly roles: Diff<ArchivedRole>;
  readonly imports: Diff<ArchivedImport> & {
    readonly unresolved: readonly ArchivedImport[];
    readonly steps: readonly ImportStep[];
  };
}

export const folderName = ({ environment, path }: { environment: string; path: string }): string =>
  `${environment}:${path}`;
const secretPlace = (secret: { environment: string; path: string; key: string }): string =>
  `${folderName(secret)}:${secret.key}`;
export const importName = (one: ArchivedImport): string =>
  `${folderName(one)} ← ${one.sourceProject === null ? "" : `${one.sourceProject}:`}${one.sourceEnvironment}:${one.sourcePath}`;

/** Called in each round of a long loop, to yield to other requests. */
type Breathe = () => Promise<void> | undefined;

async function diff<T, P>(
  { wanted, present }: { readonly wanted: readonly T[]; readonly present: readonly P[] },
  nameOf: (one: T | P) => string,
  isSame: (wanted: T, present: P) => boolean | Promise<boolean>,
  breathe: Breathe,
): Promise<Diff<T>> {
  const [there, asked] = [new Map<string, P>(), new Map<string, T>()];
  for (const one of present) {
    there.set(nameOf(one), one);
    await breathe();
  }
  for (const one of wanted) {
    asked.set(nameOf(one), one);
    await breathe();
  }
  const created: T[] = [];
  const updated: T[] = [];
  let unchanged = 0;
  for (const one of asked.values()) {
    await breathe();
    const known = there.get(nameOf(one));
    if (known === undefined) created.push(one);
    else if (await isSame(one, known)) unchanged += 1;
    else updated.push(one);
  }
  return { created, updated, unchanged };
}

/** In one form, whatever order keys and tags came in. */
const contentOf = (secret: PresentSecrets["secrets"][number]): string =>
  JSON.stringify([
    secret.value ?? null,
    secret.comment,
    secret.metadata.map(({ key, value, isEncrypted }) => [key, value, isEncrypted]),
    [...new Set(secret.tags)].sort(),
    secret.skipMultiline,
    secret.reminderNote,
    secret.reminderDays,
  ]);

/** A tag that the file does not describe cannot be made, so it is not asked for. */
async function withKnownTags(
  file: Archive,
  present: PresentSecrets,
  breathe: Breathe,
): Promise<ArchivedSecret[]> {
  const known = new Set([...file.tags, ...present.tags].map(({ slug }) => slug));
  const secrets: ArchivedSecret[] = [];
  for (const secret of file.secrets) {
    secrets.push({ ...secret, tags: secret.tags.filter((slug) => known.has(slug)) });
    await breathe();
  }
  return secrets;
}

/** Every folder that the file names, parents first; the file of an old version may name only the deepest. */
export async function foldersOf(file: Archive, breathe: Breathe): Promise<Folder[]> {
  const all = new Map<string, Folder>();
  const add = (folder: Folder): void => {
    if (folder.path !== "/" && !all.has(folderName(folder))) all.set(folderName(folder), folder);
  };
  const places = [...file.folders, ...file.secrets, ...file.imports];
  for (const folder of file.folders) {
    add(folder);
    await breathe();
  }
  const seen = new Set<string>();
  for (const place of places) {
    await breathe();
    const { environment, path } = place;
    if (seen.has(folderName(place))) continue;
    seen.add(folderName(place));
    const names = path.split("/").filter((name) => name !== "");
    let above = "";
    for (const name of names) add({ environment, path: (above += `/${name}`), description: null });
  }
  // By depth, without comparing: a shelf for each.
  const byDepth: Folder[][] = [];
  for (const folder of all.values()) {
    await breathe();
    let depth = 0;
    for (let at = folder.path.indexOf("/"); at >= 0; at = folder.path.indexOf("/", at + 1)) depth += 1;
    (byDepth[depth] ??= []).push(folder);
  }
  return byDepth.flat();
}

interface ImportLists {
  readonly wanted: readonly ArchivedImport[];
  readonly present: readonly ArchivedImport[];
}

/** What becomes of one folder's imports: those of the file and those that are there. */
async function planStep(
  group: readonly ArchivedImport[],
  here: readonly ArchivedImport[],
  breathe: Breathe,
): Promise<ImportStep> {
  const known = new Map<string, number>();
  for (const [at, one] of here.entries()) known.set(importName(one), at);
  const inFile = new Set<string>();
  const created: ArchivedImport[] = [];
  const moved: ArchivedImport[] = [];
  for (const [at, one] of group.entries()) {
    await breathe();
    const name = importName(one);
    inFile.add(name);
    const before = known.get(name);
    if (before === undefined) created.push(one);
    else if (before !== at) moved.push(one);
  }
  const order = [...group, ...here.filter((one) => !inFile.has(importName(one)))];
  const [{ environment, path } = { environment: "", path: "" }] = group;
  if (created.length > 0 && order.length > MOST_IMPORTS) throw tooManyImports(path);
  return { environment, path, created, order, moved };
}

async function planImports(
  { wanted, present }: ImportLists,
  isResolved: (one: ArchivedImport) => boolean,
  breathe: Breathe,
): Promise<ImportPlan["imports"]> {
  const named = new Map<string, ArchivedImport>();
  for (const one of wanted) {
    named.set(importName(one), one);
    await breathe();
  }
  const [groups, there] = [new Map<string, ArchivedImport[]>(), new Map<string, ArchivedImport[]>()];
  const unresolved: ArchivedImport[] = [];
  for (const one of named.values()) {
    if (isResolved(one)) addToGroup(groups, folderName(one), one);
    else unresolved.push(one);
    await breathe();
  }
  for (const one of present) {
    addToGroup(there, folderName(one), one);
    await breathe();
  }
  const steps: ImportStep[] = [];
  let unchanged = 0;
  for (const [place, group] of groups) {
    const step = await planStep(group, there.get(place) ?? [], breathe);
    unchanged += group.length - step.created.length - step.moved.length;
    if (step.created.length + step.moved.length > 0) steps.push(step);
  }
  return {
    created: steps.flatMap((step) => step.created),
    updated: steps.flatMap((step) => step.moved),
    unchanged,
    unresolved,
    steps,
  };
}

async function haveSameRules(a: ArchivedRole, b: ArchivedRole, breathe: Breathe): Promise<boolean> {
  if (a.permissions.length !== b.permissions.length) return false;
  for (const [at, rule] of a.permissions.entries()) {
    if (wordsOf(rule) !== wordsOf(b.permissions[at])) return false;
    await breathe();
  }
  return true;
}

export async function planImport(
  file: Archive,
  present: PresentSecrets,
  isResolved: (one: ArchivedImport) => boolean,
  breathe: Breathe = () => undefined,
): Promise<ImportPlan> {
  const slugOf = ({ slug }: { readonly slug: string }) => slug;
  const isSameRole = async (a: ArchivedRole, b: ArchivedRole): Promise<boolean> =>
    a.name === b.name &&
    (a.description ?? null) === (b.description ?? null) &&
    (await haveSameRules(a, b, breathe));
  const both = <T, P>(wanted: readonly T[], there: readonly P[]) => ({ wanted, present: there });
  return {
    environments: await diff(
      both(file.environments, present.environments),
      slugOf,
      (a, b) => a.name === b.name,
      breathe,
    ),
    tags: await diff(
      both(file.tags, present.tags),
      slugOf,
      (a, b) => a.name === b.name && a.color === b.color,
      breathe,
    ),
    folders: await diff(
      both(await foldersOf(file, breathe), present.folders),
      folderName,
      (a, b) => (a.description ?? "") === (b.description ?? ""),
      breathe,
    ),
    secrets: await diff(
      both(await withKnownTags(file, present, breathe), present.secrets),
      secretPlace,
      (a, b) => b.value !== undefined && contentOf(a) === contentOf(b),
      breathe,
    ),
    roles: await diff(both(file.roles, present.roles), slugOf, isSameRole, breathe),
    imports: await planImports(both(file.imports, present.imports), isResolved, breathe),
  };
}

async function namesOf<T>(
  list: readonly T[],
  nameOf: (one: T) => string,
  breathe: Breathe,
): Promise<string[]> {
  const names: string[] = [];
  for (const one of list) {
    names.push(nameOf(one));
    await breathe();
  }
  return names;
}

/** The answer, of a dry run or of an import. */
export async function reportOf(plan: ImportPlan, breathe: Breathe = () => undefined) {
  const counted = async <T>({ created, updated, unchanged }: Diff<T>, nameOf: (one: T) => string) => ({
    created: await namesOf(created, nameOf, breathe),
    updated: await namesOf(updated, nameOf, breathe),
    unchanged,
  });
  return {
    environments: await counted(plan.environments, ({ slug }) => slug),
    tags: await counted(plan.tags, ({ slug }) => slug),
    folders: await counted(plan.folders, folderName),
    secrets: await counted(plan.secrets, secretPlace),
    imports: {
      ...(await counted(plan.imports, importName)),
      unresolved: await namesOf(plan.imports.unresolved, importName, breathe),
    },
    roles: await counted(plan.roles, ({ slug }) => slug),
    /** Older versions that come along, with the secrets that are new here. */
    versions: plan.secrets.created.reduce((sum, { history }) => sum + (history?.versions.length ?? 0), 0),
  };
}
