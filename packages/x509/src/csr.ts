// Certificate signing requests, CSRs (PKCS#10, RFC 2986). A CSR's signature proves only that the sender holds the
// private key, and nothing else in it is believed until a policy has agreed.

import { createPublicKey, type KeyObject } from "node:crypto";
import { schemeOfIdentifier, type SignatureAlgorithm } from "./algorithms.ts";
import { readSigned, signTbs } from "./certificate.ts";
import * as der from "./der.ts";
import { readDer, type DerLimits, type DerReader } from "./der-reader.ts";
import { assertCanonical } from "./der-tree.ts";
import { interpretExtensions, readExtensions, type ExtensionSet } from "./extension-reading.ts";
import type { Extension } from "./extensions.ts";
import { exportSpki, importSpki } from "./keys.ts";
import { readDirectoryString, readName, type ParsedName } from "./names.ts";
import { OID } from "./oids.ts";
import { decodePem, encodePem } from "./pem.ts";
import { isSignedBy, isSignedByAsync, type SignedBytes, type SigningKey } from "./signatures.ts";
import { X509Error } from "./x509-error.ts";

export interface CertificateRequest {
  readonly der: Buffer;
  /** CertificationRequestInfo, the signed bytes. */
  readonly tbs: Buffer;
  readonly subject: ParsedName;
  /** SubjectPublicKeyInfo in DER. */
  readonly publicKey: Buffer;
  readonly extensions: ExtensionSet;
  readonly challengePassword: string | undefined;
  readonly algorithmIdentifier: Buffer;
  readonly signatureAlgorithm: SignatureAlgorithm | undefined;
  readonly signature: Buffer;
}

const CSR_LIMITS: DerLimits = { maxBytes: 64 * 1024, maxDepth: 24 };

/** From PEM; older tools write NEW in the label. */
export function parseCsrPem(text: string): CertificateRequest {
  const limits = { maxCharacters: 2 * CSR_LIMITS.maxBytes, maxBlocks: 10 };
  const found = decodePem(text, limits).filter(({ label }) => /^(NEW )?CERTIFICATE REQUEST$/.test(label));
  const [only] = found;
  if (only === undefined || found.length > 1) {
    throw new X509Error("csr.pem", "csr", "Exactly one CERTIFICATE REQUEST block is needed.");
  }
  return parseCsr(only.der);
}

export function parseCsr(bytes: Buffer): CertificateRequest {
  assertCanonical(bytes, CSR_LIMITS);
  const { tbs, algorithmIdentifier, signature } = readSigned(bytes, CSR_LIMITS);
  const fields = readDer(tbs, (reader) =>
    reader.sequence((info) => {
      if (info.smallInteger() !== 0) throw info.error("a request of an unknown version");
      return { subject: readName(info), publicKey: info.element(der.TAG.sequence), ...readAttributes(info) };
    }),
  );
  if (fields.extensions.duplicates.length > 0) {
    throw new X509Error(
      "csr.duplicate_extension",
      "csr",
      `${fields.extensions.duplicates[0]} is requested twice.`,
    );
  }
  const signatureAlgorithm = schemeOfIdentifier(algorithmIdentifier)?.name;
  return { der: bytes, tbs, ...fields, algorithmIdentifier, signatureAlgorithm, signature };
}

type CsrAttributes = Pick<CertificateRequest, "extensions" | "challengePassword">;

/** `[0] IMPLICIT SET OF Attribute`. The standard has no DEFAULT here, yet some clients leave an empty set out. */
function readAttributes(info: DerReader): CsrAttributes {
  let extensions: ExtensionSet | undefined;
  let challengePassword: string | undefined;
  const tag = der.contextConstructedTag(0);
  info.optional(tag, (each) =>
    each.list(tag, (list) =>
      list.sequence((attribute) => {
        const type = attribute.oid();
        attribute.setOf((value) => {
          if (type === OID.extensionRequest) {
            // Two lists of requested extensions would leave open which one was meant.
            if (extensions !== undefined) throw value.error("extensions requested twice");
            extensions = readExtensions(value);
          } else if (type === OID.challengePassword) challengePassword = readDirectoryString(value);
          else value.element();
        });
      }),
    ),
  );
  return { extensions: extensions ?? interpretExtensions([]), challengePassword };
}

const signedBytesOf = (csr: CertificateRequest): SignedBytes => ({
  bytes: csr.tbs,
  identifier: csr.algorithmIdentifier,
  signature: csr.signature,
});

/** Whether the sender holds the key. Returns the imported key, since importing is the dear part. */
export async function verifyCsr(csr: CertificateRequest): Promise<KeyObject> {
  const publicKey = importSpki(csr.publicKey);
  if (!(await isSignedByAsync(signedBytesOf(csr), publicKey))) throw notProven(csr);
  return publicKey;
}

export function verifyCsrSync(csr: CertificateRequest): KeyObject {
  const publicKey = importSpki(csr.publicKey);
  if (!isSignedBy(signedBytesOf(csr), publicKey)) throw notProven(csr);
  return publicKey;
}

function notProven(csr: CertificateRequest): X509Error {
  return csr.signatureAlgorithm === undefined
    ? new X509Error(
        "csr.signature_algorithm",
        "csr",
        "The request is signed with an algorithm that is not accepted.",
      )
    : new X509Error("csr.signature", "csr", "The signature of the request does not belong to its key.");
}

interface RequestFields {
  /** DER of the Name. */
  readonly subject: Buffer;
  readonly extensions: readonly Extension[];
}

/** A request signed with the key it asks a certificate for. */
export function buildCsr({ subject, extensions }: RequestFields, signer: SigningKey): Promise<Buffer> {
  const wishes = der.sequenceOf(extensions.map((extension) => extension.der));
  const attribute = der.sequence(der.oid(OID.extensionRequest), der.setOf([wishes]));
  const attributes = der.explicit(0, ...(extensions.length === 0 ? [] : [attribute]));
  const publicKey = exportSpki(createPublicKey(signer.key));
  return signTbs(der.sequence(der.integer(0), subject, publicKey, attributes), signer);
}

export const csrToPem = (csr: Buffer): string => encodePem("CERTIFICATE REQUEST", csr);
