// A glob as a nondeterministic automaton, simulated by walking all its states at once (Thompson, 1968).
// Each character of the text looks at each state at most once, so the work is at most
// text length x states, whatever the pattern: there is nothing to backtrack into. Alternatives become
// branches, not textual copies, so the number of states is linear in the length of the pattern too.

import { type CodeRange, type GlobMode, type GlobPart, MAX_GLOB_LENGTH } from "./glob-syntax.ts";

export const SLASH = 0x2f;
const LAST_CODE_POINT = 0x10ffff;

const ACCEPT = 0;
const SPLIT = 1;
const CHAR = 2;
const CLASS = 3;
const SEGMENT_CHAR = 4;
const ANY_CHAR = 5;
const NOWHERE = -1;

interface CharClass {
  readonly ranges: readonly CodeRange[];
  readonly negated: boolean;
}

/** Set of states with constant-time add, has and clear: a dense list and, per state, its place in the list. */
export class StateSet {
  readonly list: Int32Array;
  readonly #place: Int32Array;
  size = 0;

  constructor(capacity: number) {
    this.list = new Int32Array(capacity);
    this.#place = new Int32Array(capacity);
  }

  add(state: number): void {
    if (this.has(state)) return;
    this.#place[state] = this.size;
    this.list[this.size] = state;
    this.size += 1;
  }

  has(state: number): boolean {
    const place = this.#place[state] ?? 0;
    return place < this.size && this.list[place] === state;
  }

  clear(): void {
    this.size = 0;
  }

  load(states: Int32Array): void {
    this.size = 0;
    for (const state of states) this.add(state);
  }
}

export class Automaton {
  readonly #kinds: Uint8Array;
  /** CHAR: the code point. CLASS: index into #classes. */
  readonly #args: Int32Array;
  readonly #next: Int32Array;
  readonly #other: Int32Array;
  readonly #classes: readonly CharClass[];
  readonly #mode: GlobMode;
  readonly start: number;

  constructor(parts: readonly GlobPart[], mode: GlobMode) {
    const builder = new Builder(mode);
    this.start = builder.build(parts, builder.add(ACCEPT, 0, NOWHERE));
    this.#mode = mode;
    this.#kinds = Uint8Array.from(builder.kinds);
    this.#args = Int32Array.from(builder.args);
    this.#next = Int32Array.from(builder.next);
    this.#other = Int32Array.from(builder.other);
    this.#classes = builder.classes;
  }

  get size(): number {
    return this.#kinds.length;
  }

  isAccepting(state: number): boolean {
    return this.#kinds[state] === ACCEPT;
  }

  isSplit(state: number): boolean {
    return this.#kinds[state] === SPLIT;
  }

  /** The one character a state can take, or null if it takes several (or none). */
  onlyChar(state: number): number | null {
    return this.#kinds[state] === CHAR ? (this.#args[state] ?? null) : null;
  }

  accepts(states: StateSet): boolean {
    return states.has(0);
  }

  begin(into: StateSet): void {
    into.clear();
    into.add(this.start);
    this.#close(into);
  }

