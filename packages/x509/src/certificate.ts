// Certificates (RFC 5280 4.1): building the part to be signed, signing it, and reading a whole one.
//
// Issuing goes in three steps that the caller can see: `buildTbs` makes the bytes, lint.ts looks at those bytes, and
// `signTbs` signs the very same bytes. `checkTbsMatches` then proves on the finished certificate that what was
// signed is what was looked at, because a lint of something similar is worth nothing.

import { hash } from "node:crypto";
import { schemeFor, schemeOfIdentifier, type SignatureAlgorithm } from "./algorithms.ts";
import * as der from "./der.ts";
import { readDer, type DerReader, type DerTime } from "./der-reader.ts";
import { assertCanonical } from "./der-tree.ts";
import { interpretExtensions, readExtensions, type ExtensionSet } from "./extension-reading.ts";
import type { Extension } from "./extensions.ts";
import { readName, type ParsedName } from "./names.ts";
import { decodePemOf, encodePem, type PemLimits } from "./pem.ts";
import { encodeSerial, readSerial } from "./serials.ts";
import { signBytes, signBytesSync, type SigningKey } from "./signatures.ts";
import { X509Error } from "./x509-error.ts";

export interface CertificateFields {
  readonly serialNumber: string;
  /** DER of the issuer's subject, copied from its certificate and never rebuilt. */
  readonly issuer: Buffer;
  readonly subject: Buffer;
  readonly notBefore: Date;
  readonly notAfter: Date;
  /** SubjectPublicKeyInfo in DER. */
  readonly publicKey: Buffer;
  readonly extensions: readonly Extension[];
}

const VERSION_3 = der.explicit(0, der.integer(2));

export function buildTbs(fields: CertificateFields, algorithm: SignatureAlgorithm): Buffer {
  const { notBefore, notAfter } = fields;
  if (!(notBefore < notAfter)) {
    throw new X509Error("validity.order", "notAfter", "A certificate must begin before it ends.");
  }
  return der.sequence(
    VERSION_3,
    encodeSerial(fields.serialNumber),
    schemeFor(algorithm).identifier,
    fields.issuer,
    der.sequence(der.time(notBefore), der.time(notAfter)),
    fields.subject,
    fields.publicKey,
    der.explicit(3, der.sequenceOf(fields.extensions.map((extension) => extension.der))),
  );
}

/** Any to-be-signed bytes (certificate, CSR, CRL) with their signature around them. */
export function assembleSigned(tbs: Buffer, algorithm: SignatureAlgorithm, signature: Buffer): Buffer {
  return der.sequence(tbs, schemeFor(algorithm).identifier, der.bitString(signature));
}

/** `signer.algorithm` must be the one inside `tbs`; RFC 5280 4.1.1.2 wants them equal. */
export async function signTbs(tbs: Buffer, signer: SigningKey): Promise<Buffer> {
  return assembleSigned(tbs, signer.algorithm, await signBytes(tbs, signer));
}

export const signTbsSync = (tbs: Buffer, signer: SigningKey): Buffer =>
  assembleSigned(tbs, signer.algorithm, signBytesSync(tbs, signer));

export const signCertificate = (fields: CertificateFields, signer: SigningKey): Promise<Buffer> =>
  signTbs(buildTbs(fields, signer.algorithm), signer);

export const signCertificateSync = (fields: CertificateFields, signer: SigningKey): Buffer =>
  signTbsSync(buildTbs(fields, signer.algorithm), signer);

/** Throws unless the certificate holds exactly these to-be-signed bytes and names the same algorithm twice. */
export function checkTbsMatches(certificate: Buffer, tbs: Buffer, parsed?: TbsCertificate): void {
  const signed = readSigned(certificate);
  if (!signed.tbs.equals(tbs)) {
    throw new X509Error(
      "tbs.differs",
      "certificate",
      "The signed certificate differs from the one that was checked.",
    );
  }
  const { algorithmIdentifier } = parsed ?? readTbs(signed.tbs);
  if (!algorithmIdentifier.equals(signed.algorithmIdentifier)) throw algorithmsDiffer();
}

const algorithmsDiffer = (): X509Error =>
  new X509Error(
    "signature_algorithm.differs",
    "certificate",
    "The two signature algorithms of the certificate differ.",
  );

export interface TbsCertificate {
  readonly version: number;
  readonly serialNumber: string;
  readonly algorithmIdentifier: Buffer;
  readonly issuer: ParsedName;
  readonly notBefore: DerTime;
  readonly notAfter: DerTime;
  readonly subject: ParsedName;
  readonly publicKey: Buffer;
  readonly extensions: ExtensionSet;
}

