// Deciding. The rules of all roles a caller holds are thrown together without any order, so there can be no
// "last rule wins": a caller is allowed what at least one rule allows and no inverted rule denies. A denial
// therefore cannot be lifted by adding a role, whichever role was assigned first.
//
// Rules are indexed by canonical subject and action; `read` on secrets and other aliases are taken apart
// before. Asking for something with an unconditional rule costs two map lookups.

import { EVERY_ACTION, EVERY_SUBJECT, type Pair, findSubject, resolvePairs } from "./catalogue.ts";
import { type ConditionAttributes, compileTest, holds } from "./conditions.ts";
import { type Grant, GrantIndex, type Grants } from "./grant-index.ts";
import type { Conditions, Rule } from "./rules.ts";

/** A pair's rules, filed so that one about another environment is not even looked at. */
interface PermissionQuestion {
  readonly allows: GrantIndex;
  readonly denies: GrantIndex;
}

interface ConsideredRule {
  readonly action: string | readonly string[];
  readonly subject: string | readonly string[];
  readonly conditions?: Conditions;
  readonly inverted: boolean;
}

interface Explanation {
  readonly allowed: boolean;
  /** The rule that settled it; null if it was refused because nothing allows it. */
  readonly decidedBy: Rule | null;
  readonly considered: readonly ConsideredRule[];
}

interface Decision {
  readonly allowed: boolean;
  readonly by: Rule | null;
}

type RuleTable = Map<string, Map<string, { allows: Grant[]; denies: Grant[] }>>;

export function compileRules(rules: readonly Rule[]): Ability {
  const slots: RuleTable = new Map();
  for (const rule of rules) {
    for (const subject of asList(rule.subject)) {
      for (const action of asList(rule.action)) fileRule(slots, rule, subject, action);
    }
  }
  return new Ability(slots);
}

/** A stored rule about something the catalogue no longer knows concerns nothing that can be asked. */
function fileRule(slots: RuleTable, rule: Rule, subject: string, action: string): void {
  const [everySubject, everyAction] = [subject === EVERY_SUBJECT, action === EVERY_ACTION];
  const known = findSubject(subject);
  if (known === null && !everySubject) return;
  const name = known?.name ?? EVERY_SUBJECT;
  const actions = everyAction
    ? [EVERY_ACTION]
    : (known?.actions.get(action) ?? (everySubject ? [action] : []));
  const tests = Object.entries(rule.conditions ?? {}).map(([attribute, condition]) => ({
    attribute,
    test: compileTest(condition, known?.attributes.get(attribute)),
  }));
  const grant: Grant = { rule, tests, everySubject, everyAction };
  for (const one of actions) {
    const slot = slotFor(slots, name, one);
    (rule.inverted === true ? slot.denies : slot.allows).push(grant);
  }
}

function slotFor(slots: RuleTable, subject: string, action: string): { allows: Grant[]; denies: Grant[] } {
  const actions = slots.get(subject) ?? new Map<string, { allows: Grant[]; denies: Grant[] }>();
  slots.set(subject, actions);
  const slot = actions.get(action) ?? { allows: [], denies: [] };
  actions.set(action, slot);
  return slot;
}

function asList(names: string | readonly string[]): readonly string[] {
  return typeof names === "string" ? [names] : names;
}

export class Ability {
  readonly #slots: RuleTable;
  /** By the names used in the question. Only names of the catalogue get in, so it cannot grow without end. */
  readonly #asked = new Map<string, Map<string, readonly PermissionQuestion[]>>();

  constructor(slots: RuleTable) {
    this.#slots = slots;
  }

  /**
   * Without attributes: is it possible for anything at all? Then conditions count as met, except that an
   * unconditional denial settles it. Throws for a pair that the catalogue does not know: that is a mistake
   * in the calling code, and must not pass as an ordinary refusal.
   */
  can(action: string, subject: string, attributes?: ConditionAttributes): boolean {
    const questions = this.#questions(action, subject);
    if (questions === null) throw new Error(`no such permission: ${action} on ${subject}`);
    for (const question of questions) {
      if (!decide(question, attributes).allowed) return false;
    }
    return true;
  }

