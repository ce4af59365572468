export { comparing, missingFrom, type MissingPermission } from "./boundary.ts";
export { NO_ACCESS, builtinRules, builtinSlugs } from "./builtin.ts";
export {
  ALL_PAIRS,
  CATALOGUE,
  EVERY_ACTION,
  EVERY_SUBJECT,
  OPERATORS,
  type AttributeKind,
  type Pair,
  type RoleScopeKind,
  type SubjectEntry,
  findSubject,
  resolvePairs,
} from "./catalogue.ts";
export type { AttributeValue, ConditionAttributes, KeyAndValue } from "./conditions.ts";
export { Ability, compileRules, type ConsideredRule, type Explanation } from "./evaluate.ts";
export {
  HOLDER_LIMITS,
  RULE_LIMITS,
  checkRules,
  isCanonicalPath,
  tooHeavy,
  weightOf,
  wordsOf,
  type CheckedRules,
  type Condition,
  type Conditions,
  type Rule,
  type RuleIssue,
  type RuleWeight,
} from "./rules.ts";
