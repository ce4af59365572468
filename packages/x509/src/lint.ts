// Looking at a certificate before it is signed. The lint reads the very bytes that will be signed, not the request
// they came from, so it also catches mistakes of our own encoder. Rules come from RFC 5280, the algorithm RFCs (5480,
// 8410, 8813) and those of the CA/Browser Forum that make sense for a private CA.
//
// An error means: do not sign. A warning means: some client will be unhappy. A rule is a function from the facts
// to its findings; adding a rule is adding a function to the list.

import { readTbs, isSelfIssued, type Certificate, type TbsCertificate } from "./certificate.ts";
import { schemeOfIdentifier } from "./algorithms.ts";
import { DerError } from "./der.ts";
import type { DerTime } from "./der-reader.ts";
import { assertCanonical } from "./der-tree.ts";
import { findKeyWeakness, type StrengthOptions } from "./key-strength.ts";
import { readPublicKey } from "./keys.ts";
import { error, warn, type Finding, type LintFacts, type LintRule } from "./lint-finding.ts";
import { NAME_RULES } from "./lint-names.ts";
import { USAGE_RULES } from "./lint-usages.ts";
import { OID } from "./oids.ts";
import { quote, X509Error } from "./x509-error.ts";

interface Inspection {
  readonly findings: Finding[];
  /** What the bytes say; undefined if they cannot be read, which is then the one finding. */
  readonly parsed: TbsCertificate | undefined;
}

interface InspectionOptions extends StrengthOptions {
  /** What the issuer's whole chain leaves; where it is not told, the issuer's own word counts. */
  readonly levelsBelowIssuer?: number | undefined;
}

export const lintTbs = (
  tbs: Buffer,
  issuer: Certificate | "self-signed",
  options: InspectionOptions = {},
): Finding[] => inspectTbs(tbs, issuer, options).findings;

/** `issuer` is the certificate of the CA about to sign, or "self-signed" for a root. */
export function inspectTbs(
  tbs: Buffer,
  issuer: Certificate | "self-signed",
  options: InspectionOptions = {},
): Inspection {
  try {
    assertCanonical(tbs);
    const parsed = readTbs(tbs);
    const above = issuer === "self-signed" ? undefined : issuer;
    const facts: LintFacts = {
      tbs: parsed,
      issuer: above,
      key: readPublicKey(parsed.publicKey),
      isCa: parsed.extensions.basicConstraints?.isCa === true,
      levelsBelowIssuer:
        above && (options.levelsBelowIssuer ?? above.extensions.basicConstraints?.pathLength),
    };
    return { parsed, findings: [...ALL_RULES.flatMap((rule) => rule(facts)), ...lintKey(parsed, options)] };
  } catch (cause) {
    // What cannot be read cannot be judged rule by rule: one finding says why.
    const unreadable = (finding: Finding): Inspection => ({ parsed: undefined, findings: [finding] });
    if (cause instanceof DerError)
      return unreadable(error("encoding.der", "certificate", `Not DER: ${cause.message}.`));
    if (cause instanceof X509Error) return unreadable(error(cause.code, cause.field, cause.message));
    throw cause;
  }
}

export const hasErrors = (findings: readonly Finding[]): boolean =>
  findings.some(({ severity }) => severity === "error");

function lintKey({ publicKey }: TbsCertificate, options: StrengthOptions): Finding[] {
  const weakness = findKeyWeakness(publicKey, options);
  return weakness === undefined ? [] : [error(weakness.code, "publicKey", weakness.message)];
}

function lintVersion({ tbs }: LintFacts): Finding[] {
  return tbs.version === 3
    ? []
    : [error("version.not_3", "version", "A certificate with extensions is version 3.")];
}

