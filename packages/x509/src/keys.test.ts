import assert from "node:assert/strict";
import { createHash, generateKeyPairSync } from "node:crypto";
import { describe, test } from "node:test";
import {
  KEY_ALGORITHMS,
  parseKeyAlgorithm,
  parseSignatureAlgorithm,
  SIGNATURE_ALGORITHMS,
} from "./algorithms.ts";
import * as der from "./der.ts";
import { assertStrongKey, findKeyWeakness } from "./key-strength.ts";
import {
  exportPkcs8,
  exportPkcs8Pem,
  exportSpki,
  importSpki,
  keyAlgorithmOf,
  keyFingerprint,
  keyIdentifier,
  keysMatch,
  makeCurveKey,
  readPublicKey,
} from "./keys.ts";
import { OID } from "./oids.ts";
import { encodePem } from "./pem.ts";
import { importPrivateKey } from "./private-keys.ts";
import { sharedKeys } from "./test-authority.ts";
import { X509Error } from "./x509-error.ts";

const QUICK = KEY_ALGORITHMS.filter((name) => name !== "RSA_3072" && name !== "RSA_4096");

test("both spellings of an algorithm are read", () => {
  assert.equal(parseKeyAlgorithm("RSA-2048"), "RSA_2048");
  assert.equal(parseKeyAlgorithm("RSA_4096"), "RSA_4096");
  assert.equal(parseKeyAlgorithm("ECDSA-P256"), "EC_prime256v1");
  assert.equal(parseKeyAlgorithm("ECDSA-P521"), "EC_secp521r1");
  assert.equal(parseSignatureAlgorithm("SHA256-ECDSA"), "ECDSA-SHA256");
  assert.equal(parseSignatureAlgorithm("SHA512-RSA"), "RSA-SHA512");
  for (const name of SIGNATURE_ALGORITHMS) assert.equal(parseSignatureAlgorithm(name), name);
  assert.throws(() => parseKeyAlgorithm("RSA_1024"), X509Error);
  assert.throws(() => parseKeyAlgorithm("constructor"), X509Error);
  assert.throws(() => parseSignatureAlgorithm("RSA-SHA1"), X509Error);
});

for (const algorithm of QUICK) {
  test(`${algorithm}: made, recognised, strong, exported and imported again`, async () => {
    const { publicKey, privateKey } = await sharedKeys(algorithm);
    const spki = exportSpki(publicKey);
    assert.equal(keyAlgorithmOf(readPublicKey(spki)), algorithm);
    assert.equal(findKeyWeakness(spki), undefined);
    assert.ok(exportSpki(privateKey).equals(spki));
    assert.ok(keysMatch(importPrivateKey(exportPkcs8(privateKey)), spki));
    assert.ok(keysMatch(importPrivateKey(exportPkcs8Pem(privateKey)), spki));
    assert.ok(exportSpki(importSpki(spki)).equals(spki));
  });
}

test("key identifiers are the published digests of the key bits", async () => {
  const { publicKey } = await sharedKeys("EC_prime256v1");
  const spki = exportSpki(publicKey);
  const point = spki.subarray(-65);
  assert.ok(keyIdentifier(spki).equals(createHash("sha1").update(point).digest()));
  assert.ok(
    keyIdentifier(spki, "rfc7093").equals(createHash("sha256").update(point).digest().subarray(0, 20)),
  );
  assert.equal(keyFingerprint(spki), createHash("sha256").update(spki).digest("hex"));
});

const rsaSpki = (modulus: bigint, exponent = 65537n): Buffer =>
  der.sequence(
    der.sequence(der.oid(OID.rsaEncryption), der.nullValue()),
    der.bitString(der.sequence(der.integer(modulus), der.integer(exponent))),
  );

const modulusOf = (spki: Buffer): bigint => {
  const facts = readPublicKey(spki);
  assert.ok(facts.family === "rsa");
  return facts.modulus;
};

