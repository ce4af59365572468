// Checking a request by a policy. A part of the policy that is left out does not restrict; inside a part that is there,
// what is not listed is refused: a policy that lists DNS names lets no IP address slip by. Two exceptions err on
// the careful side: a CA, and an OCSP responder that may answer for it, is certified only where the policy
// says so explicitly.
import { conflict, invalid, type Issue } from "../platform/problem.ts";
import { findingOf, parseDuration } from "../certificates/model.ts";
import type { CertificateTemplate } from "../signing/model.ts";
import type { PolicyRules } from "./contract.ts";
import { couldStandFor, matchesAddress, matchesPattern, matchesUri } from "./patterns.model.ts";
import {
  attributeValues,
  extendedKeyUsageOid,
  OID,
  parseKeyAlgorithm,
  parseSignatureAlgorithm,
  X509Error,
  type Finding,
} from "@keyward/x509";

export const policyNameTaken = (name: string) =>
  conflict(`A policy named ${name} exists in this project already.`);
export const policyInUse = () => conflict("A certificate profile uses this policy; it cannot be deleted.");

const SUBJECT_OIDS = {
  common_name: OID.commonName,
  organization: OID.organization,
  organizational_unit: OID.organizationalUnit,
  country: OID.country,
  state: OID.state,
  locality: OID.locality,
  domain_component: OID.domainComponent,
} as const;

/** Enough to see what is meant; a policy may list hundreds, and a request may have a hundred wrong names. */
const someOf = (patterns: readonly string[]): string =>
  patterns.length > 10
    ? `${patterns.slice(0, 10).join(", ")} and ${patterns.length - 10} others`
    : patterns.join(", ");

interface Patterns {
  readonly allowed?: readonly string[] | undefined;
  readonly required?: readonly string[] | undefined;
  readonly denied?: readonly string[] | undefined;
}

/** Undefined where the caller may yield: names times patterns can be many. */
type Judging<T> = Generator<undefined, T>;

/** Patterns matched with a name in one go. */
const BREATH_PATTERNS = 16;

function* firstOf(
  patterns: readonly string[],
  matches: (pattern: string) => boolean,
): Judging<string | undefined> {
  for (const [at, pattern] of patterns.entries()) {
    if (matches(pattern)) return pattern;
    if (at % BREATH_PATTERNS === BREATH_PATTERNS - 1) yield undefined;
  }
  return undefined;
}

function* judgeValues(
  rule: Patterns,
  values: readonly string[],
  field: string,
  matches: (pattern: string, value: string) => boolean,
): Judging<Finding[]> {
  const findings: Finding[] = [];
  const allowed = rule.allowed && [...rule.allowed, ...(rule.required ?? [])];
  for (const value of values) {
    // A match that is narrow for allowing must be wide for denying.
    const denied = yield* firstOf(
      rule.denied ?? [],
      (pattern) => matches(pattern, value) || matchesPattern(pattern, value) || couldStandFor(value, pattern),
    );
    if (denied !== undefined)
      findings.push(findingOf("policy.denied", field, `"${value}" matches the denied ${denied}.`));
    else if (allowed && (yield* firstOf(allowed, (pattern) => matches(pattern, value))) === undefined) {
      findings.push(
        findingOf(
          "policy.not_allowed",
          field,
          `"${value}" is not among the allowed ${someOf(allowed) || "(nothing)"}.`,
        ),
      );
    }
  }
  for (const pattern of rule.required ?? []) {
    yield undefined;
    if (!values.some((value) => matches(pattern, value)))
      findings.push(findingOf("policy.required", field, `A value that matches ${pattern} is required.`));
  }
  return findings;
}

