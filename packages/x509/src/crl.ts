// Certificate revocation lists, CRLs (RFC 5280 5). An entry is encoded once, when the certificate is revoked, and stored;
// a list is then little more than a concatenation and one signature, so its cost does not depend on history.

import { schemeFor, schemeOfIdentifier, type SignatureAlgorithm } from "./algorithms.ts";
import { assembleSigned, readSigned } from "./certificate.ts";
import * as der from "./der.ts";
import { readDer, type DerLimits, type DerReader } from "./der-reader.ts";
import { readAuthorityKeyIdentifier, readDistributionPointName, readExtension } from "./extension-reading.ts";
import {
  authorityKeyIdentifier,
  distributionPointName,
  makeExtension,
  type Extension,
} from "./extensions.ts";
import { readName, type ParsedName } from "./names.ts";
import { OID } from "./oids.ts";
import { encodePem } from "./pem.ts";
import { encodeSerial, readSerial } from "./serials.ts";
import { signBytes, type SigningKey } from "./signatures.ts";
import { X509Error } from "./x509-error.ts";

/** CRLReason codes, in the words of the wire (RFC 5280 5.3.1; 7 is not used). */
export const REVOCATION_REASONS = {
  UNSPECIFIED: 0,
  KEY_COMPROMISE: 1,
  CA_COMPROMISE: 2,
  AFFILIATION_CHANGED: 3,
  SUPERSEDED: 4,
  CESSATION_OF_OPERATION: 5,
  CERTIFICATE_HOLD: 6,
  REMOVE_FROM_CRL: 8,
  PRIVILEGE_WITHDRAWN: 9,
  A_A_COMPROMISE: 10,
} as const;
export type RevocationReason = keyof typeof REVOCATION_REASONS;

const reasonByCode = new Map<number, string>(
  Object.entries(REVOCATION_REASONS).map(([name, code]) => [code, name]),
);

export function reasonOfCode(code: number): RevocationReason | undefined {
  return reasonByCode.get(code) as RevocationReason | undefined;
}

interface RevokedEntry {
  readonly serialNumber: string;
  readonly revokedAt: Date;
  readonly reason: RevocationReason;
}

/** The bytes to store beside the certificate. "Unspecified" is said by silence; the reason is never critical. */
export function encodeEntry({ serialNumber, revokedAt, reason }: RevokedEntry): Buffer {
  const serial = encodeSerial(serialNumber);
  const at = der.time(revokedAt);
  if (reason === "UNSPECIFIED") return der.sequence(serial, at);
  return der.sequence(serial, at, encodeReason(reason));
}

const reasonExtensions = new Map<RevocationReason, Buffer>();

/** The entry extensions for a reason; there are ten of them, so each is made once. */
function encodeReason(reason: RevocationReason): Buffer {
  const known = reasonExtensions.get(reason);
  if (known !== undefined) return known;
  const made = makeExtension(OID.reasonCode, false, der.enumerated(REVOCATION_REASONS[reason]));
  const extensions = der.sequence(made.der);
  reasonExtensions.set(reason, extensions);
  return extensions;
}

interface IssuingDistributionPoint {
  /** The very URLs that the certificates name, or none for a list that covers everything. */
  readonly urls: readonly string[];
  readonly covers: "all" | "user_certificates" | "ca_certificates";
}

export interface CrlFields {
  /** DER of the CA's subject. */
  readonly issuer: Buffer;
  readonly thisUpdate: Date;
  readonly nextUpdate: Date;
  /** Strictly rising, at most 20 octets. */
  readonly number: bigint;
  readonly authorityKeyIdentifier: Buffer;
  readonly issuingDistributionPoint?: IssuingDistributionPoint | undefined;
  /** Encoded entries, one or many per buffer. */
  readonly entries: readonly Buffer[];
}

const VERSION_2 = der.integer(1);

export async function signCrl(fields: CrlFields, signer: SigningKey): Promise<Buffer> {
  const tbs = buildCrlTbs(fields, signer.algorithm);
  return assembleSigned(tbs, signer.algorithm, await signBytes(tbs, signer));
}

export function buildCrlTbs(fields: CrlFields, algorithm: SignatureAlgorithm): Buffer {
  if (!(fields.thisUpdate < fields.nextUpdate)) {
    throw new X509Error("crl.validity", "nextUpdate", "The next update must come after this one.");
  }
  if (fields.number < 0n || fields.number >= 1n << 159n) {
    throw new X509Error("crl.number", "number", "A CRL number is not negative and has at most 20 octets.");
  }
  const extensions = [
    authorityKeyIdentifier(fields.authorityKeyIdentifier),
    makeExtension(OID.crlNumber, false, der.integer(fields.number)),
  ];
  if (fields.issuingDistributionPoint !== undefined)
    extensions.push(encodeIdp(fields.issuingDistributionPoint));
  return der.sequence(
    VERSION_2,
    schemeFor(algorithm).identifier,
    fields.issuer,
    der.time(fields.thisUpdate),
    der.time(fields.nextUpdate),
    // An empty list of entries must be absent, not empty (RFC 5280 5.1.2.6).
    fields.entries.some((entry) => entry.length > 0) ? der.sequenceOf(fields.entries) : Buffer.alloc(0),
    der.explicit(0, der.sequenceOf(extensions.map((extension) => extension.der))),
  );
}

function encodeIdp({ urls, covers }: IssuingDistributionPoint): Extension {
  const flag = Buffer.from([0xff]);
  const parts: Buffer[] = [];
  if (urls.length > 0) parts.push(der.explicit(0, distributionPointName(urls)));
  if (covers === "user_certificates") parts.push(der.tlv(der.contextTag(1), flag));
  if (covers === "ca_certificates") parts.push(der.tlv(der.contextTag(2), flag));
  if (parts.length === 0)
    throw new X509Error("crl.idp", "issuingDistributionPoint", "It must say something.");
  return makeExtension(OID.issuingDistributionPoint, true, der.sequenceOf(parts));
}