function lintSerial({ tbs: { serialNumber } }: LintFacts): Finding[] {
  if (serialNumber.startsWith("-") || /^0+$/.test(serialNumber)) {
    return [error("serial.not_positive", "serialNumber", "A serial number must be positive.")];
  }
  const octets = serialNumber.length / 2;
  // A first digit of 8 or more costs a sign octet.
  const encoded = octets + (/^[89a-f]/.test(serialNumber) ? 1 : 0);
  if (encoded > 20)
    return [error("serial.too_long", "serialNumber", "A serial number has at most 20 octets.")];
  if (octets < 8) return [error("serial.too_short", "serialNumber", "A serial number needs 64 random bits.")];
  return [];
}

function lintSignature({ tbs, issuer, key }: LintFacts): Finding[] {
  const scheme = schemeOfIdentifier(tbs.algorithmIdentifier);
  if (scheme === undefined)
    return [error("signature.unknown", "signatureAlgorithm", "Not an algorithm we sign with.")];
  const signing = issuer === undefined ? key : readPublicKey(issuer.publicKey);
  if (scheme.family !== signing.family) {
    const message = `${scheme.name} cannot be made with the issuer's ${signing.family} key.`;
    return [error("signature.key", "signatureAlgorithm", message)];
  }
  const digestBits = Number(scheme.digest?.slice(3) ?? 512);
  if (signing.family === "ec" && digestBits < Math.min(signing.bits, 512)) {
    const message = `${scheme.name} is weaker than the issuer's ${signing.bits} bit curve.`;
    return [warn("signature.digest", "signatureAlgorithm", message)];
  }
  return [];
}

function lintValidity({ tbs, issuer }: LintFacts): Finding[] {
  const { notBefore, notAfter } = tbs;
  const findings = [...lintTimeForm(notBefore, "notBefore"), ...lintTimeForm(notAfter, "notAfter")];
  if (!(notBefore.at < notAfter.at))
    findings.push(error("validity.order", "notAfter", "It ends before it begins."));
  if (issuer !== undefined && notBefore.at < issuer.notBefore) {
    findings.push(error("validity.before_issuer", "notBefore", "It begins before its issuer does."));
  }
  if (issuer !== undefined && notAfter.at > issuer.notAfter) {
    findings.push(error("validity.after_issuer", "notAfter", "It ends after its issuer does."));
  }
  return findings;
}

function lintTimeForm({ at, form }: DerTime, field: string): Finding[] {
  const year = at.getUTCFullYear();
  const expected = year >= 1950 && year < 2050 ? "UTCTime" : "GeneralizedTime";
  if (form === expected) return [];
  return [
    error("validity.encoding", field, `The year ${year} must be written as ${expected} (RFC 5280 4.1.2.5).`),
  ];
}

function lintIssuer({ tbs, issuer }: LintFacts): Finding[] {
  if (tbs.issuer.rdns.length === 0) return [error("issuer.empty", "issuer", "The issuer must have a name.")];
  if (issuer === undefined) {
    return isSelfIssued(tbs) ? [] : [error("issuer.name", "issuer", "A root names itself as its issuer.")];
  }
  const findings: Finding[] = [];
  if (!tbs.issuer.der.equals(issuer.subject.der)) {
    findings.push(error("issuer.name", "issuer", "The issuer name differs from the issuer's subject."));
  }
  const { basicConstraints, keyUsage } = issuer.extensions;
  if (basicConstraints?.isCa !== true || keyUsage?.includes("key_cert_sign") === false) {
    findings.push(error("issuer.not_ca", "issuer", "The issuer may not sign certificates."));
  }
  return findings;
}

function lintBasicConstraints({ tbs, isCa }: LintFacts): Finding[] {
  const { basicConstraints, all } = tbs.extensions;
  const findings: Finding[] = [];
  if (isCa && all.some((each) => each.oid === OID.basicConstraints && !each.isCritical)) {
    findings.push(
      error("basic_constraints.not_critical", "basicConstraints", "It must be critical in an authority."),
    );
  }
  const ownLength = basicConstraints?.pathLength;
  if (!isCa && ownLength !== undefined) {
    findings.push(
      error("basic_constraints.path_length", "basicConstraints", "Only an authority has a path length."),
    );
  }
  return findings;
}

