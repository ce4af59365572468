// Globs that strangers write and we evaluate: event filters, conditions of roles. Two promises matter more
// than features: matching is linear (see glob-automaton.ts), and whether one glob lies within another is
// decided exactly or not at all (globContains), because the permission boundary depends on it.
//
// A path is canonical: `/` or `/a/b`, no empty segment. One trailing slash is dropped from pattern and text
// alike, and the root then is the path of zero segments: `/**` matches it, `/*` does not. A text that is not
// a canonical path matches no path glob.

import { Automaton, type Run, Runner, SLASH, StateSet, representatives } from "./glob-automaton.ts";
import { type GlobMode, type GlobPart, parseGlob } from "./glob-syntax.ts";

export { MAX_GLOB_LENGTH, type GlobMode } from "./glob-syntax.ts";

type CompiledGlob =
  { readonly ok: true; readonly glob: Glob } | { readonly ok: false; readonly reason: string };

/** `exact` and `under` are by far the most common globs, and need no automaton to be answered. */
type Shape =
  | { readonly kind: "exact"; readonly text: string }
  | { readonly kind: "under"; readonly prefix: string }
  | { readonly kind: "anything" }
  /** Everything it matches starts with `stem`: most texts are rejected before the automaton runs. */
  | { readonly kind: "general"; readonly stem: string };

export class Glob {
  readonly pattern: string;
  readonly mode: GlobMode;
  readonly shape: Shape;
  readonly #parts: readonly GlobPart[];
  #automaton: Automaton | null = null;
  #runner: Runner | null = null;
  /** A list asks about the same folder, and twice about each name: the last answer is remembered. */
  #lastBody: string | null = null;
  #lastMatched = false;

  constructor(pattern: string, mode: GlobMode, parts: readonly GlobPart[]) {
    this.pattern = pattern;
    this.mode = mode;
    this.shape = shapeOf(parts, mode);
    this.#parts = parts;
  }

  get automaton(): Automaton {
    this.#automaton ??= new Automaton(this.#parts, this.mode);
    return this.#automaton;
  }

  /** The one text that this glob matches, if it has no wildcard. */
  get literal(): string | null {
    if (this.shape.kind !== "exact") return null;
    return this.mode === "path" && this.shape.text === "" ? "/" : this.shape.text;
  }

  matches(text: string): boolean {
    if (this.mode === "text") return this.#matchesBody(text);
    if (text.charCodeAt(0) !== SLASH || text.includes("//")) return false;
    return this.#matchesBody(text.charCodeAt(text.length - 1) === SLASH ? text.slice(0, -1) : text);
  }

  /** For callers that already know the text to be a canonical path (in path mode). */
  matchesCanonical(text: string): boolean {
    return this.#matchesBody(this.mode === "path" && text === "/" ? "" : text);
  }

  /** What the automaton does with a text, shortcuts aside, and how much work that was. The root is "". */
  trace(body: string): Run {
    this.#runner ??= new Runner(this.automaton);
    return this.#runner.run(body);
  }

  #matchesBody(body: string): boolean {
    switch (this.shape.kind) {
      case "exact":
        return body === this.shape.text;
      case "under":
        return isUnder(body, this.shape.prefix);
      case "anything":
        return true;
      case "general":
        return body.startsWith(this.shape.stem) && this.#matchesGeneral(body);
    }
  }

  #matchesGeneral(body: string): boolean {
    if (body === this.#lastBody) return this.#lastMatched;
    const { matched, steps } = this.trace(body);
    stepsTaken += steps;
    this.#lastBody = body;
    this.#lastMatched = matched;
    return matched;
  }
}

let stepsTaken = 0;
/** How much work matching was since the process began: for callers that match many texts in a row. */
export const matchingSteps = (): number => stepsTaken;

export function compileGlob(pattern: string, mode: GlobMode = "path"): CompiledGlob {
  const parsed = parseGlob(pattern, mode);
  if (!parsed.ok) return parsed;
  const glob = new Glob(pattern, mode, parsed.parts);
  if (glob.shape.kind === "general" && !matchesSomething(glob.automaton, mode)) {
    return { ok: false, reason: "can never match a path" };
  }
  return { ok: true, glob };
}

function isUnder(body: string, prefix: string): boolean {
  if (!body.startsWith(prefix)) return false;
  return body.length === prefix.length || body.charCodeAt(prefix.length) === SLASH;
}