describe("a weak key is named", () => {
  const weakness = (spki: Buffer): string | undefined => findKeyWeakness(spki)?.code;
  const strong = sharedKeys("RSA_2048").then(({ publicKey }) => modulusOf(exportSpki(publicKey)));

  test("too short and too long", () => {
    const short = generateKeyPairSync("rsa", { modulusLength: 1024 }).publicKey;
    assert.equal(weakness(exportSpki(short)), "key.rsa_short");
    assert.equal(weakness(rsaSpki((1n << 2047n) - 1n)), "key.rsa_short");
    assert.equal(weakness(rsaSpki((1n << 8192n) + 1n)), "key.rsa_long");
  });

  test("an exponent that is small, even or huge", async () => {
    const modulus = await strong;
    assert.equal(weakness(rsaSpki(modulus, 65537n)), undefined);
    assert.equal(weakness(rsaSpki(modulus, (1n << 256n) - 1n)), undefined);
    for (const exponent of [1n, 3n, 65535n, 65538n, (1n << 256n) + 1n]) {
      assert.equal(weakness(rsaSpki(modulus, exponent)), "key.rsa_exponent", String(exponent));
    }
  });

  test("a modulus with a small factor", async () => {
    const modulus = await strong;
    for (const factor of [2n, 3n, 751n])
      assert.equal(weakness(rsaSpki(modulus * factor)), "key.rsa_small_factor");
  });

  test("the structure of ROCA", () => {
    // p = k*M + 65537^a mod M, with M the product of the primes to 167: what the flawed library computed.
    let product = 1n;
    for (let prime = 2n; prime <= 167n; prime += 1n) {
      if ([2n, 3n, 5n, 7n, 11n, 13n].every((small) => prime === small || prime % small !== 0n))
        product *= prime;
    }
    const power = (exponent: number): bigint => {
      let value = 1n;
      for (let round = 0; round < exponent; round += 1) value = (value * 65537n) % product;
      return value;
    };
    const shift = 1025n - BigInt(product.toString(2).length);
    const p = ((1n << shift) + 12345n) * product + power(1234);
    const q = ((1n << shift) + 987654321n * (1n << (shift - 40n))) * product + power(4321);
    assert.equal(weakness(rsaSpki(p * q)), "key.roca");
  });

  test("primes next to each other", () => {
    // The product of any two close odd numbers without small factors does.
    const isClear = (candidate: bigint): boolean => {
      for (let divisor = 3n; divisor < 752n; divisor += 2n) if (candidate % divisor === 0n) return false;
      return true;
    };
    const clearFrom = (start: bigint): bigint => {
      let candidate = start | 1n;
      while (!isClear(candidate)) candidate += 2n;
      return candidate;
    };
    const p = clearFrom((3n << 1022n) + 9876543210123456789n);
    const q = clearFrom(p + (1n << 500n));
    assert.equal(weakness(rsaSpki(p * q)), "key.rsa_close_primes");
    assert.equal(weakness(rsaSpki(p * p)), "key.rsa_close_primes");
  });

  test("a point off its curve, at infinity, compressed or on another curve", async () => {
    const { publicKey } = await sharedKeys("EC_prime256v1");
    const good = exportSpki(publicKey);
    const withPoint = (point: Buffer, curve: string = OID.prime256v1): Buffer =>
      der.sequence(der.sequence(der.oid(OID.ecPublicKey), der.oid(curve)), der.bitString(point));
    const point = Buffer.from(good.subarray(-65));
    assert.equal(weakness(withPoint(point)), undefined);
    point[64] = (point[64] ?? 0) ^ 1;
    assert.equal(weakness(withPoint(point)), "key.point");
    assert.equal(weakness(withPoint(Buffer.from([0]))), "key.point");
    assert.equal(
      weakness(withPoint(Buffer.concat([Buffer.from([2]), good.subarray(-64, -32)]))),
      "key.point",
    );
    assert.equal(weakness(withPoint(good.subarray(-65), OID.secp384r1)), "key.point");
    // A coordinate of p or more would be a second spelling of the same point.
    assert.equal(weakness(withPoint(Buffer.concat([Buffer.from([4]), Buffer.alloc(64, 0xff)]))), "key.point");
  });

  test("an Ed25519 point that is no point, is spelled twice or has tiny order", async () => {
    const { publicKey } = await sharedKeys("Ed25519");
    const withPoint = (hex: string): Buffer =>
      der.sequence(der.sequence(der.oid(OID.ed25519)), der.bitString(Buffer.from(hex, "hex")));
    assert.equal(weakness(exportSpki(publicKey)), undefined);
    // The public keys of RFC 8032 7.1, tests 1 and 2.
    assert.equal(
      weakness(withPoint("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")),
      undefined,
    );
    assert.equal(
      weakness(withPoint("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c")),
      undefined,
    );
    const bad = [
      "00".repeat(32), // order 4
      `01${"00".repeat(31)}`, // the neutral element
      `ec${"ff".repeat(30)}7f`, // order 2
      "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05", // order 8
      "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a", // order 8
      `ee${"ff".repeat(30)}7f`, // y = p + 1: the neutral element again
      `02${"00".repeat(31)}`, // no such point
      "00".repeat(31), // too short
    ];
    for (const hex of bad) assert.equal(weakness(withPoint(hex)), "key.point", hex);
  });

  test("a key on the list of compromised ones", async () => {
    const { publicKey } = await sharedKeys("Ed25519");
    const spki = exportSpki(publicKey);
    const listed = keyFingerprint(spki);
    assert.equal(findKeyWeakness(spki, { isKnownWeak: (each) => each === listed })?.code, "key.known_weak");
    assert.throws(() => assertStrongKey(spki, { isKnownWeak: () => true }), X509Error);
    assert.doesNotThrow(() => assertStrongKey(spki, { isKnownWeak: () => false }));
  });
});