function* judgeSubject(
  rules: NonNullable<PolicyRules["subject"]>,
  template: CertificateTemplate,
): Judging<Finding[]> {
  if (rules.length === 0) return [];
  const findings: Finding[] = [];
  for (const rule of rules) {
    const values = attributeValues(template.subject, SUBJECT_OIDS[rule.type]);
    findings.push(...(yield* judgeValues(rule, values, rule.type, matchesPattern)));
  }
  for (const [type, oid] of Object.entries(SUBJECT_OIDS)) {
    const isListed = rules.some((rule) => rule.type === type);
    if (!isListed && attributeValues(template.subject, oid).length > 0)
      findings.push(findingOf("policy.not_listed", type, `The policy lists no ${type}; leave it out.`));
  }
  return findings;
}

const SAN_MATCHERS: Readonly<Record<string, typeof matchesPattern>> = {
  ip_address: matchesAddress,
  uri: matchesUri,
};

function* judgeSans(
  rules: NonNullable<PolicyRules["sans"]>,
  template: CertificateTemplate,
): Judging<Finding[]> {
  if (rules.length === 0) return [];
  const findings: Finding[] = [];
  for (const rule of rules) {
    const values = template.altNames.flatMap((each) =>
      each.type === rule.type && typeof each.value === "string" ? [each.value] : [],
    );
    const matches = SAN_MATCHERS[rule.type] ?? matchesPattern;
    findings.push(...(yield* judgeValues(rule, values, `altNames.${rule.type}`, matches)));
  }
  for (const { type } of template.altNames) {
    if (!rules.some((rule) => rule.type === type))
      findings.push(
        findingOf(
          "policy.not_listed",
          `altNames.${type}`,
          `The policy lists no alternative names of type ${type}.`,
        ),
      );
  }
  return findings;
}

/** An extended key usage may be written by name or by OID, in the policy as in the request. */
const isSameUsage = (pattern: string, usage: string): boolean =>
  extendedKeyUsageOid(pattern) === extendedKeyUsageOid(usage);

function* judgeUsages(
  rule: Patterns | null | undefined,
  usages: readonly string[],
  field: string,
): Judging<Finding[]> {
  return rule ? yield* judgeValues(rule, usages, field, isSameUsage) : [];
}

/** A certificate with this usage can answer "good" for every certificate of the CA, revoked or not. */
function judgeOcspSigning(
  { extendedKeyUsages: rule }: PolicyRules,
  template: CertificateTemplate,
): Finding[] {
  const isOcsp = (usage: string): boolean => isSameUsage("ocsp_signing", usage);
  if (!template.extendedKeyUsages.some(isOcsp)) return [];
  // What a list does not allow is refused there already.
  if (rule?.allowed || rule?.required?.some(isOcsp)) return [];
  const message = "The policy does not allow ocsp_signing; it must list it by name.";
  return [findingOf("policy.ocsp_denied", "extendedKeyUsages", message)];
}

/** Names that we cannot make are no reason to refuse a policy; they simply never match. */
const normalised = <T extends string>(names: readonly string[], parse: (text: string) => T): T[] =>
  names.flatMap((text) => {
    try {
      return [parse(text)];
    } catch (error) {
      if (error instanceof X509Error) return [];
      throw error;
    }
  });

export const allowedSignatures = (rules: PolicyRules) =>
  rules.algorithms?.signature && normalised(rules.algorithms.signature, parseSignatureAlgorithm);
export const allowedKeys = (rules: PolicyRules) =>
  rules.algorithms?.keyAlgorithm && normalised(rules.algorithms.keyAlgorithm, parseKeyAlgorithm);

function judgeAlgorithms(
  rules: PolicyRules,
  keyAlgorithm: string | undefined,
  signatureAlgorithm: string,
): Finding[] {
  const keys: readonly string[] | undefined = allowedKeys(rules);
  const signatures: readonly string[] | undefined = allowedSignatures(rules);
  const findings: Finding[] = [];
  if (keys && (keyAlgorithm === undefined || !keys.includes(keyAlgorithm))) {
    findings.push(
      findingOf(
        "policy.key_algorithm",
        "keyAlgorithm",
        `${keyAlgorithm ?? "This key size"} is not among ${rules.algorithms?.keyAlgorithm?.join(", ") ?? ""}.`,
      ),
    );
  }
  if (signatures && !signatures.includes(signatureAlgorithm)) {
    findings.push(
      findingOf(
        "policy.signature_algorithm",
        "signatureAlgorithm",
        `${signatureAlgorithm} is not among ${rules.algorithms?.signature?.join(", ") ?? ""}.`,
      ),
    );
  }
  return findings;
}

