/**
 * How imports and references resolve. docs/secret-resolution.md states the rules in prose; this is the same in code,
 * pure: it asks a SecretLookup and never loads anything. What the SecretLookup does not have yet is noted, loaded
 * by the caller, and the question asked again.
 *
 * Everything is decided for one reader. What the reader may not read does not exist here, so nothing can be seen
 * through an import or a reference that could not be seen directly.
 */
import { badRequest } from "../../platform/problem.ts";
import { canBeEnvironment, canBeSecret, canonicalPath } from "../paths.contract.ts";

interface Reference {
  /** Null: the folder of the secret that holds the reference. */
  readonly environment: string | null;
  readonly path: string | null;
  readonly key: string;
}

/** Where a folder is, in the terms that references and imports use. */
export interface SecretAddress {
  readonly projectId: string;
  readonly environmentId: string;
  readonly path: string;
}

export const spotKey = ({ environmentId, path }: Pick<SecretAddress, "environmentId" | "path">): string =>
  `${environmentId}:${path}`;

/** A secret that this reader may read. */
export interface Readable {
  readonly id: string;
  readonly key: string;
  readonly spot: SecretAddress;
  readonly value: string;
}

export type FoundReference = Readable | "absent" | "unknown";

export interface SecretLookup {
  /** Null if the project has no such environment. */
  environmentId(projectId: string, slug: string): string | null | "unknown";
  /** The folder's own secret (a personal override before the shared one), without imports. */
  own(spot: SecretAddress, key: string): FoundReference;
  /** In order; empty if there is no such folder. */
  imports(spot: SecretAddress): readonly SecretAddress[] | "unknown";
}

const REFERENCE = /\$\{([^{}]*)\}/g;
const MAX_REFERENCE = 1024;
const MAX_EXPANDED = 1024 * 1024;
const MAX_CHAIN = 64;

/** What all references of one answer may cost together. What is beyond stays as it is written. */
interface Allowance {
  /** References followed. */
  readonly steps: number;
  /** Characters inserted for references: many small values may all refer to one large one. */
  readonly characters: number;
  /** Folders searched: an unknown name is searched for in everything that is imported. */
  readonly looks: number;
}
export const ALLOWANCE: Allowance = { steps: 10_000, characters: 16 * 1024 * 1024, looks: 250_000 };

/** What stands between the braces, or null if that is not a reference: then it is just text. */
export function parseReference(inner: string): Reference | null {
  if (inner.length > MAX_REFERENCE) return null;
  const parts = inner.trim().split(".");
  const key = parts.at(-1) ?? "";
  if (key === "" || parts.includes("") || inner.includes("/") || !canBeSecret(key)) return null;
  const [environment] = parts;
  if (parts.length === 1 || environment === undefined) return { environment: null, path: null, key };
  if (!canBeEnvironment(environment)) return null;
  const path = canonicalPath(`/${parts.slice(1, -1).join("/")}`);
  return path.ok ? { environment, path: path.path, key } : null;
}

export const mayRefer = (value: string): boolean => value.includes("${");

/** Each is a row of the index that says who shows what. */
export const MAX_REFERENCES = 1000;
export const tooManyReferences = (key: string) =>
  badRequest(
    `The value of ${JSON.stringify(key)} refers to more than ${MAX_REFERENCES} different secrets; that is the most one value may.`,
  );

/** What a value refers to, each once; if there are too many, only as many as show that. */
export function referencesIn(value: string): Reference[] {
  if (!mayRefer(value)) return [];
  const read = new Set<string>();
  const references = new Map<string, Reference>();
  for (const [, inner = ""] of value.matchAll(REFERENCE)) {
    if (read.has(inner)) continue;
    read.add(inner);
    const reference = parseReference(inner);
    if (!reference) continue;
    // Neither a slug nor a path holds a space; the name comes last.
    const { environment, path, key } = reference;
    references.set(`${environment ?? ""} ${path ?? ""} ${key}`, reference);
    if (references.size > MAX_REFERENCES) break;
  }
  return [...references.values()];
}

/**
 * A folder's secret by name as the reader sees it: its own, else that of the first import that has it. The caller
 * bounds the search with `mayLook`; where it says no, nothing is found.
 */
