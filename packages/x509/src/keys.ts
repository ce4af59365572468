// Keys: generating, importing, exporting, and reading what a SubjectPublicKeyInfo says without asking OpenSSL
// (importing a public key costs more than everything else in issuing a certificate, so it is done once or never).

import { createECDH, createPublicKey, generateKeyPair, hash, type ECDH, type KeyObject } from "node:crypto";
import { promisify } from "node:util";
import type { KeyAlgorithm, KeyFamily, SignatureAlgorithm } from "./algorithms.ts";
import * as der from "./der.ts";
import { readDer, type DerReader } from "./der-reader.ts";
import { OID } from "./oids.ts";
import { X509Error } from "./x509-error.ts";

const generate = promisify(generateKeyPair);

export interface KeyPair {
  readonly publicKey: KeyObject;
  readonly privateKey: KeyObject;
}

/** A fresh pair, made in the thread pool. */
export function generateKeys(algorithm: KeyAlgorithm): Promise<KeyPair> {
  switch (algorithm) {
    case "RSA_2048":
    case "RSA_3072":
    case "RSA_4096":
      return generate("rsa", { modulusLength: Number(algorithm.slice(4)), publicExponent: 65537 });
    case "EC_prime256v1":
    case "EC_secp384r1":
    case "EC_secp521r1":
      return generate("ec", { namedCurve: algorithm.slice(3) });
    case "Ed25519":
      return generate("ed25519");
  }
}

/** A pair as bytes: SubjectPublicKeyInfo and PKCS#8. */
export interface KeyBytes {
  readonly publicKey: Buffer;
  readonly privateKey: Buffer;
}

/** The parts of both encodings that are the same for every key of a curve (RFC 5480, RFC 5915). */
const EC_FRAMES = Object.fromEntries(
  (["prime256v1", "secp384r1", "secp521r1"] as const).map((curve) => [
    curve,
    {
      // Kept: to set up the curve costs as much as to make a key on it.
      maker: createECDH(curve),
      algorithm: der.sequence(der.oid(OID.ecPublicKey), der.oid(OID[curve])),
      octets: { prime256v1: 32, secp384r1: 48, secp521r1: 66 }[curve],
    },
  ]),
) as Readonly<
  Record<CurveName, { readonly maker: ECDH; readonly algorithm: Buffer; readonly octets: number }>
>;
const ZERO = der.integer(0);
const ONE = der.integer(1);

/**
 * A fresh pair on a curve, encoded here. OpenSSL makes it in fifty microseconds and would take four times as long to
 * write it down.
 */
export function makeCurveKey(curve: CurveName): KeyBytes {
  const { maker, algorithm, octets } = EC_FRAMES[curve];
  const point = maker.generateKeys();
  const bare = maker.getPrivateKey();
  // OpenSSL leaves leading zeros out; the encoding has all octets.
  const scalar = bare.length === octets ? bare : Buffer.concat([Buffer.alloc(octets - bare.length), bare]);
  const bits = der.bitString(point);
  return {
    publicKey: der.sequence(algorithm, bits),
    privateKey: der.sequence(
      ZERO,
      algorithm,
      der.octetString(der.sequence(ONE, der.octetString(scalar), der.explicit(1, bits))),
    ),
  };
}

export type CurveName = "prime256v1" | "secp384r1" | "secp521r1";

export type PublicKeyFacts =
  | { readonly family: "rsa"; readonly bits: number; readonly modulus: bigint; readonly exponent: bigint }
  | { readonly family: "ec"; readonly bits: number; readonly curve: CurveName; readonly point: Buffer }
  | { readonly family: "ed25519"; readonly bits: 255; readonly point: Buffer };

export const CURVES: Readonly<
  Record<string, { readonly curve: CurveName; readonly bits: number } | undefined>
> = {
  [OID.prime256v1]: { curve: "prime256v1", bits: 256 },
  [OID.secp384r1]: { curve: "secp384r1", bits: 384 },
  [OID.secp521r1]: { curve: "secp521r1", bits: 521 },
};

