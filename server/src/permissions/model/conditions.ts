// Conditions in the form in which they are evaluated and compared. Whatever operators an author combined, a
// test on one string is: one of these (or any), none of those, and matching all of these globs. That normal
// form is closed under "and", cheap to evaluate, and simple enough to decide whether one test implies another.

import {
  COMPARISON_STEPS,
  type Glob,
  type WorkBudget,
  compileGlob,
  globContains,
  globsMeet,
  matchCost,
} from "../../platform/glob.ts";
import type { AttributeKind } from "./catalogue.ts";
import { type Condition, type ScalarOperators, globMode, isCanonicalPath } from "./rules.ts";

interface KeyAndValue {
  readonly key: string;
  readonly value: string;
}

export type AttributeValue = string | readonly string[] | readonly KeyAndValue[];

/** What is known about the thing that is asked about. */
export type ConditionAttributes = Readonly<Record<string, AttributeValue | undefined>>;

interface Scalar {
  readonly only: ReadonlySet<string> | null;
  readonly except: ReadonlySet<string>;
  readonly globs: readonly Glob[];
}

export type Test =
  | { readonly kind: "text" | "path" | "names"; readonly scalar: Scalar }
  | {
      readonly kind: "tags";
      readonly anyOf: readonly ReadonlySet<string>[];
      readonly allOf: ReadonlySet<string>;
    }
  | { readonly kind: "pairs"; readonly key: Scalar; readonly value: Scalar }
  /** A stored condition that today's code cannot read: it never helps to allow and always helps to deny. */
  | { readonly kind: "unreadable" };

const UNREADABLE: Test = { kind: "unreadable" };
const ANY: Scalar = { only: null, except: new Set(), globs: [] };
const OPERATOR_NAMES: ReadonlySet<string> = new Set(["$eq", "$ne", "$in", "$nin", "$glob"]);

export function compileTest(condition: Condition, kind: AttributeKind | undefined): Test {
  if (kind === undefined || condition === null) return UNREADABLE;
  if (kind === "tags") return compileTags(condition);
  if (kind === "pairs") return compilePairs(condition);
  const scalar = compileScalar(condition, kind);
  return scalar === null ? UNREADABLE : { kind, scalar };
}

function compileTags(condition: Condition): Test {
  if (typeof condition === "string") return UNREADABLE;
  const { $in, $all, ...rest } = condition;
  if (Object.keys(rest).length > 0 || ($in === undefined && $all === undefined)) return UNREADABLE;
  return { kind: "tags", anyOf: $in === undefined ? [] : [new Set($in)], allOf: new Set($all ?? []) };
}

function compilePairs(condition: Condition): Test {
  if (typeof condition === "string" || condition.$elemMatch === undefined) return UNREADABLE;
  const { key, value, ...rest } = condition.$elemMatch;
  const keyTest = key === undefined ? ANY : compileScalar(key, "text");
  const valueTest = value === undefined ? ANY : compileScalar(value, "text");
  if (keyTest === null || valueTest === null || Object.keys(rest).length > 0) return UNREADABLE;
  return { kind: "pairs", key: keyTest, value: valueTest };
}

function compileScalar(condition: string | ScalarOperators, kind: AttributeKind): Scalar | null {
  if (typeof condition === "string") return { ...ANY, only: new Set([condition]) };
  const names = Object.keys(condition);
  if (names.length === 0 || !names.every((name) => OPERATOR_NAMES.has(name))) return null;
  const { $eq, $ne, $in, $nin, $glob } = condition;
  const globs: Glob[] = [];
  if ($glob !== undefined) {
    const compiled = compileGlob($glob, globMode(kind));
    if (!compiled.ok) return null;
    globs.push(compiled.glob);
  }
  const equal = $eq === undefined ? null : new Set([$eq]);
  const among = $in === undefined ? null : new Set($in);
  const except = new Set([...($nin ?? []), ...($ne === undefined ? [] : [$ne])]);
  return { only: intersect(equal, among), except, globs };
}

function intersect(a: ReadonlySet<string> | null, b: ReadonlySet<string> | null): ReadonlySet<string> | null {
  if (a === null || b === null) return a ?? b;
  return new Set([...a].filter((value) => b.has(value)));
}

