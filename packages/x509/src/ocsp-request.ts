// OCSP requests (RFC 6960 4.1). A request names certificates by hashes of their issuer and a serial number. The
// bytes of each CertID are kept, because the answer must repeat them as they came.

import { hash as digestOf } from "node:crypto";
import * as der from "./der.ts";
import { readDer, type DerLimits, type DerReader } from "./der-reader.ts";
import { readExtension } from "./extension-reading.ts";
import { makeExtension, type Extension } from "./extensions.ts";
import { keyBits } from "./keys.ts";
import { OID } from "./oids.ts";
import { decodeBase64 } from "./pem.ts";
import { encodeSerial, readSerial } from "./serials.ts";

export type CertIdHash = "sha1" | "sha256";

export interface CertId {
  readonly der: Buffer;
  /** Undefined for a digest we do not answer to. */
  readonly hash: CertIdHash | undefined;
  readonly issuerNameHash: Buffer;
  readonly issuerKeyHash: Buffer;
  readonly serialNumber: string;
}

export interface OcspRequest {
  readonly certIds: readonly CertId[];
  readonly nonce: Buffer | undefined;
}

const OCSP_LIMITS: DerLimits = { maxBytes: 16 * 1024, maxDepth: 16 };
const MAX_CERT_IDS = 64;
/** RFC 9654 allows 128 octets; RFC 8954 had 32. */
const MAX_NONCE_OCTETS = 128;

/** Throws DerError for anything that deserves the answer malformedRequest. */
export function parseOcspRequest(bytes: Buffer): OcspRequest {
  return readDer(
    bytes,
    (reader) =>
      reader.sequence((whole) => {
        const request = whole.sequence(readTbsRequest);
        // A signature on the request would need a client registry to mean anything; it is read over.
        whole.optional(der.contextConstructedTag(0), (each) => each.element());
        return request;
      }),
    OCSP_LIMITS,
  );
}

function readTbsRequest(fields: DerReader): OcspRequest {
  const version = der.contextConstructedTag(0);
  if (fields.nextTag === version) throw fields.error("a request of an unknown version");
  fields.optional(der.contextConstructedTag(1), (each) => each.element());
  const certIds = fields.list(der.TAG.sequence, readSingleRequest);
  if (certIds.length === 0 || certIds.length > MAX_CERT_IDS)
    throw fields.error("a request for no or too many certificates");
  const tag = der.contextConstructedTag(2);
  const extensions = fields.optional(tag, (each) =>
    each.within(tag, (inside) => inside.list(der.TAG.sequence, readExtension)),
  );
  return { certIds, nonce: readNonce(fields, extensions ?? []) };
}

function readSingleRequest(reader: DerReader): CertId {
  return reader.sequence((fields) => {
    const certId = readCertId(fields);
    fields.optional(der.contextConstructedTag(0), (each) => each.element());
    return certId;
  });
}

function readCertId(reader: DerReader): CertId {
  const { value, bytes } = reader.capture((each) =>
    each.sequence((fields) => ({
      hash: readCertIdHash(fields),
      issuerNameHash: fields.octetString(),
      issuerKeyHash: fields.octetString(),
      serialNumber: readSerial(fields),
    })),
  );
  return { ...value, der: bytes };
}

/** Parameters are NULL with some clients and absent with others. */
function readCertIdHash(reader: DerReader): CertIdHash | undefined {
  const oid = reader.sequence((algorithm) => {
    const digest = algorithm.oid();
    algorithm.optional(der.TAG.null, (each) => each.null());
    return digest;
  });
  return oid === OID.sha1 ? "sha1" : oid === OID.sha256 ? "sha256" : undefined;
}

function readNonce(fields: DerReader, extensions: readonly Extension[]): Buffer | undefined {
  const found = extensions.find(({ oid }) => oid === OID.ocspNonce);
  if (found === undefined) return undefined;
  const nonce = readDer(found.value, (reader) => reader.octetString());
  if (nonce.length === 0 || nonce.length > MAX_NONCE_OCTETS)
    throw fields.error("a nonce has 1 to 128 octets");
  return nonce;
}

/**
 * The request of a GET: base64 in the path, percent-encoded by careful clients and not by others (RFC 5019 5).
 * Undefined when it is neither.
 */
export function decodeOcspPath(path: string): Buffer | undefined {
  if (path.length > 2 * OCSP_LIMITS.maxBytes) return undefined;
  try {
    const text = decodeURIComponent(path.replace(/^\/+/, "")).replace(/=+$/, "");
    return decodeBase64(text.padEnd(Math.ceil(text.length / 4) * 4, "="));
  } catch {
    return undefined;
  }
}

interface IssuerHashes {
  readonly name: Buffer;
  readonly key: Buffer;
}

/** What a CertID holds for an issuer: compute once per authority and digest. */
export function issuerHashes(subject: Buffer, publicKey: Buffer, hash: CertIdHash): IssuerHashes {
  const digest = (bytes: Buffer): Buffer => digestOf(hash, bytes, "buffer");
  return { name: digest(subject), key: digest(keyBits(publicKey)) };
}

export const isIssuedBy = (certId: CertId, issuer: IssuerHashes): boolean =>
  certId.issuerNameHash.equals(issuer.name) && certId.issuerKeyHash.equals(issuer.key);

/** A CertID as clients write it, for answers signed ahead of any request. */
export function encodeCertId(hash: CertIdHash, issuer: IssuerHashes, serialNumber: string): Buffer {
  return der.sequence(
    der.sequence(der.oid(hash === "sha1" ? OID.sha1 : OID.sha256), der.nullValue()),
    der.octetString(issuer.name),
    der.octetString(issuer.key),
    encodeSerial(serialNumber),
  );
}

export function encodeOcspRequest(certIds: readonly Buffer[], nonce?: Buffer): Buffer {
  const parts = [der.sequenceOf(certIds.map((certId) => der.sequence(certId)))];
  if (nonce !== undefined) parts.push(der.explicit(2, der.sequence(nonceExtension(nonce).der)));
  return der.sequence(der.sequenceOf(parts));
}

export const nonceExtension = (nonce: Buffer): Extension =>
  makeExtension(OID.ocspNonce, false, der.octetString(nonce));
