// Reading the rules of a role as somebody sent them. Complaints are collected (up to fifty), each with its place, so
// that an author mends a role in one go. What leaves here is safe to compile: known names, bounded sizes,
// canonical paths. Unknown keys beside subject, action, conditions and inverted are dropped, but an unknown
// attribute or operator inside conditions is an error: ignoring a restriction would widen the grant.

import { type Glob, type GlobMode, compileGlob } from "../../platform/glob.ts";
import {
  type AttributeKind,
  type KnownSubject,
  OPERATORS,
  type RoleScopeKind,
  findSubject,
} from "./catalogue.ts";

export interface ScalarOperators {
  readonly $eq?: string;
  readonly $ne?: string;
  readonly $in?: readonly string[];
  readonly $nin?: readonly string[];
  readonly $glob?: string;
}

interface Operators extends ScalarOperators {
  readonly $all?: readonly string[];
  readonly $elemMatch?: {
    readonly key?: string | ScalarOperators;
    readonly value?: string | ScalarOperators;
  };
}

/** A plain string means `$eq`. Several operators must all hold. */
export type Condition = string | Operators;
export type Conditions = Readonly<Record<string, Condition>>;

export interface Rule {
  readonly subject: string | readonly string[];
  readonly action: string | readonly string[];
  readonly conditions?: Conditions;
  readonly inverted?: boolean;
}

interface RuleIssue {
  readonly path: readonly (string | number)[];
  readonly message: string;
}

type CheckedRules =
  { readonly ok: true; readonly rules: Rule[] } | { readonly ok: false; readonly issues: RuleIssue[] };

export const RULE_LIMITS = {
  rules: 500,
  values: 100,
  stringLength: 1024,
  /**
   * All wildcard patterns of a role together; plain paths and `prefix/**` do not count, they cost nothing. Patterns made
   * to be slow take about a microsecond per character and text.
   */
  patternCharacters: 4096,
} as const;

/** The same words for the same rule: the database keeps the parts of an object in an order of its own. */
export const wordsOf = (rule: unknown): string =>
  JSON.stringify(rule, (_key, value: unknown) =>
    typeof value === "object" && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value,
  );

/** All roles that somebody holds in a project (or in the organisation) together: each decision may look at all of it. */
export const HOLDER_LIMITS = { rules: 1000, patternCharacters: 4096 } as const;

export interface RuleWeight {
  readonly rules: number;
  readonly patternCharacters: number;
}

/** What a decision may have to look at because of these rules. They have been checked before. */
export function weightOf(rules: readonly Rule[]): RuleWeight {
  let patternCharacters = 0;
  const weigh = (condition: unknown, mode: GlobMode): void => {
    if (typeof condition !== "object" || condition === null) return;
    for (const [operator, operand] of Object.entries(condition)) {
      if (operator !== "$glob" || typeof operand !== "string") weigh(operand, "text");
      else {
        const compiled = compileGlob(operand, mode);
        if (!compiled.ok || isCostly(compiled.glob)) patternCharacters += operand.length;
      }
    }
  };
  for (const { subject, conditions = {} } of rules) {
    const attributes = findSubject(typeof subject === "string" ? subject : (subject[0] ?? ""))?.attributes;
    for (const [attribute, condition] of Object.entries(conditions))
      weigh(condition, globMode(attributes?.get(attribute) ?? "text"));
  }
  return { rules: rules.length, patternCharacters };
}

/** The bound that these roles would pass if one held them all; null = none. */
export function tooHeavy(weights: readonly RuleWeight[]): string | null {
  const sum = (of: (weight: RuleWeight) => number) => weights.reduce((total, one) => total + of(one), 0);
  const { rules, patternCharacters } = HOLDER_LIMITS;
  if (sum((weight) => weight.rules) > rules) return `at most ${rules} rules`;
  if (sum((weight) => weight.patternCharacters) > patternCharacters)
    return `at most ${patternCharacters} characters of wildcard patterns`;
  return null;
}

type Path = readonly (string | number)[];
const SLASH = 0x2f;

interface RuleCheck {
  readonly scope: RoleScopeKind;
  readonly issues: RuleIssue[];
  patternCharacters: number;
}

export function checkRules(input: unknown, scope: RoleScopeKind = "project"): CheckedRules {
  const check: RuleCheck = { scope, issues: [], patternCharacters: 0 };
  if (!Array.isArray(input))
    return { ok: false, issues: [{ path: [], message: "must be an array of rules" }] };
  const rules: Rule[] = [];
  try {
    if (input.length > RULE_LIMITS.rules) complain(check, [], `must hold at most ${RULE_LIMITS.rules} rules`);
    for (const [at, rule] of input.slice(0, RULE_LIMITS.rules).entries()) {
      const checked = checkRule(rule, [at], check);
      if (checked) rules.push(checked);
    }
    if (check.patternCharacters > RULE_LIMITS.patternCharacters)
      complain(
        check,
        [],
        `must use at most ${RULE_LIMITS.patternCharacters} characters of wildcard patterns`,
      );
  } catch (error) {
    if (!(error instanceof Enough)) throw error;
  }
  return check.issues.length === 0 ? { ok: true, rules } : { ok: false, issues: check.issues };
}

