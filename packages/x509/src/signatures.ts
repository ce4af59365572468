// Signing and verifying. The asynchronous forms run in the thread pool, so one process signs on every core while
// its event loop keeps answering; the synchronous ones are for worker threads and tools, where waiting is free. On the
// quick curves the way to the pool and back costs as much as making a signature, so those are made here; checking one
// takes three times as long and always goes there.

import { constants, sign, verify, type KeyObject, type SignKeyObjectInput } from "node:crypto";
import {
  DIGEST_BYTES,
  schemeFor,
  schemeOfIdentifier,
  type SignatureAlgorithm,
  type SignatureScheme,
} from "./algorithms.ts";
import { familyOf } from "./keys.ts";
import { X509Error } from "./x509-error.ts";

/** A private key together with the way it signs. Keep it: importing the key again costs ten signatures. */
export interface SigningKey {
  readonly key: KeyObject;
  readonly algorithm: SignatureAlgorithm;
}

export const fitsKey = (algorithm: SignatureAlgorithm, key: KeyObject): boolean =>
  schemeFor(algorithm).family === familyOf(key);

function keyInput(key: KeyObject, scheme: SignatureScheme): SignKeyObjectInput {
  if (!scheme.isPss || scheme.digest === undefined) return { key };
  return { key, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: DIGEST_BYTES[scheme.digest] };
}

/** Signs in less than a tenth of a millisecond. */
const isQuick = (key: KeyObject): boolean =>
  key.asymmetricKeyType === "ed25519" || key.asymmetricKeyDetails?.namedCurve === "prime256v1";

function schemeFitting({ algorithm, key }: SigningKey): SignatureScheme {
  if (fitsKey(algorithm, key)) return schemeFor(algorithm);
  const message = `${algorithm} cannot be made with a key of type ${key.asymmetricKeyType ?? "secret"}.`;
  throw new X509Error("signature_algorithm.key", "signatureAlgorithm", message);
}

export async function signBytes(bytes: Uint8Array, signer: SigningKey): Promise<Buffer> {
  if (isQuick(signer.key)) return signBytesSync(bytes, signer);
  const scheme = schemeFitting(signer);
  return new Promise((resolve, reject) => {
    sign(scheme.digest, bytes, keyInput(signer.key, scheme), (error, signature) => {
      if (error === null) resolve(signature);
      else reject(error);
    });
  });
}

export function signBytesSync(bytes: Uint8Array, signer: SigningKey): Buffer {
  const scheme = schemeFitting(signer);
  return sign(scheme.digest, bytes, keyInput(signer.key, scheme));
}

export interface SignedBytes {
  readonly bytes: Uint8Array;
  /** AlgorithmIdentifier as it stands beside the signature. */
  readonly identifier: Buffer;
  readonly signature: Buffer;
}

/** False for a wrong signature, an unknown algorithm, or an algorithm of another key family. */
export function isSignedBy({ bytes, identifier, signature }: SignedBytes, publicKey: KeyObject): boolean {
  const scheme = schemeOfIdentifier(identifier);
  if (scheme === undefined || scheme.family !== publicKey.asymmetricKeyType) return false;
  return verify(scheme.digest, bytes, keyInput(publicKey, scheme), signature);
}

/** As `isSignedBy`, in the thread pool. */
export async function isSignedByAsync(signed: SignedBytes, publicKey: KeyObject): Promise<boolean> {
  const scheme = schemeOfIdentifier(signed.identifier);
  if (scheme === undefined || scheme.family !== publicKey.asymmetricKeyType) return false;
  return new Promise((resolve, reject) => {
    verify(scheme.digest, signed.bytes, keyInput(publicKey, scheme), signed.signature, (error, isValid) => {
      if (error === null) resolve(isValid);
      else reject(error);
    });
  });
}