export const unsupported = (what: string, field = "publicKey"): X509Error =>
  new X509Error("key.unsupported", field, `${what} Use RSA, a NIST curve (P-256, P-384, P-521) or Ed25519.`);

/** One request's key is asked about by the proof, the policy and the lint, an authority's by every certificate. */
const known = new WeakMap<Buffer, PublicKeyFacts>();

/** What kind of key an SPKI holds. Throws X509Error for kinds we do not certify, DerError for broken bytes. */
export function readPublicKey(spki: Buffer): PublicKeyFacts {
  const facts = known.get(spki) ?? factsOf(spki);
  known.set(spki, facts);
  return facts;
}

function factsOf(spki: Buffer): PublicKeyFacts {
  return readDer(spki, (reader) =>
    reader.sequence((info) => {
      const algorithm = info.enter(der.TAG.sequence);
      const type = algorithm.oid();
      const facts = readKeyOf(type, algorithm, info);
      algorithm.end();
      return facts;
    }),
  );
}

function readKeyOf(type: string, parameters: DerReader, info: DerReader): PublicKeyFacts {
  switch (type) {
    case OID.rsaEncryption:
      parameters.null();
      return readRsa(info.octetsInBitString());
    case OID.ecPublicKey: {
      // Explicit curve parameters let an attacker bring a generator of his own (CVE-2020-0601): named curves only.
      if (parameters.nextTag !== der.TAG.oid)
        throw unsupported("Curves given by explicit parameters are refused.");
      const named = CURVES[parameters.oid()];
      if (named === undefined) throw unsupported("This elliptic curve is not supported.");
      return { family: "ec", ...named, point: info.octetsInBitString() };
    }
    case OID.ed25519:
      return { family: "ed25519", bits: 255, point: info.octetsInBitString() };
    default:
      throw unsupported(`Keys of type ${type} are not supported.`);
  }
}

function readRsa(bits: Buffer): PublicKeyFacts {
  const [modulus, exponent] = readDer(bits, (reader) =>
    reader.sequence((pair) => [pair.integer(), pair.integer()] as const),
  );
  if (modulus <= 0n || exponent <= 0n)
    throw new X509Error("key.rsa", "publicKey", "An RSA key has positive numbers.");
  // By its hexadecimal digits: in binary the number is a text eight times as long as its bytes.
  const digits = modulus.toString(16);
  const first = Number.parseInt(digits[0] ?? "0", 16);
  return { family: "rsa", bits: 4 * digits.length - (Math.clz32(first) - 28), modulus, exponent };
}

export const MAX_RSA_BITS = 8192;
export const MAX_EXPONENT = (1n << 256n) - 1n;

export const tooLong = (bits: number) => ({
  code: "key.rsa_long",
  message: `RSA keys may have ${MAX_RSA_BITS} bits; this one has ${bits}.`,
});
export const ODD_EXPONENT = {
  code: "key.rsa_exponent",
  message: "The RSA exponent must be odd, from 65537 to 2^256-1.",
} as const;

/** Before somebody else's key is used at all: with numbers long enough that alone would be an attack. */
function assertCheckable(facts: PublicKeyFacts): void {
  if (facts.family !== "rsa") return;
  const weakness =
    facts.bits > MAX_RSA_BITS
      ? tooLong(facts.bits)
      : facts.exponent > MAX_EXPONENT
        ? ODD_EXPONENT
        : undefined;
  if (weakness !== undefined) throw new X509Error(weakness.code, "publicKey", weakness.message);
}

/** The wire name of a key; undefined for an RSA size outside the list. */
export function keyAlgorithmOf(facts: PublicKeyFacts): KeyAlgorithm | undefined {
  if (facts.family === "ed25519") return "Ed25519";
  if (facts.family === "ec") return `EC_${facts.curve}`;
  if (facts.bits === 2048 || facts.bits === 3072 || facts.bits === 4096) return `RSA_${facts.bits}`;
  return undefined;
}