function shapeOf(parts: readonly GlobPart[], mode: GlobMode): Shape {
  const last = parts.at(-1);
  if (mode === "text" && parts.length === 1 && last?.kind === "many") return { kind: "anything" };
  const stem = last?.kind === "deep" ? parts.slice(0, -1) : parts;
  let text = "";
  for (const part of stem) {
    if (part.kind !== "char") return { kind: "general", stem: text };
    text += String.fromCodePoint(part.code);
  }
  if (last?.kind !== "deep") return { kind: "exact", text };
  return text === "" ? { kind: "anything" } : { kind: "under", prefix: text };
}

// ---------------------------------------------------------------------------------------------------------
// Relations between globs. All of them walk words letter by letter; in path mode only canonical paths count
// as words, which the Place keeps track of.

const INSIDE = 0;
const AFTER_SLASH = 1;
const AT_START = 2;
const PLACES = 3;

/** Where the letter leads, or -1 if no canonical path continues so. */
function nextPlace(place: number, code: number, mode: GlobMode): number {
  if (mode === "text") return INSIDE;
  if (code === SLASH) return place === AFTER_SLASH ? -1 : AFTER_SLASH;
  return place === AT_START ? -1 : INSIDE;
}

function firstPlace(mode: GlobMode): number {
  return mode === "text" ? INSIDE : AT_START;
}

/**
 * Limits what a comparison may cost; hostile patterns can make it exponential. Share one among many
 * comparisons to limit them together. Beyond the budget the answer is the cautious one.
 */
export interface WorkBudget {
  left: number;
}

export const COMPARISON_STEPS = 200_000;

function spend(budget: WorkBudget, steps: number): boolean {
  budget.left -= steps;
  return budget.left >= 0;
}

/** Does `outer` match everything that `inner` matches? Exact within the budget, false beyond it. */
export function globContains(
  outer: Glob,
  inner: Glob,
  budget: WorkBudget = { left: COMPARISON_STEPS },
): boolean {
  if (outer.mode !== inner.mode) return false;
  if (!spend(budget, 1)) return false;
  if (outer.shape.kind === "anything" || outer.pattern === inner.pattern) return true;
  if (inner.literal !== null) {
    return spend(budget, inner.literal.length * matchCost(outer)) && outer.matches(inner.literal);
  }
  if (outer.shape.kind === "under" && inner.shape.kind === "under") {
    return isUnder(inner.shape.prefix, outer.shape.prefix);
  }
  return new Containment(outer, inner, budget).holds();
}

/** Is there a text that both match? Exact within the budget, true beyond it. */
export function globsMeet(a: Glob, b: Glob, budget: WorkBudget = { left: COMPARISON_STEPS }): boolean {
  if (a.mode !== b.mode || !spend(budget, 1)) return true;
  const [one, other] = a.literal === null ? [b, a] : [a, b];
  if (one.literal !== null) {
    return !spend(budget, one.literal.length * matchCost(other)) || other.matches(one.literal);
  }
  const letters = representatives(a.automaton, b.automaton);
  return someWord(a.automaton, b.automaton, { letters, mode: a.mode, budget });
}

/** Steps per character that matching can take. */
export function matchCost(glob: Glob): number {
  return glob.shape.kind === "general" ? glob.automaton.size : 1;
}

function matchesSomething(automaton: Automaton, mode: GlobMode): boolean {
  const letters = representatives(automaton);
  return someWord(automaton, automaton, { letters, mode, budget: { left: Number.POSITIVE_INFINITY } });
}

interface Walk {
  readonly letters: readonly number[];
  readonly mode: GlobMode;
  readonly budget: WorkBudget;
}

