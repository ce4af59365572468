// Certificate extensions, the reading half. Every extension we know is decoded; the others are kept whole and,
// when critical, named in `unknownCritical`, because RFC 5280 4.2 forbids using a certificate whose critical
// extension one does not understand.

import * as der from "./der.ts";
import { readDer, type DerReader } from "./der-reader.ts";
import type { AuthorityAccess, BasicConstraints, Extension, PolicyInformation } from "./extensions.ts";
import { readGeneralName, readGeneralNames, type GeneralName } from "./general-names.ts";
import { readNameConstraints, type NameConstraints } from "./name-constraints.ts";
import { OID } from "./oids.ts";
import { extendedKeyUsageName, KEY_USAGES, type KeyUsage } from "./usages.ts";

export interface ExtensionSet {
  readonly all: readonly Extension[];
  readonly unknownCritical: readonly string[];
  /** Object identifiers that occur twice: RFC 5280 forbids it, and readers differ on which one counts. */
  readonly duplicates: readonly string[];
  readonly basicConstraints: BasicConstraints | undefined;
  readonly keyUsage: readonly KeyUsage[] | undefined;
  readonly extendedKeyUsage: readonly string[] | undefined;
  readonly subjectAltName: readonly GeneralName[] | undefined;
  readonly subjectKeyIdentifier: Buffer | undefined;
  readonly authorityKeyIdentifier: Buffer | undefined;
  readonly crlDistributionPoints: readonly string[] | undefined;
  readonly authorityInfoAccess: AuthorityAccess | undefined;
  readonly certificatePolicies: readonly PolicyInformation[] | undefined;
  readonly nameConstraints: NameConstraints | undefined;
}

/**
 * Understood when critical: those verify-chain.ts acts on. Policies are among them because without an initial policy
 * set they limit nothing; the extensions that would enforce them (policy constraints) are not, and so refuse.
 */
const UNDERSTOOD: ReadonlySet<string> = new Set([
  OID.basicConstraints,
  OID.keyUsage,
  OID.extendedKeyUsage,
  OID.subjectAltName,
  OID.nameConstraints,
  OID.certificatePolicies,
]);

/** `Extensions ::= SEQUENCE OF Extension`. */
export function readExtensions(reader: DerReader): ExtensionSet {
  return interpretExtensions(reader.list(der.TAG.sequence, readExtension));
}

/** Also used for the extensions of revocation lists and OCSP requests, which have the same shape. */
export function readExtension(reader: DerReader): Extension {
  const { value, bytes } = reader.capture((each) =>
    each.sequence((fields) => ({
      oid: fields.oid(),
      isCritical: fields.defaultFalse(),
      value: fields.octetString(),
    })),
  );
  return { ...value, der: bytes };
}

export function interpretExtensions(all: readonly Extension[]): ExtensionSet {
  const byOid = new Map<string, Extension>();
  const duplicates: string[] = [];
  for (const extension of all) {
    if (byOid.has(extension.oid)) duplicates.push(extension.oid);
    else byOid.set(extension.oid, extension);
  }
  const read = <T>(oid: string, decode: (reader: DerReader) => T): T | undefined => {
    const extension = byOid.get(oid);
    return extension === undefined ? undefined : readDer(extension.value, decode);
  };
  return {
    all,
    duplicates,
    unknownCritical: all.filter((each) => each.isCritical && !UNDERSTOOD.has(each.oid)).map(({ oid }) => oid),
    basicConstraints: read(OID.basicConstraints, readBasicConstraints),
    keyUsage: read(OID.keyUsage, readKeyUsage),
    extendedKeyUsage: read(OID.extendedKeyUsage, readExtendedKeyUsage),
    subjectAltName: read(OID.subjectAltName, (reader) => readGeneralNames(reader)),
    subjectKeyIdentifier: read(OID.subjectKeyIdentifier, (reader) => reader.octetString()),
    authorityKeyIdentifier: read(OID.authorityKeyIdentifier, readAuthorityKeyIdentifier),
    crlDistributionPoints: read(OID.crlDistributionPoints, readCrlDistributionPoints),
    authorityInfoAccess: read(OID.authorityInfoAccess, readAuthorityInfoAccess),
    certificatePolicies: read(OID.certificatePolicies, readCertificatePolicies),
    nameConstraints: read(OID.nameConstraints, readNameConstraints),
  };
}