/** A level too many is refused by every client, so it is an error here; a level that is only not ruled out is not. */
function lintPathLength({ tbs, isCa, levelsBelowIssuer: levels }: LintFacts): Finding[] {
  if (levels === undefined) return [];
  const code = "basic_constraints.issuer_path_length";
  if (levels < 0) return [error(code, "issuer", "The path length of the issuer's own chain is exceeded.")];
  if (!isCa) return [];
  // A self-issued certificate (a key roll-over) uses up no level (RFC 5280 6.1.4).
  const left = isSelfIssued(tbs) ? levels : levels - 1;
  if (left < 0)
    return [error(code, "basicConstraints.pathLength", "The issuer's chain allows no authority below it.")];
  const ownLength = tbs.extensions.basicConstraints?.pathLength;
  if (ownLength !== undefined && ownLength <= left) return [];
  const say = ownLength === undefined ? warn : error;
  const message = `The issuer's chain leaves a path length of at most ${left} to this authority.`;
  return [say("basic_constraints.wider_than_issuer", "basicConstraints.pathLength", message)];
}

function lintKeyIdentifiers({ tbs, issuer, isCa }: LintFacts): Finding[] {
  const { subjectKeyIdentifier, authorityKeyIdentifier, all } = tbs.extensions;
  const findings: Finding[] = [];
  const isMarked = (oid: string): boolean => all.some((each) => each.oid === oid && each.isCritical);
  if (subjectKeyIdentifier === undefined) {
    const finding = isCa ? error : warn;
    findings.push(
      finding("key_identifier.subject", "subjectKeyIdentifier", "The subject key identifier is missing."),
    );
  }
  if (issuer !== undefined) {
    const expected = issuer.extensions.subjectKeyIdentifier;
    if (authorityKeyIdentifier === undefined) {
      findings.push(
        error(
          "key_identifier.authority",
          "authorityKeyIdentifier",
          "The authority key identifier is missing.",
        ),
      );
    } else if (expected !== undefined && !expected.equals(authorityKeyIdentifier)) {
      findings.push(
        error("key_identifier.mismatch", "authorityKeyIdentifier", "It names another key than the issuer's."),
      );
    }
  }
  if (isMarked(OID.subjectKeyIdentifier) || isMarked(OID.authorityKeyIdentifier)) {
    findings.push(error("key_identifier.critical", "extensions", "Key identifiers must not be critical."));
  }
  return findings;
}

function lintExtensionSet({ tbs: { extensions } }: LintFacts): Finding[] {
  return [
    ...extensions.duplicates.map((oid) =>
      error("extension.duplicate", "extensions", `Extension ${oid} occurs twice.`),
    ),
    ...extensions.unknownCritical.map((oid) =>
      error(
        "extension.unknown_critical",
        "extensions",
        `No client understands the critical extension ${oid}.`,
      ),
    ),
  ];
}

/** Fetching a list over TLS needs a certificate whose status needs a list. */
function lintUrls({ tbs: { extensions } }: LintFacts): Finding[] {
  const { crlDistributionPoints = [], authorityInfoAccess } = extensions;
  const urls = [
    ...crlDistributionPoints,
    ...(authorityInfoAccess?.ocspUrls ?? []),
    ...(authorityInfoAccess?.caIssuersUrls ?? []),
  ];
  return urls
    .filter((url) => !/^(http|ldap):/i.test(url))
    .map((url) =>
      warn("urls.scheme", "extensions", `${quote(url)} should be plain http: clients refuse to fetch it.`),
    );
}

const ALL_RULES: readonly LintRule[] = [
  lintVersion,
  lintSerial,
  lintSignature,
  lintValidity,
  lintIssuer,
  lintBasicConstraints,
  lintPathLength,
  lintKeyIdentifiers,
  lintExtensionSet,
  lintUrls,
  ...USAGE_RULES,
  ...NAME_RULES,
];
