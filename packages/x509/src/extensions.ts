// Certificate extensions, the writing half (RFC 5280 4.2). A built extension carries its own DER, so what is the
// same in every certificate of an authority (key identifier, distribution points, policies) is encoded once and
// reused; reading is in extension-reading.ts.

import * as der from "./der.ts";
import { encodeGeneralName, type GeneralName } from "./general-names.ts";
import { OID } from "./oids.ts";
import { extendedKeyUsageOid, KEY_USAGES, type ExtendedKeyUsageName, type KeyUsage } from "./usages.ts";
import { X509Error } from "./x509-error.ts";

export interface Extension {
  readonly oid: string;
  readonly isCritical: boolean;
  /** What the extnValue OCTET STRING holds. */
  readonly value: Buffer;
  /** The complete Extension SEQUENCE. */
  readonly der: Buffer;
}

export function makeExtension(oid: string, isCritical: boolean, value: Buffer): Extension {
  const parts = [der.oid(oid), ...(isCritical ? [CRITICAL] : []), der.octetString(value)];
  return { oid, isCritical, value, der: der.sequenceOf(parts) };
}

const CRITICAL = der.boolean(true);

export interface BasicConstraints {
  readonly isCa: boolean;
  readonly pathLength?: number | undefined;
}

export function basicConstraints({ isCa, pathLength }: BasicConstraints): Extension {
  if (pathLength !== undefined && (!isCa || !Number.isInteger(pathLength) || pathLength < 0)) {
    const message = "A path length is a whole number from 0, and only authorities have one.";
    throw new X509Error("basic_constraints.path_length", "basicConstraints", message);
  }
  const fields = isCa ? [der.boolean(true)] : [];
  if (pathLength !== undefined) fields.push(der.integer(pathLength));
  return makeExtension(OID.basicConstraints, true, der.sequenceOf(fields));
}

export function keyUsage(usages: readonly KeyUsage[]): Extension {
  if (usages.length === 0)
    throw new X509Error("key_usage.empty", "keyUsages", "Key usage must name at least one use.");
  return makeExtension(OID.keyUsage, true, encodeKeyUsage(usages));
}

export const encodeKeyUsage = (usages: readonly KeyUsage[]): Buffer =>
  der.namedBits(usages.map((usage) => KEY_USAGES.indexOf(usage)));

export function extendedKeyUsage(usages: readonly ExtendedKeyUsageName[], isCritical = false): Extension {
  if (usages.length === 0) {
    throw new X509Error(
      "extended_key_usage.empty",
      "extendedKeyUsages",
      "Extended key usage must name at least one use.",
    );
  }
  const oids = new Set(usages.map(extendedKeyUsageOid));
  return makeExtension(OID.extendedKeyUsage, isCritical, der.sequenceOf([...oids].map(der.oid)));
}

/** Critical exactly when the subject is empty, since then it alone says whose certificate this is. */
export function subjectAltName(names: readonly GeneralName[], isSubjectEmpty: boolean): Extension {
  if (names.length === 0)
    throw new X509Error("san.empty", "altNames", "A subject alternative name must hold a name.");
  return makeExtension(OID.subjectAltName, isSubjectEmpty, der.sequenceOf(names.map(encodeGeneralName)));
}

export const subjectKeyIdentifier = (identifier: Buffer): Extension =>
  makeExtension(OID.subjectKeyIdentifier, false, der.octetString(identifier));

/** By key identifier alone: naming issuer and serial would break when the authority is renewed. */
export const authorityKeyIdentifier = (identifier: Buffer): Extension =>
  makeExtension(OID.authorityKeyIdentifier, false, der.sequence(der.tlv(der.contextTag(0), identifier)));

/** One distribution point; the addresses are alternatives for the same list. */
export function crlDistributionPoints(urls: readonly string[]): Extension {
  const point = der.sequence(der.explicit(0, distributionPointName(urls)));
  return makeExtension(OID.crlDistributionPoints, false, der.sequence(point));
}

/** DistributionPointName as fullName; the IssuingDistributionPoint of a CRL must repeat these very bytes. */
export function distributionPointName(urls: readonly string[]): Buffer {
  if (urls.length === 0)
    throw new X509Error("crl_urls.empty", "crlDistributionPointUrls", "A URL is needed.");
  return der.explicit(0, ...urls.map((value) => encodeGeneralName({ type: "uri", value })));
}

export interface AuthorityAccess {
  readonly ocspUrls: readonly string[];
  readonly caIssuersUrls: readonly string[];
}

export function authorityInfoAccess({ ocspUrls, caIssuersUrls }: AuthorityAccess): Extension {
  const describe = (method: string) => (value: string) =>
    der.sequence(der.oid(method), encodeGeneralName({ type: "uri", value }));
  const descriptions = [
    ...ocspUrls.map(describe(OID.accessOcsp)),
    ...caIssuersUrls.map(describe(OID.accessCaIssuers)),
  ];
  if (descriptions.length === 0) throw new X509Error("aia.empty", "authorityInfoAccess", "A URL is needed.");
  return makeExtension(OID.authorityInfoAccess, false, der.sequenceOf(descriptions));
}

export interface PolicyInformation {
  readonly oid: string;
  readonly cpsUri?: string | undefined;
}

export function certificatePolicies(policies: readonly PolicyInformation[]): Extension {
  const described = policies.map(({ oid, cpsUri }) => {
    if (cpsUri === undefined) return der.sequence(der.oid(oid));
    const qualifier = der.sequence(der.oid(OID.policyQualifierCps), der.ia5String(cpsUri));
    return der.sequence(der.oid(oid), der.sequence(qualifier));
  });
  if (described.length === 0)
    throw new X509Error("policies.empty", "certificatePolicies", "A policy is needed.");
  return makeExtension(OID.certificatePolicies, false, der.sequenceOf(described));
}

/** RFC 6960 4.2.2.2.1: clients need not ask about the revocation of a short-lived OCSP responder. */
export const ocspNoCheck = (): Extension => makeExtension(OID.ocspNoCheck, false, der.nullValue());
