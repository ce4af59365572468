/**
 * Fresh keys for certificates, as bytes. Asking OpenSSL for key objects and encoding each of them (public key, sealed
 * copy, answer) costs more than everything else in issuing; keys on curves are so quick to make that handing them to
 * the thread pool costs more than it saves. RSA keys take long and belong there.
 */
import { generateKeyPair } from "node:crypto";
import { promisify } from "node:util";
import { makeCurveKey, type CurveName, type KeyAlgorithm, type KeyBytes } from "../../x509/index.ts";

const generate = promisify(generateKeyPair);
const ENCODINGS = {
  publicKeyEncoding: { type: "spki", format: "der" },
  privateKeyEncoding: { type: "pkcs8", format: "der" },
} as const;

export async function makeKey(algorithm: KeyAlgorithm): Promise<KeyBytes> {
  switch (algorithm) {
    case "RSA_2048":
    case "RSA_3072":
    case "RSA_4096":
      // The typings of these overloads forget that encoded keys are bytes.
      return (await generate("rsa", {
        modulusLength: Number(algorithm.slice(4)),
        publicExponent: 65537,
        ...ENCODINGS,
      })) as unknown as KeyBytes;
    case "EC_prime256v1":
    case "EC_secp384r1":
    case "EC_secp521r1":
      return makeCurveKey(algorithm.slice(3) as CurveName);
    case "Ed25519":
      return (await generate("ed25519", ENCODINGS)) as unknown as KeyBytes;
  }
}