export function familyOf(key: KeyObject): KeyFamily {
  const type = key.asymmetricKeyType;
  if (type === "rsa" || type === "ec" || type === "ed25519") return type;
  throw unsupported(`Keys of type ${type ?? "secret"} are not supported.`);
}

/** The algorithm a key signs with unless told otherwise: the digest as strong as the curve. */
export function defaultSignatureAlgorithm(key: KeyObject): SignatureAlgorithm {
  switch (familyOf(key)) {
    case "rsa":
      return "RSA-SHA256";
    case "ed25519":
      return "Ed25519";
    case "ec": {
      const curve = key.asymmetricKeyDetails?.namedCurve;
      if (curve === "secp521r1") return "ECDSA-SHA512";
      return curve === "secp384r1" ? "ECDSA-SHA384" : "ECDSA-SHA256";
    }
  }
}

export const exportSpki = (key: KeyObject): Buffer =>
  (key.type === "private" ? createPublicKey(key) : key).export({ type: "spki", format: "der" });

export const exportPkcs8 = (key: KeyObject): Buffer => key.export({ type: "pkcs8", format: "der" });

export const exportPkcs8Pem = (key: KeyObject): string =>
  key.export({ type: "pkcs8", format: "pem" }).toString();

const JWK_CURVES = { prime256v1: "P-256", secp384r1: "P-384", secp521r1: "P-521" } as const;

function importFacts(facts: PublicKeyFacts, spki: Buffer): KeyObject {
  // OpenSSL takes twice as long to find out from DER what we know already. Only uncompressed points, as we certify, and
  // of the exact length: as numbers, coordinates with zeros before them would pass for the same point.
  if (
    facts.family !== "ec" ||
    facts.point[0] !== 4 ||
    facts.point.length !== 1 + 2 * EC_FRAMES[facts.curve].octets
  )
    return createPublicKey({ key: spki, format: "der", type: "spki" });
  const half = (facts.point.length - 1) / 2;
  const [x, y] = [facts.point.subarray(1, 1 + half), facts.point.subarray(1 + half)];
  const key = {
    kty: "EC",
    crv: JWK_CURVES[facts.curve],
    x: x.toString("base64url"),
    y: y.toString("base64url"),
  };
  return createPublicKey({ key, format: "jwk" });
}

/** OpenSSL gets nothing that was not read here first: of a kind we know, with numbers of a bounded length. */
export function importSpki(spki: Buffer): KeyObject {
  const facts = readPublicKey(spki);
  assertCheckable(facts);
  try {
    return importFacts(facts, spki);
  } catch {
    throw new X509Error(
      "key.invalid",
      "publicKey",
      "The public key cannot be used: its numbers do not form a key.",
    );
  }
}

/** Whether a private key belongs to a public one. */
export const keysMatch = (privateKey: KeyObject, spki: Buffer): boolean =>
  exportSpki(privateKey).equals(spki);

/** The octets inside the subjectPublicKey BIT STRING: what key identifiers and OCSP hash. */
export function keyBits(spki: Buffer): Buffer {
  return readDer(spki, (reader) =>
    reader.sequence((info) => {
      info.element(der.TAG.sequence);
      return info.octetsInBitString();
    }),
  );
}

/**
 * RFC 5280 4.2.1.2 method 1, or RFC 7093 method 1 (the left 160 bits of SHA-256) where SHA-1 is not to be had. The
 * value is only a label: children copy it, nobody recomputes it.
 */
export function keyIdentifier(spki: Buffer, method: "sha1" | "rfc7093" = "sha1"): Buffer {
  const digest = hash(method === "sha1" ? "sha1" : "sha256", keyBits(spki), "buffer");
  return digest.subarray(0, 20);
}

/** SHA-256 of the whole SPKI in hexadecimal: the name under which a key is blocked, pinned or found again. */
export const keyFingerprint = (spki: Buffer): string => hash("sha256", spki, "hex");
