/**
 * Fresh keys for certificates, as bytes. The thread pool makes and encodes them; asking for key objects instead would
 * have the event loop encode each one three times (public key, sealed copy, answer), which costs more than signing.
 */
import { generateKeyPair } from "node:crypto";
import { promisify } from "node:util";
import type { KeyAlgorithm } from "../../x509/index.ts";

const generate = promisify(generateKeyPair);
const ENCODINGS = {
  publicKeyEncoding: { type: "spki", format: "der" },
  privateKeyEncoding: { type: "pkcs8", format: "der" },
} as const;

export interface KeyBytes {
  /** SubjectPublicKeyInfo. */
  readonly publicKey: Buffer;
  /** PKCS#8. */
  readonly privateKey: Buffer;
}

export function makeKey(algorithm: KeyAlgorithm): Promise<KeyBytes> {
  switch (algorithm) {
    case "RSA_2048":
    case "RSA_3072":
    case "RSA_4096":
      return generate("rsa", {
        modulusLength: Number(algorithm.slice(4)),
        publicExponent: 65537,
        ...ENCODINGS,
      }) as unknown as Promise<KeyBytes>;
    case "EC_prime256v1":
    case "EC_secp384r1":
    case "EC_secp521r1":
      // The typings of these overloads forget that encoded keys are bytes.
      return generate("ec", { namedCurve: algorithm.slice(3), ...ENCODINGS }) as unknown as Promise<KeyBytes>;
    case "Ed25519":
      return generate("ed25519", ENCODINGS) as unknown as Promise<KeyBytes>;
  }
}