// ---- evaluation ------------------------------------------------------------------------------------------

/**
 * Does the test hold for this value? A value that is absent or not of the attribute's kind leaves the
 * question open, and an open question is decided against the caller: no for an allowing rule, yes for a
 * denying one.
 */
export function holds(test: Test, value: AttributeValue | undefined, inverted: boolean): boolean {
  switch (test.kind) {
    case "text":
    case "path":
      return isText(test.kind, value) ? passes(test.scalar, value) : inverted;
    case "names":
      return holdsForNames(test.scalar, value, inverted);
    case "tags":
      return isStrings(value) ? hasTags(test, new Set(value)) : inverted;
    case "pairs":
      return isPairs(value)
        ? value.some((pair) => passes(test.key, pair.key) && passes(test.value, pair.value))
        : inverted;
    case "unreadable":
      return inverted;
  }
}

/** A value that `holds` compares with this kind of test, rather than leaving the question open. */
export const isText = (kind: "text" | "path", value: AttributeValue | undefined): value is string =>
  typeof value === "string" && (kind === "text" || isCanonical(value));

/** The only values that can pass, where a test on one text lists them; null where it does not. */
export const onlyValues = (test: Test): ReadonlySet<string> | null =>
  test.kind === "text" || test.kind === "path" ? test.scalar.only : null;

/** All rules of a role ask about the same path in turn: the last answer is remembered. */
let lastPath = "/";
let lastAnswer = true;

function isCanonical(path: string): boolean {
  if (path === lastPath) return lastAnswer;
  lastPath = path;
  lastAnswer = isCanonicalPath(path);
  return lastAnswer;
}

function holdsForNames(scalar: Scalar, value: AttributeValue | undefined, inverted: boolean): boolean {
  const names = typeof value === "string" ? [value] : value;
  if (!isStrings(names)) return inverted;
  if (inverted) return names.some((name) => passes(scalar, name));
  return names.length > 0 && names.every((name) => passes(scalar, name));
}

function passes(scalar: Scalar, value: string): boolean {
  if (scalar.only !== null && !scalar.only.has(value)) return false;
  if (scalar.except.size > 0 && scalar.except.has(value)) return false;
  // Paths were found canonical before they came here; see `holds`.
  return scalar.globs.every((glob) => glob.matchesCanonical(value));
}

function hasTags(test: Extract<Test, { kind: "tags" }>, tags: ReadonlySet<string>): boolean {
  if (![...test.allOf].every((tag) => tags.has(tag))) return false;
  return test.anyOf.every((some) => [...some].some((tag) => tags.has(tag)));
}

function isStrings(value: AttributeValue | undefined): value is readonly string[] {
  return Array.isArray(value) && value.every((item) => typeof item === "string");
}

function isPairs(value: AttributeValue | undefined): value is readonly KeyAndValue[] {
  return Array.isArray(value) && value.every((item) => typeof item === "object");
}

// ---- comparison ------------------------------------------------------------------------------------------

/** Limits a whole comparison of rule sets; once spent, every question gets its cautious answer. */
export function spend(budget: WorkBudget, steps: number): boolean {
  budget.left -= steps;
  return budget.left >= 0;
}

/** A single pair of globs may not eat the budget of all. */
function forOneGlob(budget: WorkBudget, compare: (own: WorkBudget) => boolean): boolean {
  const granted = Math.min(COMPARISON_STEPS, Math.max(budget.left, 0));
  const own = { left: granted };
  const answer = compare(own);
  budget.left -= granted - own.left;
  return answer;
}

/** Is every value that passes `narrow` sure to pass `wide`? "No" may also mean "not proven". */
export function implies(narrow: Test, wide: Test, budget: WorkBudget): boolean {
  if (narrow.kind === "tags" && wide.kind === "tags") return tagsImply(narrow, wide);
  if (narrow.kind === "pairs" && wide.kind === "pairs") {
    return scalarImplies(narrow.key, wide.key, budget) && scalarImplies(narrow.value, wide.value, budget);
  }
  if ("scalar" in narrow && "scalar" in wide && narrow.kind === wide.kind) {
    return scalarImplies(narrow.scalar, wide.scalar, budget);
  }
  return false;
}