  /** For people: what was decided and on which grounds. An unknown pair is simply not allowed. */
  explain(action: string, subject: string, attributes?: ConditionAttributes): Explanation {
    const questions = this.#questions(action, subject) ?? [];
    const verdicts = questions.map((question) => decide(question, attributes));
    const settled = verdicts.find((verdict) => !verdict.allowed) ?? verdicts[0];
    return {
      allowed: settled?.allowed ?? false,
      decidedBy: settled?.by ?? null,
      considered: this.rulesFor(action, subject).map(describeRule),
    };
  }

  /** Every rule that speaks about this subject and action, denying ones first. */
  rulesFor(action: string, subject: string): readonly Rule[] {
    const questions = this.#questions(action, subject) ?? [];
    const denies = questions.flatMap((question) => question.denies.all.map((grant) => grant.rule));
    const allows = questions.flatMap((question) => question.allows.all.map((grant) => grant.rule));
    return [...new Set([...denies, ...allows])];
  }

  /** The compiled rules for one canonical pair, wildcards included: for comparing abilities. */
  grantsFor({ subject, action }: Pair): Grants {
    const found = [
      this.#slots.get(subject)?.get(action),
      this.#slots.get(subject)?.get(EVERY_ACTION),
      this.#slots.get(EVERY_SUBJECT)?.get(action),
      this.#slots.get(EVERY_SUBJECT)?.get(EVERY_ACTION),
    ].filter((slot) => slot !== undefined);
    return {
      allows: unconditionalFirst(found.flatMap((slot) => slot.allows)),
      denies: unconditionalFirst(found.flatMap((slot) => slot.denies)),
    };
  }

  #questions(action: string, subject: string): readonly PermissionQuestion[] | null {
    const asked = this.#asked.get(subject)?.get(action);
    if (asked !== undefined) return asked;
    const pairs = resolvePairs(subject, action);
    if (pairs === null) return null;
    const questions = pairs.map((pair) => {
      const { allows, denies } = this.grantsFor(pair);
      return { allows: new GrantIndex(allows), denies: new GrantIndex(denies) };
    });
    const actions = this.#asked.get(subject) ?? new Map<string, readonly PermissionQuestion[]>();
    this.#asked.set(subject, actions.set(action, questions));
    return questions;
  }
}

/** So that the cheap answer is found first. */
function unconditionalFirst(grants: readonly Grant[]): readonly Grant[] {
  return [...grants].sort((a, b) => a.tests.length - b.tests.length);
}

const NOTHING_ALLOWS: Decision = { allowed: false, by: null };

function decide(
  { allows, denies }: PermissionQuestion,
  attributes: ConditionAttributes | undefined,
): Decision {
  const denied = denies.find(attributes, (deny) =>
    attributes === undefined ? deny.tests.length === 0 : applyTests(deny, attributes, true),
  );
  if (denied) return { allowed: false, by: denied.rule };
  const allowed = allows.find(
    attributes,
    (allow) => attributes === undefined || applyTests(allow, attributes, false),
  );
  return allowed ? { allowed: true, by: allowed.rule } : NOTHING_ALLOWS;
}

function applyTests(grant: Grant, attributes: ConditionAttributes, inverted: boolean): boolean {
  for (const { attribute, test } of grant.tests) {
    if (!holds(test, attributes[attribute], inverted)) return false;
  }
  return true;
}

function describeRule(rule: Rule): ConsideredRule {
  return {
    action: rule.action,
    subject: rule.subject,
    ...(rule.conditions === undefined ? {} : { conditions: rule.conditions }),
    inverted: rule.inverted === true,
  };
}