/** Searches pairs of states for a common word. With twice the same automaton it stays on the diagonal. */
function someWord(a: Automaton, b: Automaton, { letters, mode, budget }: Walk): boolean {
  const same = a === b;
  const [fromA, fromB] = [new StateSet(a.size), new StateSet(b.size)];
  const seen = new Set<number>();
  const open: [number, number, number][] = [];
  const visit = (place: number): boolean => {
    if (!spend(budget, same ? fromA.size : fromA.size * fromB.size)) return false;
    for (const p of fromA.list.subarray(0, fromA.size)) {
      for (const q of same ? [p] : fromB.list.subarray(0, fromB.size)) {
        const key = (p * b.size + q) * PLACES + place;
        if (a.isSplit(p) || b.isSplit(q) || seen.has(key)) continue;
        seen.add(key);
        open.push([p, q, place]);
      }
    }
    return true;
  };
  a.begin(fromA);
  b.begin(fromB);
  if (!visit(firstPlace(mode))) return true;
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    const [p, q, place] = node;
    if (a.isAccepting(p) && b.isAccepting(q) && place !== AFTER_SLASH) return true;
    const only = a.onlyChar(p) ?? b.onlyChar(q);
    for (const code of only === null ? letters : [only]) {
      const next = nextPlace(place, code, mode);
      if (!spend(budget, 1)) return true;
      if (next < 0 || !a.takes(p, code) || !b.takes(q, code)) continue;
      a.after(p, fromA);
      b.after(q, fromB);
      if (!visit(next)) return true;
    }
  }
  return false;
}

/**
 * L(inner) within L(outer): look for a word that leads `inner` to acceptance along some path while none of
 * the states `outer` can then be in accepts. `inner` is followed state by state, `outer` as a whole set of
 * states (subset construction); sets get a number when first met.
 */
class Containment {
  readonly #outer: Automaton;
  readonly #inner: Automaton;
  readonly #mode: GlobMode;
  readonly #budget: WorkBudget;
  readonly #letters: readonly number[];
  /** Numbered sets are kept as short lists: there can be many of them. */
  readonly #sets: { readonly states: Int32Array; readonly next: Map<number, number> }[] = [];
  readonly #numbers = new Map<string, number>();
  readonly #from: StateSet;
  readonly #into: StateSet;

  constructor(outer: Glob, inner: Glob, budget: WorkBudget) {
    this.#outer = outer.automaton;
    this.#inner = inner.automaton;
    this.#mode = outer.mode;
    this.#budget = budget;
    this.#letters = representatives(this.#outer, this.#inner);
    this.#from = new StateSet(this.#outer.size);
    this.#into = new StateSet(this.#outer.size);
  }

  holds(): boolean {
    const reached = new StateSet(this.#inner.size);
    const seen = new Set<number>();
    const open: [number, number, number][] = [];
    const visit = (set: number, place: number): void => {
      for (const state of reached.list.subarray(0, reached.size)) {
        const key = (set * this.#inner.size + state) * PLACES + place;
        if (this.#inner.isSplit(state) || seen.has(key)) continue;
        seen.add(key);
        open.push([state, set, place]);
      }
    };
    this.#inner.begin(reached);
    this.#outer.begin(this.#into);
    visit(this.#numberOf(this.#into), firstPlace(this.#mode));
    for (let node = open.pop(); node !== undefined; node = open.pop()) {
      const [state, set, place] = node;
      if (this.#inner.isAccepting(state)) {
        if (place !== AFTER_SLASH && !this.#outerAccepts(set)) return false;
        continue;
      }
      const only = this.#inner.onlyChar(state);
      for (const code of only === null ? this.#letters : [only]) {
        if (!spend(this.#budget, 1)) return false;
        const next = nextPlace(place, code, this.#mode);
        if (next < 0 || !this.#inner.takes(state, code)) continue;
        const nextSet = this.#follow(set, code);
        this.#inner.after(state, reached);
        if (!spend(this.#budget, reached.size)) return false;
        visit(nextSet, next);
      }
    }
    return true;
  }

  #outerAccepts(set: number): boolean {
    return this.#setNumber(set).states.some((state) => this.#outer.isAccepting(state));
  }

  #follow(set: number, code: number): number {
    const { states, next } = this.#setNumber(set);
    const known = next.get(code);
    if (known !== undefined) return known;
    this.#from.load(states);
    this.#outer.step(this.#from, code, this.#into);
    spend(this.#budget, this.#from.size + this.#into.size);
    const number = this.#numberOf(this.#into);
    next.set(code, number);
    return number;
  }

  #setNumber(number: number): { readonly states: Int32Array; readonly next: Map<number, number> } {
    const found = this.#sets[number];
    if (found === undefined) throw new Error("a set of states that was never numbered");
    return found;
  }

  #numberOf(set: StateSet): number {
    const states = set.list.slice(0, set.size).sort();
    const key = states.join(",");
    const known = this.#numbers.get(key);
    if (known !== undefined) return known;
    const number = this.#sets.push({ states, next: new Map() }) - 1;
    this.#numbers.set(key, number);
    return number;
  }
}