function judgeConstraints(rules: PolicyRules, template: CertificateTemplate): Finding[] {
  const { isCA, maxPathLength = -1 } = rules.basicConstraints ?? {};
  if (!template.isCa)
    return isCA === "required"
      ? [findingOf("policy.ca_required", "basicConstraints", "The policy is for authorities only.")]
      : [];
  if (isCA !== "allowed" && isCA !== "required")
    return [
      findingOf(
        "policy.ca_denied",
        "basicConstraints",
        "The policy does not allow authorities; it must say isCA: allowed.",
      ),
    ];
  if (maxPathLength >= 0 && (template.pathLength === undefined || template.pathLength > maxPathLength)) {
    return [
      findingOf(
        "policy.path_length",
        "basicConstraints.pathLength",
        `The path length must be at most ${maxPathLength}.`,
      ),
    ];
  }
  return [];
}

interface Algorithms {
  readonly key: string | undefined;
  readonly signature: string;
}

export function judge(rules: PolicyRules, template: CertificateTemplate, algorithms: Algorithms): Finding[] {
  const judging = judgeInSteps(rules, template, algorithms);
  let step = judging.next();
  while (!step.done) step = judging.next();
  return step.value;
}

/** The caller can yield to other requests between the steps. */
export function* judgeInSteps(
  rules: PolicyRules,
  template: CertificateTemplate,
  algorithms: Algorithms,
): Judging<Finding[]> {
  const max = rules.validity?.max;
  const lifetime = (template.notAfter.getTime() - template.notBefore.getTime()) / 1000;
  const tooLong = max !== undefined && lifetime > parseDuration(max, "validity.max");
  return [
    ...(yield* judgeSubject(rules.subject ?? [], template)),
    ...(yield* judgeSans(rules.sans ?? [], template)),
    ...(yield* judgeUsages(rules.keyUsages, template.keyUsages, "keyUsages")),
    ...(yield* judgeUsages(rules.extendedKeyUsages, template.extendedKeyUsages, "extendedKeyUsages")),
    ...judgeOcspSigning(rules, template),
    ...judgeAlgorithms(rules, algorithms.key, algorithms.signature),
    ...judgeConstraints(rules, template),
    ...(tooLong
      ? [findingOf("policy.validity", "ttl", `The certificate would be valid for longer than ${max}.`)]
      : []),
  ];
}

/** The usages to put in where nobody asked for any: the required ones, and of the usual ones those that are allowed. */
export function usagesUnder<T extends string>(
  rule:
    | {
        readonly allowed?: readonly T[] | undefined;
        readonly required?: readonly T[] | undefined;
        readonly denied?: readonly T[] | undefined;
      }
    | null
    | undefined,
  asked: readonly T[] | undefined,
  usual: readonly T[],
): T[] {
  const required = rule?.required ?? [];
  if (asked) return [...new Set([...asked, ...required])];
  const fitting = usual.filter(
    (usage) =>
      !rule?.denied?.includes(usage) &&
      (!rule?.allowed || rule.allowed.includes(usage) || required.includes(usage)),
  );
  return [...new Set([...required, ...fitting])];
}

/** What cannot be checked by shape alone. */
export function checkPolicy(rules: PolicyRules): void {
  const issues: Issue[] = [];
  if (rules.validity?.max !== undefined) parseDuration(rules.validity.max, "validity.max");
  for (const [part, list] of [
    ["subject", rules.subject],
    ["sans", rules.sans],
  ] as const) {
    const types = (list ?? []).map(({ type }) => type as string);
    const repeated = types.find((type, index) => types.indexOf(type) !== index);
    if (repeated !== undefined)
      issues.push({ code: "custom", path: [part], message: `${part} lists ${repeated} twice` });
  }
  if (issues.length > 0) throw invalid(issues);
}
