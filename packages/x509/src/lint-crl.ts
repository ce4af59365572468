// Linting a CRL before it is signed: the same idea as lint.ts, on the same kind of bytes. A CRL that
// clients refuse is as bad as none, because they then either trust what was revoked or stop working.

import { schemeOfIdentifier } from "./algorithms.ts";
import type { Certificate } from "./certificate.ts";
import { readCrlTbs, type CrlTbs } from "./crl.ts";
import { DerError } from "./der.ts";
import { readPublicKey } from "./keys.ts";
import { error, warn, type Finding } from "./lint-finding.ts";

export interface CrlExpectations {
  /** The number of the previous CRL. */
  readonly previousNumber?: bigint | undefined;
  /** Longest time to the next update that does not earn a warning. */
  readonly maxDays?: number | undefined;
}

const DAY = 86_400_000;
/** Lists begin a little before they are made, for clients whose clocks lag: so much younger may an entry be. */
const SET_BACK = 300_000;

export function lintCrl(tbs: Buffer, issuer: Certificate, expectations: CrlExpectations = {}): Finding[] {
  try {
    const list = readCrlTbs(tbs);
    return [
      ...lintHead(list, issuer),
      ...lintNumber(list, expectations),
      ...lintTimes(list, expectations),
      ...lintEntries(list),
    ];
  } catch (cause) {
    if (cause instanceof DerError) return [error("encoding.der", "crl", `Not DER: ${cause.message}.`)];
    throw cause;
  }
}

function lintHead(list: CrlTbs, { subject, extensions, publicKey }: Certificate): Finding[] {
  const findings: Finding[] = [];
  if (!list.issuer.der.equals(subject.der)) {
    findings.push(error("crl.issuer", "issuer", "The issuer name differs from the authority's subject."));
  }
  if (extensions.keyUsage?.includes("crl_sign") === false) {
    findings.push(error("crl.key_usage", "issuer", "The authority may not sign revocation lists."));
  }
  if (schemeOfIdentifier(list.algorithmIdentifier)?.family !== readPublicKey(publicKey).family) {
    findings.push(
      error("crl.signature", "signatureAlgorithm", "The authority's key cannot make this signature."),
    );
  }
  const expected = extensions.subjectKeyIdentifier;
  if (list.authorityKeyIdentifier === undefined) {
    findings.push(
      error("crl.key_identifier", "authorityKeyIdentifier", "The authority key identifier is missing."),
    );
  } else if (expected !== undefined && !expected.equals(list.authorityKeyIdentifier)) {
    findings.push(
      error("crl.key_identifier", "authorityKeyIdentifier", "It names another key than the authority's."),
    );
  }
  for (const oid of list.unknownCritical) {
    findings.push(
      error("crl.unknown_critical", "extensions", `No client understands the critical extension ${oid}.`),
    );
  }
  return findings;
}

function lintNumber({ number }: CrlTbs, { previousNumber }: CrlExpectations): Finding[] {
  if (number === undefined)
    return [error("crl.number_missing", "number", "A revocation list must have a number.")];
  if (number < 0n || number >= 1n << 159n) {
    return [error("crl.number_range", "number", "The number is not negative and has at most 20 octets.")];
  }
  // Clients keep the CRL with the highest number: one whose number does not rise is never used.
  if (previousNumber === undefined || number > previousNumber) return [];
  return [error("crl.number_order", "number", `The number must rise above ${previousNumber}.`)];
}

function lintTimes({ thisUpdate, nextUpdate }: CrlTbs, { maxDays }: CrlExpectations): Finding[] {
  if (nextUpdate === undefined)
    return [error("crl.next_update", "nextUpdate", "The next update is missing.")];
  if (!(thisUpdate < nextUpdate))
    return [error("crl.next_update", "nextUpdate", "It must come after this update.")];
  if (maxDays === undefined || nextUpdate.getTime() - thisUpdate.getTime() <= maxDays * DAY) return [];
  return [warn("crl.too_long", "nextUpdate", `A list should be replaced within ${maxDays} days.`)];
}

function lintEntries({ entries, thisUpdate }: CrlTbs): Finding[] {
  const findings: Finding[] = [];
  const seen = new Set<string>();
  for (const { serialNumber, revokedAt, reason } of entries) {
    if (seen.has(serialNumber))
      findings.push(error("crl.duplicate", "entries", `${serialNumber} is listed twice.`));
    seen.add(serialNumber);
    if (revokedAt.getTime() > thisUpdate.getTime() + SET_BACK) {
      findings.push(
        error("crl.future_entry", "entries", `${serialNumber} is revoked after the list was made.`),
      );
    }
    if (reason === "REMOVE_FROM_CRL") {
      findings.push(
        error("crl.remove_in_full", "entries", `${serialNumber}: only a delta list removes entries.`),
      );
    }
  }
  return findings;
}