  step(from: StateSet, code: number, into: StateSet): void {
    into.clear();
    for (let i = 0; i < from.size; i += 1) {
      const state = from.list[i] ?? 0;
      if (this.takes(state, code)) into.add(this.#next[state] ?? 0);
    }
    this.#close(into);
  }

  /** All states one can be in after `state` took a character, splits included. */
  after(state: number, into: StateSet): void {
    into.clear();
    into.add(this.#next[state] ?? 0);
    this.#close(into);
  }

  takes(state: number, code: number): boolean {
    const kind = this.#kinds[state];
    if (kind === CHAR) return this.#args[state] === code;
    if (kind === SEGMENT_CHAR) return code !== SLASH;
    if (kind === CLASS) return this.#classTakes(this.#args[state] ?? 0, code);
    return kind === ANY_CHAR;
  }

  /** Adds every code point at which some state may start or stop to match. */
  collectEdges(edges: Set<number>): void {
    for (const [state, kind] of this.#kinds.entries()) {
      const arg = this.#args[state] ?? 0;
      if (kind === CHAR) edges.add(arg).add(arg + 1);
      if (kind === CLASS) {
        for (const { low, high } of this.#classes[arg]?.ranges ?? []) edges.add(low).add(high + 1);
      }
    }
  }

  #classTakes(index: number, code: number): boolean {
    const charClass = this.#classes[index];
    if (charClass === undefined || (code === SLASH && this.#mode === "path")) return false;
    return charClass.ranges.some((range) => range.low <= code && code <= range.high) !== charClass.negated;
  }

  /** The list grows while it is walked: splits add their two branches behind the cursor's end. */
  #close(states: StateSet): void {
    for (let i = 0; i < states.size; i += 1) {
      const state = states.list[i] ?? 0;
      if (this.#kinds[state] !== SPLIT) continue;
      states.add(this.#next[state] ?? 0);
      states.add(this.#other[state] ?? 0);
    }
  }
}

/** Lays the states out, last part first, so that each part already knows what follows it. */
class Builder {
  readonly kinds: number[] = [];
  readonly args: number[] = [];
  readonly next: number[] = [];
  readonly other: number[] = [];
  readonly classes: CharClass[] = [];
  readonly #anyInSegment: number;

  constructor(mode: GlobMode) {
    this.#anyInSegment = mode === "path" ? SEGMENT_CHAR : ANY_CHAR;
  }

  add(kind: number, arg: number, next: number): number {
    this.kinds.push(kind);
    this.args.push(arg);
    this.next.push(next);
    this.other.push(NOWHERE);
    return this.kinds.length - 1;
  }

  #split(next: number, other: number): number {
    const state = this.add(SPLIT, 0, next);
    this.other[state] = other;
    return state;
  }

  /** Zero or more of `kind`, then `next`. */
  #loop(kind: number, next: number): number {
    const again = this.#split(NOWHERE, next);
    this.next[again] = this.add(kind, 0, again);
    return again;
  }

  build(parts: readonly GlobPart[], end: number): number {
    return parts.reduceRight((next, part) => this.#buildPart(part, next), end);
  }

  #buildPart(part: GlobPart, next: number): number {
    switch (part.kind) {
      case "char":
        return this.add(CHAR, part.code, next);
      case "class":
        return this.add(CLASS, this.classes.push(part) - 1, next);
      case "one":
        return this.add(this.#anyInSegment, 0, next);
      case "many":
        return this.#loop(this.#anyInSegment, next);
      case "deep":
        return this.#split(this.add(CHAR, SLASH, this.#loop(ANY_CHAR, next)), next);
      case "either":
        return part.options
          .map((option) => this.build(option, next))
          .reduce((one, other) => this.#split(one, other));
    }
  }
}

/**
 * One representative per stretch of code points that no automaton here tells apart. Trying these is as good
 * as trying all of Unicode.
 */
export function representatives(...automata: readonly Automaton[]): readonly number[] {
  const edges = new Set<number>([0, SLASH, SLASH + 1]);
  for (const automaton of automata) automaton.collectEdges(edges);
  return [...edges].filter((code) => code <= LAST_CODE_POINT).sort((a, b) => a - b);
}

/** Enough for every pattern that the grammar lets through. */
const MOST_STATES = 4 * MAX_GLOB_LENGTH + 8;
// Matching never waits for anything in between, so all runs can share their scratch space.
const scratch = [new StateSet(MOST_STATES), new StateSet(MOST_STATES)] as const;

export interface Run {
  readonly matched: boolean;
  /** How often a state was looked at. */
  readonly steps: number;
}

const MAX_REMEMBERED = 64;
const UNKNOWN = -1;
const ASCII = 128;

/**
 * Runs an automaton and remembers the sets of states it came through, so that the next text costs one table
 * look-up per character. A pattern with more sets than it pays to remember goes on without memory.
 */
export class Runner {
  readonly #automaton: Automaton;
  readonly #sets: { readonly states: Int32Array; readonly accepts: boolean; readonly next: Int8Array }[] = [];
  readonly #numbers = new Map<string, number>();

  constructor(automaton: Automaton) {
    this.#automaton = automaton;
    automaton.begin(scratch[0]);
    this.#remember(scratch[0]);
  }

  run(text: string): Run {
    let current = this.#sets[0];
    let steps = 0;
    for (let at = 0; at < text.length;) {
      if (current === undefined || current.states.length === 0) return { matched: false, steps };
      const code = text.codePointAt(at) ?? 0;
      let number = code < ASCII ? (current.next[code] ?? UNKNOWN) : UNKNOWN;
      steps += 1;
      if (number === UNKNOWN) {
        const [from, into] = scratch;
        from.load(current.states);
        this.#automaton.step(from, code, into);
        steps += from.size + into.size;
        number = this.#remember(into);
        if (number === UNKNOWN) return this.#runWithoutMemory(text, at, steps);
        if (code < ASCII) current.next[code] = number;
      }
      current = this.#sets[number];
      at += code > 0xffff ? 2 : 1;
    }
    return { matched: current?.accepts ?? false, steps };
  }

  /** Goes on from the set in the first half of the scratch space. */
  #runWithoutMemory(text: string, start: number, before: number): Run {
    let [now, then]: [StateSet, StateSet] = [...scratch];
    let steps = before;
    for (let at = start; at < text.length && now.size > 0;) {
      const code = text.codePointAt(at) ?? 0;
      this.#automaton.step(now, code, then);
      steps += then.size;
      [now, then] = [then, now];
      at += code > 0xffff ? 2 : 1;
    }
    return { matched: this.#automaton.accepts(now), steps };
  }

  #remember(set: StateSet): number {
    const states = set.list.slice(0, set.size).sort();
    const key = states.join(",");
    const known = this.#numbers.get(key);
    if (known !== undefined) return known;
    if (this.#sets.length >= MAX_REMEMBERED) return UNKNOWN;
    const accepts = this.#automaton.accepts(set);
    const number = this.#sets.push({ states, accepts, next: new Int8Array(ASCII).fill(UNKNOWN) }) - 1;
    this.#numbers.set(key, number);
    return number;
  }
}
