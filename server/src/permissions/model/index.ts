export { comparing, type MissingPermission } from "./boundary.ts";
export { builtinRules, builtinSlugs } from "./builtin.ts";
export {
  ALL_PAIRS,
  CATALOGUE,
  EVERY_ACTION,
  EVERY_SUBJECT,
  type RoleScopeKind,
  findSubject,
} from "./catalogue.ts";
export type { ConditionAttributes } from "./conditions.ts";
export { Ability, compileRules } from "./evaluate.ts";
export {
  HOLDER_LIMITS,
  checkRules,
  isCanonicalPath,
  tooHeavy,
  weightOf,
  wordsOf,
  type Rule,
  type RuleWeight,
} from "./rules.ts";
