// Lint rules about what a key may be used for: whether it can do it, and whether the two usage extensions agree.

import { error, warn, type Finding, type LintFacts, type LintRule } from "./lint-finding.ts";
import { encodeKeyUsage } from "./extensions.ts";
import { OID } from "./oids.ts";
import type { KeyUsage } from "./usages.ts";

/** RFC 8410 and RFC 8813: what a key of each family cannot do, and so must not claim. */
const IMPOSSIBLE: Readonly<Record<LintFacts["key"]["family"], readonly KeyUsage[]>> = {
  rsa: ["key_agreement", "encipher_only", "decipher_only"],
  ec: ["key_encipherment", "data_encipherment"],
  ed25519: ["key_encipherment", "data_encipherment", "key_agreement", "encipher_only", "decipher_only"],
};

function lintKeyAbility({ tbs, key }: LintFacts): Finding[] {
  const claimed = tbs.extensions.keyUsage ?? [];
  return IMPOSSIBLE[key.family]
    .filter((usage) => claimed.includes(usage))
    .map((usage) =>
      error("key_usage.impossible", "keyUsages", `A key of type ${key.family} cannot do ${usage}.`),
    );
}

function lintKeyUsage({ tbs, isCa }: LintFacts): Finding[] {
  const { keyUsage, all } = tbs.extensions;
  if (keyUsage === undefined) {
    return isCa
      ? [error("key_usage.missing", "keyUsages", "An authority must say that its key signs certificates.")]
      : [];
  }
  const findings: Finding[] = [];
  const has = (usage: KeyUsage): boolean => keyUsage.includes(usage);
  if (keyUsage.length === 0)
    findings.push(error("key_usage.empty", "keyUsages", "Key usage must name a use."));
  const written = all.find(({ oid }) => oid === OID.keyUsage);
  if (written?.isCritical === false) {
    findings.push(warn("key_usage.not_critical", "keyUsages", "Key usage should be critical."));
  }
  if (written?.value.equals(encodeKeyUsage(keyUsage)) === false) {
    findings.push(
      error("key_usage.encoding", "keyUsages", "DER cuts the zero bits at the end (X.690 11.2.2)."),
    );
  }
  if (isCa && !has("key_cert_sign")) {
    findings.push(error("key_usage.ca_without_cert_sign", "keyUsages", "An authority needs key_cert_sign."));
  }
  if (!isCa && has("key_cert_sign")) {
    findings.push(
      error("key_usage.cert_sign_without_ca", "keyUsages", "Only an authority may have key_cert_sign."),
    );
  }
  if (!isCa && has("crl_sign")) {
    findings.push(
      warn("key_usage.crl_sign_without_ca", "keyUsages", "Only an authority should have crl_sign."),
    );
  }
  if ((has("encipher_only") || has("decipher_only")) && !has("key_agreement")) {
    findings.push(
      error("key_usage.only_without_agreement", "keyUsages", "encipher_only needs key_agreement."),
    );
  }
  return findings;
}

/** RFC 5280 4.2.1.12: one of these must be set for the purpose to be usable. */
const CONSISTENT_WITH: Readonly<Record<string, readonly KeyUsage[]>> = {
  server_auth: ["digital_signature", "key_encipherment", "key_agreement"],
  client_auth: ["digital_signature", "key_agreement"],
  code_signing: ["digital_signature"],
  email_protection: ["digital_signature", "non_repudiation", "key_encipherment", "key_agreement"],
  time_stamping: ["digital_signature", "non_repudiation"],
  ocsp_signing: ["digital_signature", "non_repudiation"],
};

function lintPurposes({ tbs, isCa }: LintFacts): Finding[] {
  const { extendedKeyUsage, keyUsage, all } = tbs.extensions;
  if (extendedKeyUsage === undefined) return [];
  const findings: Finding[] = [];
  const field = "extendedKeyUsages";
  if (extendedKeyUsage.length === 0)
    findings.push(error("extended_key_usage.empty", field, "It must name a purpose."));
  if (new Set(extendedKeyUsage).size < extendedKeyUsage.length) {
    findings.push(error("extended_key_usage.duplicate", field, "A purpose is named twice."));
  }
  const isCritical = all.some((each) => each.oid === OID.extendedKeyUsage && each.isCritical);
  if (isCritical && extendedKeyUsage.includes("any_purpose")) {
    findings.push(warn("extended_key_usage.any_critical", field, "any_purpose should not be critical."));
  }
  // A CA's extended key usages limit those below it (and say nothing about what its own key does).
  if (isCa) return findings;
  if (extendedKeyUsage.includes("time_stamping") && (!isCritical || extendedKeyUsage.length > 1)) {
    findings.push(
      error(
        "extended_key_usage.time_stamping",
        field,
        "time_stamping must be critical and alone (RFC 3161).",
      ),
    );
  }
  for (const purpose of extendedKeyUsage) {
    const usable = CONSISTENT_WITH[purpose];
    if (keyUsage === undefined || usable === undefined || usable.some((usage) => keyUsage.includes(usage)))
      continue;
    findings.push(
      error("extended_key_usage.key_usage", field, `${purpose} needs the key usage ${usable.join(" or ")}.`),
    );
  }
  return findings;
}

export const USAGE_RULES: readonly LintRule[] = [lintKeyAbility, lintKeyUsage, lintPurposes];
