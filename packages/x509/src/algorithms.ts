// The algorithms Keyward issues with, their names on the wire and their AlgorithmIdentifiers. Clients spell some of
// them two ways (`ECDSA-SHA256` and `SHA256-ECDSA`, `EC_prime256v1` and `ECDSA-P256`); both are read, one is kept.

import * as der from "./der.ts";
import { OID } from "./oids.ts";
import { quote, X509Error } from "./x509-error.ts";

export const KEY_ALGORITHMS = [
  "RSA_2048",
  "RSA_3072",
  "RSA_4096",
  "EC_prime256v1",
  "EC_secp384r1",
  "EC_secp521r1",
  "Ed25519",
] as const;
export type KeyAlgorithm = (typeof KEY_ALGORITHMS)[number];

const KEY_ALIASES: ReadonlyMap<string, KeyAlgorithm> = new Map([
  ["RSA-2048", "RSA_2048"],
  ["RSA-3072", "RSA_3072"],
  ["RSA-4096", "RSA_4096"],
  ["ECDSA-P256", "EC_prime256v1"],
  ["ECDSA-P384", "EC_secp384r1"],
  ["ECDSA-P521", "EC_secp521r1"],
  ["EC_secp256r1", "EC_prime256v1"],
]);

export type KeyFamily = "rsa" | "ec" | "ed25519";
type DigestName = "sha256" | "sha384" | "sha512";

export const SIGNATURE_ALGORITHMS = [
  "RSA-SHA256",
  "RSA-SHA384",
  "RSA-SHA512",
  "RSA-PSS-SHA256",
  "RSA-PSS-SHA384",
  "RSA-PSS-SHA512",
  "ECDSA-SHA256",
  "ECDSA-SHA384",
  "ECDSA-SHA512",
  "Ed25519",
] as const;
export type SignatureAlgorithm = (typeof SIGNATURE_ALGORITHMS)[number];

export interface SignatureScheme {
  readonly name: SignatureAlgorithm;
  readonly family: KeyFamily;
  /** Ed25519 hashes by itself. */
  readonly digest: DigestName | undefined;
  readonly isPss: boolean;
  /** The complete AlgorithmIdentifier. */
  readonly identifier: Buffer;
}

const DIGEST_OID = { sha256: OID.sha256, sha384: OID.sha384, sha512: OID.sha512 } as const;
export const DIGEST_BYTES = { sha256: 32, sha384: 48, sha512: 64 } as const;

/** RSASSA-PSS with the parameters RFC 4055 recommends: one digest throughout, salt as long as the digest. */
function pssIdentifier(digest: DigestName): Buffer {
  const hash = der.sequence(der.oid(DIGEST_OID[digest]), der.nullValue());
  const mask = der.sequence(der.oid(OID.mgf1), hash);
  const salt = der.integer(DIGEST_BYTES[digest]);
  const parameters = der.sequence(der.explicit(0, hash), der.explicit(1, mask), der.explicit(2, salt));
  return der.sequence(der.oid(OID.rsaPss), parameters);
}

function schemeOf(name: SignatureAlgorithm): SignatureScheme {
  const digest = (["sha256", "sha384", "sha512"] as const).find((each) => name.endsWith(each.toUpperCase()));
  if (digest === undefined) {
    return { name, family: "ed25519", digest, isPss: false, identifier: der.sequence(der.oid(OID.ed25519)) };
  }
  if (name.startsWith("RSA-PSS"))
    return { name, family: "rsa", digest, isPss: true, identifier: pssIdentifier(digest) };
  const bits = digest.slice(3) as "256" | "384" | "512";
  if (name.startsWith("RSA")) {
    // NULL parameters are required for PKCS#1 v1.5 and forbidden for ECDSA (RFC 4055, RFC 5758).
    const identifier = der.sequence(der.oid(OID[`sha${bits}WithRsa`]), der.nullValue());
    return { name, family: "rsa", digest, isPss: false, identifier };
  }
  return {
    name,
    family: "ec",
    digest,
    isPss: false,
    identifier: der.sequence(der.oid(OID[`ecdsaWithSha${bits}`])),
  };
}

const schemes = new Map<string, SignatureScheme>(SIGNATURE_ALGORITHMS.map((name) => [name, schemeOf(name)]));
const schemesByIdentifier = new Map(
  [...schemes.values()].map((each) => [each.identifier.toString("hex"), each]),
);

export function schemeFor(name: SignatureAlgorithm): SignatureScheme {
  const scheme = schemes.get(name);
  if (scheme === undefined)
    throw new X509Error("signature_algorithm.unknown", "signatureAlgorithm", `${name} is unknown.`);
  return scheme;
}

/** By the whole AlgorithmIdentifier, parameters included; undefined for anything we do not sign with. */
export const schemeOfIdentifier = (identifier: Buffer): SignatureScheme | undefined =>
  schemesByIdentifier.get(identifier.toString("hex"));

export function parseKeyAlgorithm(text: string): KeyAlgorithm {
  const found = KEY_ALGORITHMS.find((name) => name === text) ?? KEY_ALIASES.get(text);
  if (found !== undefined) return found;
  const known = KEY_ALGORITHMS.join(", ");
  throw new X509Error(
    "key_algorithm.unknown",
    "keyAlgorithm",
    `${quote(text)} is not a key algorithm; use one of ${known}.`,
  );
}

export function parseSignatureAlgorithm(text: string): SignatureAlgorithm {
  // SHA256-RSA and SHA256-ECDSA are the same words in the other order.
  const turned = text.replace(/^(SHA\d+)-(.+)$/, "$2-$1");
  const found = SIGNATURE_ALGORITHMS.find((name) => name === turned);
  if (found !== undefined) return found;
  const known = SIGNATURE_ALGORITHMS.join(", ");
  const message = `${quote(text)} is not a signature algorithm; use one of ${known}.`;
  throw new X509Error("signature_algorithm.unknown", "signatureAlgorithm", message);
}