/** The first of them say enough; a role can be wrong a hundred thousand times. */
const MOST_ISSUES = 50;
class Enough extends Error {}

function complain(check: RuleCheck, path: Path, message: string): null {
  check.issues.push({ path: path.map(clip), message });
  if (check.issues.length >= MOST_ISSUES) throw new Enough();
  return null;
}

/** Names come from the author, of any length. */
function clip<T extends string | number>(part: T): T | string {
  return typeof part === "string" && part.length > 64 ? `${part.slice(0, 64)}…` : part;
}

function checkRule(input: unknown, path: Path, check: RuleCheck): Rule | null {
  if (!isRecord(input)) return complain(check, path, "must be an object");
  const subjectNames = checkNames(input["subject"], [...path, "subject"], check);
  const subjects = subjectNames === null ? [] : findSubjects(subjectNames, [...path, "subject"], check);
  const actionNames = checkNames(input["action"], [...path, "action"], check);
  if (actionNames !== null) checkActions(actionNames, subjects, [...path, "action"], check);
  const conditions = checkConditions(input["conditions"], subjects, [...path, "conditions"], check);
  const inverted = input["inverted"] ?? undefined;
  if (inverted !== undefined && typeof inverted !== "boolean") {
    return complain(check, [...path, "inverted"], "must be true or false");
  }
  if (subjectNames === null || actionNames === null) return null;
  return {
    subject: subjectNames,
    action: actionNames,
    ...(conditions === null ? {} : { conditions }),
    ...(inverted === undefined ? {} : { inverted }),
  };
}

/** One name or several, kept in the form in which they came. */
function checkNames(input: unknown, path: Path, check: RuleCheck): string | string[] | null {
  if (!Array.isArray(input)) return checkString(input, path, check);
  if (!hasRightCount(input, path, check)) return null;
  const names = input.map((name: unknown, at) => checkString(name, [...path, at], check));
  return names.every((name) => name !== null) ? names : null;
}

/** Where a name of a list stands; a single name stands at the list's own path. */
function placed(names: string | string[], path: Path): [string, Path][] {
  return typeof names === "string" ? [[names, path]] : names.map((name, at) => [name, [...path, at]]);
}

function findSubjects(names: string | string[], path: Path, check: RuleCheck): KnownSubject[] {
  return placed(names, path).flatMap(([name, place]) => {
    const subject = findSubject(name, check.scope);
    if (subject === null) complain(check, place, `unknown subject ${quote(name)}`);
    return subject ?? [];
  });
}

function checkActions(
  names: string | string[],
  subjects: readonly KnownSubject[],
  path: Path,
  check: RuleCheck,
): void {
  for (const [name, place] of placed(names, path)) {
    for (const subject of subjects) {
      if (subject.actions.has(name)) continue;
      complain(check, place, `unknown action ${quote(name)} for subject ${quote(subject.name)}`);
    }
  }
}

function checkConditions(
  input: unknown,
  subjects: readonly KnownSubject[],
  path: Path,
  check: RuleCheck,
): Conditions | null {
  if (input === undefined || input === null) return null;
  if (!isRecord(input)) return complain(check, path, "must be an object");
  const conditions: [string, Condition][] = [];
  for (const [attribute, value] of Object.entries(input)) {
    const place = [...path, attribute];
    const [subject] = subjects;
    const stranger = subjects.find((candidate) => !candidate.attributes.has(attribute));
    if (stranger)
      complain(check, place, `unknown attribute ${quote(attribute)} for subject ${quote(stranger.name)}`);
    const kind = subject?.attributes.get(attribute);
    if (kind === undefined || stranger) continue;
    if (subjects.some((candidate) => candidate.attributes.get(attribute) !== kind)) {
      complain(check, place, "means different things for these subjects; use separate rules");
    }
    const condition = checkCondition(value, kind, place, check);
    if (condition !== null) conditions.push([attribute, condition]);
  }
  return Object.fromEntries(conditions);
}

function checkCondition(input: unknown, kind: AttributeKind, path: Path, check: RuleCheck): Condition | null {
  if (typeof input === "string" && OPERATORS[kind].includes("$eq"))
    return checkValue(input, kind, path, check);
  if (!isRecord(input)) {
    return complain(check, path, `must be an object of ${OPERATORS[kind].join(", ")}`);
  }
  const operators: [string, unknown][] = [];
  for (const [operator, operand] of Object.entries(input)) {
    const place = [...path, operator];
    if (!OPERATORS[kind].includes(operator)) {
      complain(check, place, `unknown operator; this attribute takes ${OPERATORS[kind].join(", ")}`);
    } else {
      operators.push([operator, checkOperand(operator, operand, { kind, path: place, check })]);
    }
  }
  if (Object.keys(input).length === 0) return complain(check, path, "must name at least one operator");
  return Object.fromEntries(operators);
}