function readBasicConstraints(reader: DerReader): BasicConstraints {
  return reader.sequence((fields) => {
    const isCa = fields.defaultFalse();
    const pathLength = fields.optional(der.TAG.integer, (each) => each.smallInteger());
    if (pathLength !== undefined && pathLength < 0) throw fields.error("a path length below zero");
    return { isCa, pathLength };
  });
}

function readKeyUsage(reader: DerReader): KeyUsage[] {
  return reader.namedBits().map((bit) => {
    const usage = KEY_USAGES[bit];
    if (usage === undefined) throw reader.error("a key usage bit without a meaning");
    return usage;
  });
}

function readExtendedKeyUsage(reader: DerReader): string[] {
  return reader.list(der.TAG.sequence, (list) => extendedKeyUsageName(list.oid()));
}

/** Only the key identifier is kept; issuer and serial are legal beside it and unused. */
export function readAuthorityKeyIdentifier(reader: DerReader): Buffer | undefined {
  return reader.sequence((fields) => {
    const identifier = fields.optional(der.contextTag(0), (each) => each.octetString(der.contextTag(0)));
    fields.optional(der.contextConstructedTag(1), (each) => each.element());
    fields.optional(der.contextTag(2), (each) => each.integerContent(der.contextTag(2)));
    return identifier;
  });
}

function readCrlDistributionPoints(reader: DerReader): string[] {
  const points = reader.list(der.TAG.sequence, (list) =>
    list.sequence((fields) => {
      const urls = fields.optional(der.contextConstructedTag(0), (each) =>
        each.within(der.contextConstructedTag(0), readDistributionPointName),
      );
      fields.optional(der.contextTag(1), (each) => each.bitString(der.contextTag(1)));
      fields.optional(der.contextConstructedTag(2), (each) => each.element());
      return urls ?? [];
    }),
  );
  return points.flat();
}

/** The URLs of a fullName; a name relative to the issuer is legal, unused and read as no URL. */
export function readDistributionPointName(reader: DerReader): string[] {
  if (reader.nextTag !== der.contextConstructedTag(0)) {
    reader.element(der.contextConstructedTag(1));
    return [];
  }
  return readGeneralNames(reader, der.contextConstructedTag(0)).flatMap((name) =>
    name.type === "uri" ? [name.value] : [],
  );
}

function readAuthorityInfoAccess(reader: DerReader): AuthorityAccess {
  const ocspUrls: string[] = [];
  const caIssuersUrls: string[] = [];
  reader.list(der.TAG.sequence, (list) => {
    const { method, location } = list.sequence((fields) => ({
      method: fields.oid(),
      location: readGeneralName(fields),
    }));
    if (location.type !== "uri") return;
    if (method === OID.accessOcsp) ocspUrls.push(location.value);
    if (method === OID.accessCaIssuers) caIssuersUrls.push(location.value);
  });
  return { ocspUrls, caIssuersUrls };
}

function readCertificatePolicies(reader: DerReader): PolicyInformation[] {
  return reader.list(der.TAG.sequence, (list) =>
    list.sequence((fields) => {
      const oid = fields.oid();
      const qualifiers = fields.optional(der.TAG.sequence, (each) =>
        each.list(der.TAG.sequence, readQualifier),
      );
      return { oid, cpsUri: qualifiers?.find((uri) => uri !== undefined) };
    }),
  );
}

function readQualifier(reader: DerReader): string | undefined {
  return reader.sequence((fields) => {
    if (fields.oid() === OID.policyQualifierCps) return fields.ia5String();
    fields.element();
    return undefined;
  });
}