test("a point with zeros before its coordinates is refused: nobody else could read the certificate", () => {
  const { publicKey } = makeCurveKey("prime256v1");
  const facts = readPublicKey(publicKey);
  assert.ok(facts.family === "ec");
  const zero = Buffer.from([0]);
  const longer = [Buffer.from([4]), zero, facts.point.subarray(1, 33), zero, facts.point.subarray(33)];
  const algorithm = der.sequence(der.oid(OID.ecPublicKey), der.oid(OID.prime256v1));
  assert.ok(exportSpki(importSpki(publicKey)).equals(publicKey));
  assert.throws(() => importSpki(der.sequence(algorithm, der.bitString(Buffer.concat(longer)))), X509Error);
});

test("a key on a curve is written byte for byte as OpenSSL writes it, zeros before the number included", () => {
  // Every second scalar on P-521 begins with a zero octet.
  for (let n = 0; n < 24; n += 1) {
    const { publicKey, privateKey } = makeCurveKey("secp521r1");
    const read = importPrivateKey(privateKey);
    assert.ok(exportPkcs8(read).equals(privateKey));
    assert.ok(exportSpki(read).equals(publicKey));
  }
});

test("kinds of key we do not certify are refused by name", () => {
  const dsa = generateKeyPairSync("dsa", { modulusLength: 2048, divisorLength: 256 }).publicKey;
  const koblitz = generateKeyPairSync("ec", { namedCurve: "secp256k1" }).publicKey;
  const explicitCurve = generateKeyPairSync("ec", {
    namedCurve: "prime256v1",
    paramEncoding: "explicit",
  }).publicKey;
  for (const key of [dsa, koblitz, explicitCurve]) {
    const spki = key.export({ type: "spki", format: "der" });
    assert.throws(
      () => readPublicKey(spki),
      (error: unknown) => error instanceof X509Error && error.code === "key.unsupported",
    );
    assert.throws(() => importSpki(spki), X509Error);
  }
});

test("a private key that cannot be read is a refusal, not a crash", async () => {
  assert.throws(() => importPrivateKey("nonsense"), X509Error);
  assert.throws(() => importPrivateKey(Buffer.from([0x30, 0])), X509Error);
  const { privateKey } = await sharedKeys("EC_prime256v1");
  const locked = privateKey
    .export({ type: "pkcs8", format: "pem", cipher: "aes-256-cbc", passphrase: "right" })
    .toString();
  assert.throws(() => importPrivateKey(locked), /encrypted/);
});

test("a private key is read in every form that tools write, and judged before OpenSSL sees it", async () => {
  const { privateKey: rsa } = await sharedKeys("RSA_2048");
  const { privateKey: ec } = await sharedKeys("EC_secp384r1");
  const { privateKey: ed } = await sharedKeys("Ed25519");
  const parameters = "-----BEGIN EC PARAMETERS-----\nBgUrgQQAIg==\n-----END EC PARAMETERS-----\n";
  for (const [key, text] of [
    [rsa, rsa.export({ type: "pkcs1", format: "pem" })],
    [rsa, rsa.export({ type: "pkcs8", format: "pem" })],
    [ec, ec.export({ type: "sec1", format: "pem" })],
    [ec, `${parameters}${ec.export({ type: "sec1", format: "pem" }).toString()}`],
    [ec, ec.export({ type: "pkcs8", format: "pem" })],
    [ed, `Bag Attributes\n${ed.export({ type: "pkcs8", format: "pem" }).toString()}`],
  ] as const)
    assert.ok(exportPkcs8(importPrivateKey(text.toString())).equals(exportPkcs8(key)));

  const refusedAs = (code: string, text: string | Buffer) =>
    assert.throws(
      () => importPrivateKey(text),
      (error: unknown) => error instanceof X509Error && error.code === code && error.field === "privateKey",
    );
  const long = der.unsignedInteger(Buffer.alloc(1025, 0xff));
  const [zero, small] = [der.integer(0), der.integer(3)];
  const pkcs1 = (...numbers: readonly Buffer[]) =>
    encodePem("RSA PRIVATE KEY", der.sequence(zero, ...numbers));
  refusedAs("key.rsa_long", pkcs1(long, small, small, small, small, small, small, small));
  for (let at = 1; at < 8; at += 1)
    refusedAs(
      "key.rsa_long",
      pkcs1(
        ...Array.from({ length: 8 }, (_, n) =>
          n === at ? long : n === 0 ? der.integer(1n << 2047n) : small,
        ),
      ),
    );
  const koblitz = generateKeyPairSync("ec", { namedCurve: "secp256k1" }).privateKey;
  const explicit = generateKeyPairSync("ec", {
    namedCurve: "prime256v1",
    paramEncoding: "explicit",
  }).privateKey;
  for (const key of [koblitz, explicit])
    for (const type of ["sec1", "pkcs8"] as const)
      refusedAs("key.unsupported", key.export({ type, format: "pem" }).toString());
  const dsa = generateKeyPairSync("dsa", { modulusLength: 1024, divisorLength: 160 }).privateKey;
  refusedAs("key.unsupported", exportPkcs8(dsa));
  refusedAs("key.unsupported", encodePem("DSA PRIVATE KEY", exportPkcs8(dsa)));
});
