// Lint rules about names: the subject, its alternative names, and the constraints on both.

import {
  encodeGeneralName,
  describeGeneralName,
  DNS_PROBLEMS,
  dnsNameProblem,
  type GeneralName,
} from "./general-names.ts";
import { error, warn, type Finding, type LintFacts, type LintRule } from "./lint-finding.ts";
import { violatesNameConstraints } from "./name-constraints.ts";
import { commonNameOf, encodeName } from "./names.ts";
import { OID } from "./oids.ts";
import { quote, X509Error } from "./x509-error.ts";

function lintSubject({ tbs, isCa }: LintFacts): Finding[] {
  const { subject, extensions } = tbs;
  const san = extensions.all.find(({ oid }) => oid === OID.subjectAltName);
  if (subject.rdns.length === 0) {
    if (isCa) return [error("subject.empty_ca", "subject", "An authority must have a name.")];
    if (san === undefined)
      return [error("subject.nameless", "subject", "Neither subject nor alternative names.")];
    if (!san.isCritical) {
      return [
        error("san.not_critical", "altNames", "Without a subject the alternative names must be critical."),
      ];
    }
    return [];
  }
  const findings = attempt("subject", () => encodeName(subject.rdns));
  if (san?.isCritical === true) {
    findings.push(
      warn("san.critical", "altNames", "Beside a subject the alternative names should not be critical."),
    );
  }
  return findings;
}

/** What our own writer refuses to write is wrong in bytes that came from elsewhere, too. */
function attempt(field: string, write: () => unknown): Finding[] {
  try {
    write();
    return [];
  } catch (cause) {
    if (cause instanceof X509Error) return [error(cause.code, field, cause.message)];
    throw cause;
  }
}

function lintAltNames({ tbs: { extensions } }: LintFacts): Finding[] {
  const names = extensions.subjectAltName;
  if (names === undefined) return [];
  if (names.length === 0) return [error("san.empty", "altNames", "The alternative names are empty.")];
  return [...names.flatMap(lintAltName), ...lintDuplicates(names)];
}

function lintAltName(name: GeneralName): Finding[] {
  if (name.type !== "dns_name") return attempt("altNames", () => encodeGeneralName(name));
  const problem = dnsNameProblem(name.value);
  if (problem !== undefined) {
    return [error(`dns_name.${problem}`, "altNames", `${quote(name.value)} ${DNS_PROBLEMS[problem]}.`)];
  }
  const labels = name.value.split(".");
  if (labels.some((label) => /^(?!xn)..--/i.test(label))) {
    return [
      warn(
        "dns_name.reserved_label",
        "altNames",
        `${name.value} has a label with hyphens in third and fourth place.`,
      ),
    ];
  }
  if (labels[0] === "*" && labels.length < 3) {
    return [warn("dns_name.broad_wildcard", "altNames", `Most clients refuse ${name.value}: too broad.`)];
  }
  return [];
}

function lintDuplicates(names: readonly GeneralName[]): Finding[] {
  const seen = new Set<string>();
  const findings: Finding[] = [];
  for (const name of names) {
    const text = describeGeneralName(name);
    const key = name.type === "dns_name" ? text.toLowerCase() : text;
    if (seen.has(key)) findings.push(warn("san.duplicate", "altNames", `${quote(text)} is listed twice.`));
    seen.add(key);
  }
  return findings;
}

/** Clients of TLS servers read the alternative names alone; a host that stands only in the common name is lost. */
function lintServerNames({ tbs, isCa }: LintFacts): Finding[] {
  const { extendedKeyUsage, subjectAltName = [] } = tbs.extensions;
  if (isCa || extendedKeyUsage?.includes("server_auth") !== true) return [];
  if (!subjectAltName.some(({ type }) => type === "dns_name" || type === "ip_address")) {
    return [warn("san.missing", "altNames", "A server certificate needs a DNS name or an IP address.")];
  }
  const commonName = commonNameOf(tbs.subject.rdns);
  if (commonName === undefined) return [];
  const isListed = subjectAltName.some(
    ({ type, value }) =>
      (type === "dns_name" || type === "ip_address") && value.toLowerCase() === commonName.toLowerCase(),
  );
  return isListed
    ? []
    : [warn("subject.cn_not_in_san", "subject", `${quote(commonName)} is not among the alternative names.`)];
}

/** Only the nearest issuer is known here; the issuing path asks for the whole chain. */
function lintConstraints({ tbs, issuer, isCa }: LintFacts): Finding[] {
  const { nameConstraints, subjectAltName = [], all } = tbs.extensions;
  const findings: Finding[] = [];
  if (nameConstraints !== undefined && !isCa) {
    findings.push(
      error("name_constraints.not_ca", "nameConstraints", "Only an authority has name constraints."),
    );
  }
  if (all.some(({ oid, isCritical }) => oid === OID.nameConstraints && !isCritical)) {
    findings.push(
      error("name_constraints.not_critical", "nameConstraints", "Name constraints must be critical."),
    );
  }
  const above = issuer?.extensions.nameConstraints;
  if (above === undefined) return findings;
  const violation = violatesNameConstraints({ subject: tbs.subject.rdns, altNames: subjectAltName, isCa }, [
    above,
  ]);
  if (violation !== undefined)
    findings.push(error("name_constraints.violated", "altNames", violation.message));
  return findings;
}

export const NAME_RULES: readonly LintRule[] = [lintSubject, lintAltNames, lintServerNames, lintConstraints];