function tagsImply(narrow: Extract<Test, { kind: "tags" }>, wide: Extract<Test, { kind: "tags" }>): boolean {
  // "Any of one" is "all of one".
  const sure = new Set(narrow.allOf);
  for (const some of narrow.anyOf) if (some.size === 1) for (const tag of some) sure.add(tag);
  if (![...wide.allOf].every((tag) => sure.has(tag))) return false;
  return wide.anyOf.every(
    (some) =>
      [...some].some((tag) => sure.has(tag)) ||
      narrow.anyOf.some((own) => [...own].every((tag) => some.has(tag))),
  );
}

function scalarImplies(narrow: Scalar, wide: Scalar, budget: WorkBudget): boolean {
  if (!spend(budget, 1 + wide.except.size)) return false;
  const values = finiteValues(narrow, budget);
  if (values !== null) return values.every((value) => affordable(wide, value, budget) && passes(wide, value));
  if (wide.only !== null) return false;
  // Lying within "all but v" is the same as not containing v.
  for (const value of wide.except) {
    if (!affordable(narrow, value, budget) || passes(narrow, value)) return false;
  }
  return wide.globs.every(
    (outer) =>
      outer.shape.kind === "anything" ||
      narrow.globs.some((inner) => forOneGlob(budget, (own) => globContains(outer, inner, own))),
  );
}

/** All values that can pass, if they are few enough to be listed by the rule itself. */
function finiteValues(scalar: Scalar, budget: WorkBudget): readonly string[] | null {
  const literal = scalar.globs.find((glob) => glob.literal !== null)?.literal ?? null;
  const candidates = scalar.only ?? (literal === null ? null : new Set([literal]));
  if (candidates === null) return null;
  // A value that is too costly to rule out stays in: more values make every proof harder, never easier.
  return [...candidates].filter((value) => !affordable(scalar, value, budget) || passes(scalar, value));
}

function affordable(scalar: Scalar, value: string, budget: WorkBudget): boolean {
  const perCharacter = scalar.globs.reduce((sum, glob) => sum + matchCost(glob), 0);
  return spend(budget, 1 + value.length * perCharacter);
}

/** Could one value pass both? "Yes" may also mean "not disproven". Sets and lists can always hold both. */
export function mayOverlap(a: Test, b: Test, budget: WorkBudget): boolean {
  if (!("scalar" in a) || !("scalar" in b) || a.kind !== b.kind) return true;
  const both = conjoinScalars(a.scalar, b.scalar);
  const values = finiteValues(both, budget);
  if (values !== null) return values.length > 0;
  return a.scalar.globs.every((one) =>
    b.scalar.globs.every((other) => forOneGlob(budget, (own) => globsMeet(one, other, own))),
  );
}

/** Both tests at once, or null where that is not one test (two list elements may be two elements). */
export function conjoin(a: Test, b: Test): Test | null {
  if ("scalar" in a && "scalar" in b && a.kind === b.kind) {
    return { kind: a.kind, scalar: conjoinScalars(a.scalar, b.scalar) };
  }
  if (a.kind === "tags" && b.kind === "tags") {
    return { kind: "tags", anyOf: [...a.anyOf, ...b.anyOf], allOf: new Set([...a.allOf, ...b.allOf]) };
  }
  return null;
}

function conjoinScalars(a: Scalar, b: Scalar): Scalar {
  return {
    only: intersect(a.only, b.only),
    except: new Set([...a.except, ...b.except]),
    globs: [...a.globs, ...b.globs],
  };
}

/** The same test cut into one per listed value; uncut where values are not listed or belong together. */
export function splitByValue(test: Test, budget: WorkBudget): readonly Test[] {
  if (test.kind !== "text" && test.kind !== "path") return [test];
  const values = finiteValues(test.scalar, budget);
  if (values === null || values.length === 0) return [test];
  return values.map((value) => ({ kind: test.kind, scalar: { ...ANY, only: new Set([value]) } }));
}