export function findEffective(
  lookup: SecretLookup,
  spot: SecretAddress,
  key: string,
  mayLook: () => boolean = () => true,
): FoundReference {
  const visited = new Set<string>();
  const open: SecretAddress[] = [spot];
  // Depth first, in order. A folder met again has nothing to add: what it has was found the first time.
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (visited.has(spotKey(next))) continue;
    visited.add(spotKey(next));
    if (!mayLook()) return "absent";
    const own = lookup.own(next, key);
    if (own !== "absent") return own;
    const imports = lookup.imports(next);
    if (imports === "unknown") return "unknown";
    for (let at = imports.length - 1; at >= 0; at -= 1) open.push(imports[at] as SecretAddress);
  }
  return "absent";
}

/** Where a reference points, seen from there. */
function spotOf(
  lookup: SecretLookup,
  from: SecretAddress,
  { environment, path }: Reference,
): SecretAddress | "absent" | "unknown" {
  if (environment === null || path === null) return from;
  const environmentId = lookup.environmentId(from.projectId, environment);
  if (environmentId === "unknown") return "unknown";
  return environmentId === null ? "absent" : { projectId: from.projectId, environmentId, path };
}

export interface Want {
  readonly from: SecretAddress;
  readonly reference: Reference;
}

interface Expansion {
  readonly text: string;
  /** A cycle was cut somewhere below: the text depends on where the walk came from and must not be reused. */
  readonly isCut: boolean;
}

export class Expander {
  readonly #lookup: SecretLookup;
  readonly #known = new Map<string, string>();
  /** Results by folder and name: a thousand references to one secret search for it once. */
  readonly #found = new Map<string, FoundReference>();
  readonly wants: Want[] = [];
  #steps: number;
  #characters: number;
  #looks: number;

  constructor(lookup: SecretLookup, { steps, characters, looks }: Allowance = ALLOWANCE) {
    this.#lookup = lookup;
    this.#steps = steps;
    this.#characters = characters;
    this.#looks = looks;
  }

  get left(): Allowance {
    return { steps: this.#steps, characters: this.#characters, looks: Math.max(0, this.#looks) };
  }

  #mayLook = (): boolean => (this.#looks -= 1) >= 0;

  #find(from: SecretAddress, reference: Reference): FoundReference {
    const spot = spotOf(this.#lookup, from, reference);
    if (typeof spot === "string") return spot;
    const name = `${spotKey(spot)} ${reference.key}`;
    const known = this.#found.get(name);
    if (known !== undefined) return known;
    const found = findEffective(this.#lookup, spot, reference.key, this.#mayLook);
    if (found !== "unknown") this.#found.set(name, found);
    return found;
  }

  expand(secret: Readable): string {
    return this.#expand(secret, new Set([secret.id])).text;
  }

  #expand(secret: Readable, chain: Set<string>): Expansion {
    const known = this.#known.get(secret.id);
    if (known !== undefined) return { text: known, isCut: false };
    if (!mayRefer(secret.value)) return { text: secret.value, isCut: false };
    let isCut = false;
    let length = secret.value.length;
    const text = secret.value.replace(REFERENCE, (whole, inner: string) => {
      const part = this.#follow(secret, inner, chain);
      if (part === "cut") isCut = true;
      if (part === null || part === "cut") return whole;
      isCut ||= part.isCut;
      // A value that grows without bound (a doubling chain) stays as it is written.
      const grown = length + part.text.length - whole.length;
      const fits = grown <= MAX_EXPANDED && part.text.length <= this.#characters;
      // What was cut is computed again each time: it costs even where it is not inserted.
      if (fits || part.isCut) this.#characters -= part.text.length;
      if (!fits) return whole;
      length = grown;
      return part.text;
    });
    if (!isCut) this.#known.set(secret.id, text);
    return { text, isCut };
  }

  #follow(secret: Readable, inner: string, chain: Set<string>): Expansion | "cut" | null {
    if (this.#steps <= 0) return "cut";
    const reference = parseReference(inner);
    if (reference === null) return null;
    this.#steps -= 1;
    const found = this.#find(secret.spot, reference);
    if (found === "unknown") this.wants.push({ from: secret.spot, reference });
    if (found === "unknown" || found === "absent") return null;
    if (chain.has(found.id) || chain.size >= MAX_CHAIN || found.value.length > this.#characters) return "cut";
    chain.add(found.id);
    const expansion = this.#expand(found, chain);
    chain.delete(found.id);
    return expansion;
  }
}
