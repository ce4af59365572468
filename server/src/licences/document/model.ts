/** Ed25519 as Node has it. Keys travel as DER, in which RFC 8410 wraps the 32 bytes that matter. */
import { createPrivateKey, createPublicKey, sign, verify, type KeyObject } from "node:crypto";
import { joinLicence, licenceTextToSign, type LicencePayload, type ParsedLicence } from "./contract.ts";

// PrivateKeyInfo { version 0, id-Ed25519, OCTET STRING { OCTET STRING of the seed } }: everything but the seed.
const PKCS8_HEAD = Buffer.from("302e020100300506032b657004220420", "hex");
const SEED_BYTES = 32;

export function privateKeyFromSeed(seed: Buffer): KeyObject {
  if (seed.length !== SEED_BYTES) throw new Error("an Ed25519 seed has 32 bytes");
  return createPrivateKey({ key: Buffer.concat([PKCS8_HEAD, seed]), format: "der", type: "pkcs8" });
}

export const publicDerOf = (privateKey: KeyObject): Buffer =>
  createPublicKey(privateKey).export({ format: "der", type: "spki" });

export const publicKeyFromDer = (der: Buffer): KeyObject =>
  createPublicKey({ key: der, format: "der", type: "spki" });

export function signLicence(payload: LicencePayload, privateKey: KeyObject): string {
  const text = licenceTextToSign(payload);
  return joinLicence(text, sign(null, Buffer.from(text), privateKey));
}

export function isSignedByOneOf(parsed: ParsedLicence, publicKeys: readonly KeyObject[]): boolean {
  const text = Buffer.from(parsed.signedText);
  const signature = Buffer.from(parsed.signature, "base64url");
  return publicKeys.some((key) => key.asymmetricKeyType === "ed25519" && verify(null, text, key, signature));
}