interface OperandPlace {
  readonly kind: AttributeKind;
  readonly path: Path;
  readonly check: RuleCheck;
}

function checkOperand(operator: string, operand: unknown, { kind, path, check }: OperandPlace): unknown {
  switch (operator) {
    case "$in":
    case "$nin":
    case "$all":
      if (!Array.isArray(operand)) return complain(check, path, "must be an array of strings");
      if (!hasRightCount(operand, path, check)) return null;
      return operand.map((value: unknown, at) => checkValue(value, kind, [...path, at], check));
    case "$glob":
      return checkGlob(operand, kind, path, check);
    case "$elemMatch":
      return checkElement(operand, path, check);
    default:
      return checkValue(operand, kind, path, check);
  }
}

function checkElement(input: unknown, path: Path, check: RuleCheck): unknown {
  if (!isRecord(input)) return complain(check, path, "must be an object of key, value");
  const sides: [string, unknown][] = [];
  for (const [side, value] of Object.entries(input)) {
    const place = [...path, side];
    if (side !== "key" && side !== "value")
      complain(check, place, "unknown; only key and value can be matched");
    else sides.push([side, checkCondition(value, "text", place, check)]);
  }
  if (sides.length === 0) return complain(check, path, "must name key or value");
  return Object.fromEntries(sides);
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

function checkValue(input: unknown, kind: AttributeKind, path: Path, check: RuleCheck): string | null {
  const text = checkString(input, path, check);
  if (text === null) return null;
  // Values are compared as they are. An error beats a rule that never matches, and nothing an identity
  // carries can ever widen a grant.
  if (text.includes("{{")) return complain(check, path, "templates ({{ }}) are not supported");
  // Ids arrive in small letters; a rule that names one otherwise would never match.
  if (kind !== "path") return UUID.test(text) ? text.toLowerCase() : text;
  return canonicalPath(text) ?? complain(check, path, "must be a folder path without //, . or ..");
}

function checkGlob(input: unknown, kind: AttributeKind, path: Path, check: RuleCheck): string | null {
  const text = checkString(input, path, check);
  if (text === null) return null;
  const pattern = kind === "path" ? withBorders(text) : text;
  const compiled = compileGlob(pattern, globMode(kind));
  if (!compiled.ok) return complain(check, path, `the pattern ${compiled.reason}`);
  if (isCostly(compiled.glob)) check.patternCharacters += pattern.length;
  return pattern;
}

function isCostly(glob: Glob): boolean {
  return glob.shape.kind === "general";
}

export function globMode(kind: AttributeKind): GlobMode {
  return kind === "path" ? "path" : "text";
}

function checkString(input: unknown, path: Path, check: RuleCheck): string | null {
  if (typeof input !== "string") return complain(check, path, "must be a string");
  if (input.length === 0) return complain(check, path, "must not be empty");
  if (input.length > RULE_LIMITS.stringLength) {
    return complain(check, path, `must be at most ${RULE_LIMITS.stringLength} characters long`);
  }
  return input;
}

function hasRightCount(list: readonly unknown[], path: Path, check: RuleCheck): boolean {
  if (list.length > 0 && list.length <= RULE_LIMITS.values) return true;
  complain(check, path, `must hold 1 to ${RULE_LIMITS.values} values`);
  return false;
}

function isRecord(input: unknown): input is Readonly<Record<string, unknown>> {
  return typeof input === "object" && input !== null && !Array.isArray(input);
}

function quote(name: string): string {
  return JSON.stringify(clip(name));
}

/** With a slash in front and none behind; the root stays `/`. */
function withBorders(path: string): string {
  const started = path.startsWith("/") ? path : `/${path}`;
  return started.length > 1 && started.endsWith("/") ? started.slice(0, -1) : started;
}

function canonicalPath(path: string): string | null {
  const canonical = withBorders(path);
  return isCanonicalPath(canonical) ? canonical : null;
}

/**
 * Permissions speak about this one spelling only: what is authorised must be what is then opened. Asked for
 * each decision, hence one pass over the characters.
 */
export function isCanonicalPath(path: string): boolean {
  if (path === "/") return true;
  let previous = SLASH;
  for (let at = 0; at < path.length; at += 1) {
    const code = path.charCodeAt(at);
    if (code === 0 || (at === 0) !== (code === SLASH && previous === SLASH)) return false;
    previous = code;
  }
  if (path === "" || previous === SLASH) return false;
  return !path.includes("/.") || !path.split("/").some((segment) => segment === "." || segment === "..");
}
