// Nobody may hand out more than they hold. The check errs on one side only: an empty answer is a proof that
// everything `wanted` allows is allowed to the holder; a complaint may be mere caution where a proof would be
// hard, such as a grant that only several of the holder's rules together would cover.
//
// Proof, per subject and action, for each allowing rule W of `wanted` (cut into one case per listed value):
//   1. some allowing rule of the holder asks for nothing that W does not already guarantee, and
//   2. each denying rule D of the holder is out of W's way, or `wanted` denies it too.
// "Guarantee" includes that the attribute is known: W only applies where all its attributes are given,
// whereas D also applies where one is missing. So only an attribute that W itself tests can serve as proof.

import type { WorkBudget } from "../../platform/glob.ts";
import { ALL_PAIRS, type Pair } from "./catalogue.ts";
import { type Test, conjoin, implies, mayOverlap, spend, splitByValue } from "./conditions.ts";
import { type Ability, compileRules } from "./evaluate.ts";
import type { Grant, Grants } from "./grant-index.ts";
import type { Conditions, Rule } from "./rules.ts";

export interface MissingPermission {
  readonly action: string;
  readonly subject: string;
  readonly conditions?: Conditions;
}

/** For all comparisons of one call; far above honest roles, low enough to end a hostile one quickly. */
const BOUNDARY_STEPS = 2_000_000;
const MAX_CASES = 256;

type Tests = ReadonlyMap<string, Test>;

/** A comparison under way: it stops wherever somebody else may want a turn. */
type BoundaryStep<T> = Generator<undefined, T>;

/** All of it at once. Between the largest roles that is a second: for what is known to be small. */
export function missingFrom(holder: Ability, wanted: readonly Rule[]): MissingPermission[] {
  const steps = comparing(holder, wanted);
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** The same, step by step. */
export function* comparing(holder: Ability, wanted: readonly Rule[]): BoundaryStep<MissingPermission[]> {
  const budget: WorkBudget = { left: BOUNDARY_STEPS };
  const asked = compileRules(wanted);
  yield;
  const missing = new Map<string, MissingPermission>();
  for (const pair of ALL_PAIRS) {
    const grants = asked.grantsFor(pair);
    if (grants.allows.length === 0) continue;
    const held = holder.grantsFor(pair);
    for (const grant of grants.allows) {
      yield;
      if (yield* isCovered(grant, { held, denies: grants.denies, budget })) continue;
      const entry = describeMissing(grant, pair);
      missing.set(JSON.stringify(entry), entry);
    }
  }
  return [...missing.values()];
}

interface Comparison {
  readonly held: Grants;
  /** What `wanted` denies for the same pair. */
  readonly denies: readonly Grant[];
  readonly budget: WorkBudget;
}

/** A wildcard is reported as a wildcard, not as the hundreds of pairs it stands for. */
function describeMissing(grant: Grant, pair: Pair): MissingPermission {
  const wild = grant.everySubject || grant.everyAction;
  return {
    action: grant.everyAction ? "manage" : pair.action,
    subject: grant.everySubject ? "all" : pair.subject,
    ...(wild || grant.rule.conditions === undefined ? {} : { conditions: grant.rule.conditions }),
  };
}

function* isCovered(grant: Grant, comparison: Comparison): BoundaryStep<boolean> {
  const { held, denies, budget } = comparison;
  const candidates = held.allows.filter((own) => isAsBroad(own, grant));
  // By far the most common cases, and they must stay cheap for large roles: the very same rule, or one for everything.
  const asked = wordsOf(grant.rule);
  const twin = candidates.some(
    (own) => own.rule === grant.rule || own.tests.length === 0 || wordsOf(own.rule) === asked,
  );
  if (twin && held.denies.length === 0) return true;
  for (const tests of cutIntoCases(grant, budget)) {
    yield;
    if (!twin && !candidates.some((own) => grants(own, tests, budget))) return false;
    for (const deny of held.denies) {
      if (isOutOfTheWay(deny, tests, budget)) continue;
      yield;
      if (!denies.some((also) => deniesToo(also, { deny, tests, budget }))) return false;
    }
  }
  return true;
}

const known = new WeakMap<Rule, string>();
/** What a rule asks for, in words that can be compared: made once, for each is compared with each. */
function wordsOf(rule: Rule): string {
  const same = known.get(rule);
  if (same !== undefined) return same;
  const made = JSON.stringify(rule.conditions ?? {});
  known.set(rule, made);
  return made;
}

/** A wildcard grows with the catalogue; today's complete list of pairs does not cover it. */
function isAsBroad(own: Grant, grant: Grant): boolean {
  return (own.everySubject || !grant.everySubject) && (own.everyAction || !grant.everyAction);
}

/** `{environment: {$in: [dev, test]}}` may be covered by two rules of the holder, one for each. */
function cutIntoCases(grant: Grant, budget: WorkBudget): readonly Tests[] {
  let cases: Tests[] = [new Map()];
  for (const { attribute, test } of grant.tests) {
    const parts = splitByValue(test, budget);
    const used = cases.length * parts.length > MAX_CASES ? [test] : parts;
    cases = cases.flatMap((tests) => used.map((part) => new Map([...tests, [attribute, part]])));
  }
  return cases;
}

function grants(own: Grant, tests: Tests, budget: WorkBudget): boolean {
  if (!spend(budget, 1 + own.tests.length)) return false;
  return own.tests.every(({ attribute, test }) => {
    const guaranteed = tests.get(attribute);
    return guaranteed !== undefined && implies(guaranteed, test, budget);
  });
}

function isOutOfTheWay(deny: Grant, tests: Tests, budget: WorkBudget): boolean {
  if (!spend(budget, 1 + deny.tests.length)) return false;
  return deny.tests.some(({ attribute, test }) => {
    const guaranteed = tests.get(attribute);
    return guaranteed !== undefined && !mayOverlap(guaranteed, test, budget);
  });
}

interface Denial {
  readonly deny: Grant;
  readonly tests: Tests;
  readonly budget: WorkBudget;
}

/** Wherever W and the holder's denial both apply, does this denial of `wanted` apply as well? */
function deniesToo(also: Grant, { deny, tests, budget }: Denial): boolean {
  // Keeps the question without attributes ("possible at all?") within the holder's answer, too.
  if (deny.tests.length === 0) return also.tests.length === 0;
  if (!spend(budget, 1 + also.tests.length)) return false;
  return also.tests.every(({ attribute, test }) => {
    const fromDeny = deny.tests.find((other) => other.attribute === attribute)?.test;
    const fromWanted = tests.get(attribute);
    if (fromDeny !== undefined && fromWanted !== undefined) {
      const both = conjoin(fromWanted, fromDeny);
      if (both !== null) return implies(both, test, budget);
    }
    return [fromDeny, fromWanted].some((known) => known !== undefined && implies(known, test, budget));
  });
}