export interface CrlTbs {
  readonly algorithmIdentifier: Buffer;
  readonly issuer: ParsedName;
  readonly thisUpdate: Date;
  readonly nextUpdate: Date | undefined;
  readonly entries: readonly RevokedEntry[];
  readonly number: bigint | undefined;
  readonly authorityKeyIdentifier: Buffer | undefined;
  readonly issuingDistributionPoint: IssuingDistributionPoint | undefined;
  readonly unknownCritical: readonly string[];
}

interface RevocationList extends CrlTbs {
  readonly der: Buffer;
  readonly tbs: Buffer;
  readonly signatureAlgorithm: SignatureAlgorithm | undefined;
  readonly signature: Buffer;
}

/** A list of a million entries has about 40 MB. */
const CRL_LIMITS: DerLimits = { maxBytes: 64 << 20, maxDepth: 24 };

/** Costs some microseconds per entry, at once: large lists belong in a worker. */
export function parseCrl(bytes: Buffer, limits: DerLimits = CRL_LIMITS): RevocationList {
  const { tbs, algorithmIdentifier, signature } = readSigned(bytes, limits);
  const fields = readCrlTbs(tbs, limits);
  if (!fields.algorithmIdentifier.equals(algorithmIdentifier)) {
    throw new X509Error(
      "signature_algorithm.differs",
      "crl",
      "The two signature algorithms of the list differ.",
    );
  }
  return {
    der: bytes,
    tbs,
    ...fields,
    signatureAlgorithm: schemeOfIdentifier(algorithmIdentifier)?.name,
    signature,
  };
}

export function readCrlTbs(tbs: Buffer, limits: DerLimits = CRL_LIMITS): CrlTbs {
  return readDer(tbs, (reader) => reader.sequence(readCrlFields), limits);
}

function readCrlFields(fields: DerReader): CrlTbs {
  const version = fields.optional(der.TAG.integer, (each) => each.smallInteger());
  if (version !== undefined && version !== 1) throw fields.error("a list of an unknown version");
  const algorithmIdentifier = fields.element(der.TAG.sequence);
  const issuer = readName(fields);
  const thisUpdate = fields.time().at;
  const isTime = fields.nextTag === der.TAG.utcTime || fields.nextTag === der.TAG.generalizedTime;
  const nextUpdate = isTime ? fields.time().at : undefined;
  const entries = fields.optional(der.TAG.sequence, (each) => each.list(der.TAG.sequence, readEntry));
  if (entries?.length === 0) throw fields.error("an empty list of entries must be left out");
  const tag = der.contextConstructedTag(0);
  const extensions = fields.optional(tag, (each) =>
    each.within(tag, (inside) => inside.list(der.TAG.sequence, readExtension)),
  );
  const times = { thisUpdate, nextUpdate };
  return {
    algorithmIdentifier,
    issuer,
    ...times,
    entries: entries ?? [],
    ...readCrlExtensions(extensions ?? []),
  };
}

function readEntry(reader: DerReader): RevokedEntry {
  return reader.sequence((fields) => {
    const serialNumber = readSerial(fields);
    const revokedAt = fields.time().at;
    const extensions = fields.optional(der.TAG.sequence, (each) =>
      each.list(der.TAG.sequence, readExtension),
    );
    const strange = extensions?.find((each) => each.isCritical && each.oid !== OID.reasonCode);
    if (strange !== undefined)
      throw fields.error(`an entry with the unknown critical extension ${strange.oid}`);
    const reason = extensions?.find((each) => each.oid === OID.reasonCode);
    return { serialNumber, revokedAt, reason: reason === undefined ? "UNSPECIFIED" : readReason(reason) };
  });
}

function readReason(extension: Extension): RevocationReason {
  return readDer(extension.value, (reader) => {
    const reason = reasonOfCode(reader.smallInteger(der.TAG.enumerated));
    if (reason === undefined) throw reader.error("a revocation reason without a meaning");
    return reason;
  });
}

function readCrlExtensions(extensions: readonly Extension[]) {
  const read = <T>(oid: string, decode: (reader: DerReader) => T): T | undefined => {
    const found = extensions.find((extension) => extension.oid === oid);
    return found === undefined ? undefined : readDer(found.value, decode);
  };
  const isUnknown = ({ oid, isCritical }: Extension): boolean =>
    isCritical && oid !== OID.issuingDistributionPoint;
  return {
    number: read(OID.crlNumber, (reader) => reader.integer()),
    authorityKeyIdentifier: read(OID.authorityKeyIdentifier, readAuthorityKeyIdentifier),
    issuingDistributionPoint: read(OID.issuingDistributionPoint, readIdp),
    unknownCritical: extensions.filter(isUnknown).map(({ oid }) => oid),
  };
}

function readIdp(reader: DerReader): IssuingDistributionPoint {
  return reader.sequence((fields) => {
    const tag = der.contextConstructedTag(0);
    const urls = fields.optional(tag, (each) => each.within(tag, readDistributionPointName)) ?? [];
    const isUser = fields.defaultFalse(der.contextTag(1));
    const isCa = fields.defaultFalse(der.contextTag(2));
    // Partial reasons, indirect lists and attribute certificates change what an absent entry means.
    if (!fields.isDone) throw fields.error("an issuing distribution point of a kind that is not supported");
    return { urls, covers: isUser ? "user_certificates" : isCa ? "ca_certificates" : "all" };
  });
}

export const crlToPem = (crl: Buffer): string => encodePem("X509 CRL", crl);