export interface Certificate {
  readonly der: Buffer;
  readonly tbs: Buffer;
  readonly version: number;
  readonly serialNumber: string;
  readonly issuer: ParsedName;
  readonly subject: ParsedName;
  readonly notBefore: Date;
  readonly notAfter: Date;
  /** SubjectPublicKeyInfo in DER. */
  readonly publicKey: Buffer;
  readonly extensions: ExtensionSet;
  readonly algorithmIdentifier: Buffer;
  /** Undefined when signed with something we do not use, such as SHA-1 or DSA. */
  readonly signatureAlgorithm: SignatureAlgorithm | undefined;
  readonly signature: Buffer;
}

interface SignedParts {
  readonly tbs: Buffer;
  readonly algorithmIdentifier: Buffer;
  readonly signature: Buffer;
}

/** The outer structure that certificates, CSRs and CRLs share. */
export function readSigned(bytes: Buffer, limits?: Parameters<typeof readDer>[2]): SignedParts {
  return readDer(
    bytes,
    (reader) =>
      reader.sequence((fields) => ({
        tbs: fields.element(der.TAG.sequence),
        algorithmIdentifier: fields.element(der.TAG.sequence),
        signature: fields.octetsInBitString(),
      })),
    limits,
  );
}

export function parseCertificate(bytes: Buffer): Certificate {
  assertCanonical(bytes);
  const { tbs, algorithmIdentifier, signature } = readSigned(bytes);
  const { notBefore, notAfter, ...fields } = readTbs(tbs);
  if (!fields.algorithmIdentifier.equals(algorithmIdentifier)) throw algorithmsDiffer();
  const signatureAlgorithm = schemeOfIdentifier(algorithmIdentifier)?.name;
  return {
    der: bytes,
    tbs,
    ...fields,
    notBefore: notBefore.at,
    notAfter: notAfter.at,
    signatureAlgorithm,
    signature,
  };
}

export function readTbs(tbs: Buffer): TbsCertificate {
  return readDer(tbs, (reader) =>
    reader.sequence((fields) => {
      const version = readVersion(fields);
      return {
        version,
        serialNumber: readSerial(fields),
        algorithmIdentifier: fields.element(der.TAG.sequence),
        issuer: readName(fields),
        ...fields.sequence((validity) => ({ notBefore: validity.time(), notAfter: validity.time() })),
        subject: readName(fields),
        publicKey: fields.element(der.TAG.sequence),
        extensions: readTbsExtensions(fields, version),
      };
    }),
  );
}

function readVersion(fields: DerReader): number {
  const tag = der.contextConstructedTag(0);
  const version = fields.optional(tag, (each) => each.within(tag, (inside) => inside.smallInteger()));
  if (version === undefined) return 1;
  // v1 is the default and so must not be written out.
  if (version !== 1 && version !== 2) throw fields.error("a certificate version other than 1, 2 or 3");
  return version + 1;
}

function readTbsExtensions(fields: DerReader, version: number): ExtensionSet {
  // issuerUniqueID and subjectUniqueID: forbidden to write since RFC 5280, still legal to read.
  fields.optional(der.contextTag(1), (each) => each.bitString(der.contextTag(1)));
  fields.optional(der.contextTag(2), (each) => each.bitString(der.contextTag(2)));
  const tag = der.contextConstructedTag(3);
  // A reader that stops at the version would not see them, so an older version must not have any.
  if (fields.nextTag === tag && version !== 3) throw fields.error("extensions before version 3");
  return fields.optional(tag, (each) => each.within(tag, readExtensions)) ?? interpretExtensions([]);
}

export const certificateToPem = (certificate: Buffer): string => encodePem("CERTIFICATE", certificate);

/** Every certificate in a PEM text, in order; other blocks are skipped. */
export const certificatesFromPem = (text: string, limits?: PemLimits): Certificate[] =>
  decodePemOf("CERTIFICATE", text, limits).map(parseCertificate);

interface Fingerprints {
  readonly sha1: string;
  readonly sha256: string;
}

export function fingerprintsOf(certificate: Buffer): Fingerprints {
  const digest = (name: string): string => hash(name, certificate, "hex");
  return { sha1: digest("sha1"), sha256: digest("sha256") };
}

/** Subject and issuer are the same name; whether the signature is its own is another question. */
export const isSelfIssued = ({ subject, issuer }: Pick<Certificate, "subject" | "issuer">): boolean =>
  subject.der.equals(issuer.der);
