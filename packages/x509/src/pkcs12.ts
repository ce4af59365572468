// PKCS#12 (RFC 7292): a private key with its certificates in one file under one password. Certificates and key
// are both encrypted with PBES2 (PBKDF2-HMAC-SHA256, AES-256-CBC) and the whole is authenticated with HMAC-SHA256, which is
// what OpenSSL 3 and Java 17 write themselves.

import { createCipheriv, createHmac, hash, pbkdf2, randomBytes, type KeyObject } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import { promisify } from "node:util";
import * as der from "./der.ts";
import { exportPkcs8 } from "./keys.ts";
import { OID } from "./oids.ts";
import { X509Error } from "./x509-error.ts";

const derive = promisify(pbkdf2);

export interface KeyBundle {
  readonly privateKey: KeyObject;
  readonly certificate: Buffer;
  /** Issuers, nearest first. */
  readonly chain: readonly Buffer[];
  readonly friendlyName: string;
}

interface Pkcs12Options {
  readonly password: string;
  /** Rounds of PBKDF2 and of the MAC alike: an attacker would try the cheaper of the two. */
  readonly iterations?: number;
  /** For tests that need the same bytes twice. */
  readonly random?: (octets: number) => Buffer;
}

interface Protection {
  readonly password: string;
  readonly iterations: number;
  readonly random: (octets: number) => Buffer;
}

const DEFAULT_ITERATIONS = 10_000;

export async function buildPkcs12(bundle: KeyBundle, options: Pkcs12Options): Promise<Buffer> {
  const protection: Protection = { iterations: DEFAULT_ITERATIONS, random: randomBytes, ...options };
  // OpenSSL would take lone surrogates for something else than Java does; nobody types them.
  if (/\p{Surrogate}/u.test(protection.password))
    throw new X509Error("pkcs12.password", "password", "Not valid text.");
  const keyId = hash("sha1", bundle.certificate, "buffer");
  const ownAttributes = [
    friendlyName(bundle.friendlyName),
    attribute(OID.localKeyId, der.octetString(keyId)),
  ];
  const certificates = der.sequence(
    certificateBag(bundle.certificate, ownAttributes),
    ...bundle.chain.map((issuer) => certificateBag(issuer, [])),
  );
  const [sealedCertificates, sealedKey] = await Promise.all([
    encrypt(certificates, protection),
    encrypt(exportPkcs8(bundle.privateKey), protection),
  ]);
  const encryptedKey = der.sequence(sealedKey.algorithm, der.octetString(sealedKey.ciphertext));
  const keyBag = bag(OID.shroudedKeyBag, encryptedKey, ownAttributes);
  const safe = der.sequence(encryptedContent(sealedCertificates), plainContent(der.sequence(keyBag)));
  return der.sequence(der.integer(3), plainContent(safe), await encodeMac(safe, protection));
}

function bag(type: string, value: Buffer, attributes: readonly Buffer[]): Buffer {
  const parts = [der.oid(type), der.explicit(0, value)];
  if (attributes.length > 0) parts.push(der.setOf(attributes));
  return der.sequenceOf(parts);
}

const certificateBag = (certificate: Buffer, attributes: readonly Buffer[]): Buffer =>
  bag(
    OID.certBag,
    der.sequence(der.oid(OID.x509Certificate), der.explicit(0, der.octetString(certificate))),
    attributes,
  );

const attribute = (type: string, value: Buffer): Buffer => der.sequence(der.oid(type), der.setOf([value]));
const friendlyName = (name: string): Buffer => attribute(OID.friendlyName, der.bmpString(name));

const plainContent = (content: Buffer): Buffer =>
  der.sequence(der.oid(OID.pkcs7Data), der.explicit(0, der.octetString(content)));

interface Sealed {
  readonly algorithm: Buffer;
  readonly ciphertext: Buffer;
}

function encryptedContent({ algorithm, ciphertext }: Sealed): Buffer {
  const content = der.sequence(der.oid(OID.pkcs7Data), algorithm, der.tlv(der.contextTag(0), ciphertext));
  const encrypted = der.sequence(der.integer(0), content);
  return der.sequence(der.oid(OID.pkcs7EncryptedData), der.explicit(0, encrypted));
}

async function encrypt(plaintext: Buffer, { password, iterations, random }: Protection): Promise<Sealed> {
  const salt = random(16);
  const iv = random(16);
  const key = await derive(Buffer.from(password, "utf8"), salt, iterations, 32, "sha256");
  const cipher = createCipheriv("aes-256-cbc", key, iv);
  const ciphertext = Buffer.concat([cipher.update(plaintext), cipher.final()]);
  const prf = der.sequence(der.oid(OID.hmacWithSha256), der.nullValue());
  const kdfParameters = der.sequence(der.octetString(salt), der.integer(iterations), der.integer(32), prf);
  const kdf = der.sequence(der.oid(OID.pbkdf2), kdfParameters);
  const scheme = der.sequence(der.oid(OID.aes256Cbc), der.octetString(iv));
  return { algorithm: der.sequence(der.oid(OID.pbes2), der.sequence(kdf, scheme)), ciphertext };
}

async function encodeMac(content: Buffer, { password, iterations, random }: Protection): Promise<Buffer> {
  const salt = random(16);
  const key = await deriveMacKey(password, salt, iterations);
  const mac = createHmac("sha256", key).update(content).digest();
  const digest = der.sequence(der.sequence(der.oid(OID.sha256), der.nullValue()), der.octetString(mac));
  return der.sequence(digest, der.octetString(salt), der.integer(iterations));
}

const TURN_ROUNDS = 2_000;

let line: Promise<void> = Promise.resolve();
/** One of all that are under way goes on per round of the event loop: of hundreds at once each would take its chunk otherwise. */
const nextTurn = (): Promise<void> => (line = line.then(() => setImmediate()));

/**
 * RFC 7292 appendix B.2 for one block of SHA-256: the digest of (3, salt, password), digested again and again. OpenSSL
 * offers no asynchronous form, so the loop gives way to other work now and then.
 */
async function deriveMacKey(password: string, salt: Buffer, iterations: number): Promise<Buffer> {
  const wide = Buffer.from(`${password}\0`, "utf16le").swap16();
  let digest: Buffer = Buffer.concat([Buffer.alloc(64, 3), repeatToBlock(salt), repeatToBlock(wide)]);
  for (let round = 1; round <= iterations; round += 1) {
    digest = hash("sha256", digest, "buffer");
    if (round % TURN_ROUNDS === 0) await nextTurn();
  }
  return digest;
}

const repeatToBlock = (bytes: Buffer): Buffer => Buffer.alloc(Math.ceil(bytes.length / 64) * 64, bytes);
