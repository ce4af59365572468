// JKS, Java's keystore before PKCS#12. Its protection is weak by today's measure (SHA-1 as a stream cipher), and it is
// written only because old Java programs read nothing else. The layout has no standard beyond the JDK's own reader:
// big-endian numbers, Java's length-prefixed strings, and a digest over password, a fixed phrase and the content.

import { createHash, randomBytes } from "node:crypto";
import * as der from "./der.ts";
import { exportPkcs8 } from "./keys.ts";
import { OID } from "./oids.ts";
import type { KeyBundle } from "./pkcs12.ts";
import { X509Error } from "./x509-error.ts";

interface JksOptions {
  /** Protects the store and the key in it alike, as Java tools expect. At least six characters, or keytool refuses. */
  readonly password: string;
  readonly createdAt: Date;
  readonly random?: (octets: number) => Buffer;
}

const MAGIC = 0xfeedfeed;
const VERSION = 2;
const PRIVATE_KEY_ENTRY = 1;

export function buildJks(
  bundle: KeyBundle,
  { password, createdAt, random = randomBytes }: JksOptions,
): Buffer {
  if (password.length < 6) {
    throw new X509Error("jks.password", "password", "A JKS password needs at least six characters.");
  }
  const passwordBytes = Buffer.from(password, "utf16le").swap16();
  const protectedKey = protectKey(exportPkcs8(bundle.privateKey), passwordBytes, random(20));
  const chain = [bundle.certificate, ...bundle.chain];
  const content = Buffer.concat([
    uint32(MAGIC),
    uint32(VERSION),
    uint32(1),
    uint32(PRIVATE_KEY_ENTRY),
    // Java looks aliases up in small letters and would not find any other spelling.
    javaText(bundle.friendlyName.toLowerCase()),
    uint64(createdAt.getTime()),
    sized(protectedKey),
    uint32(chain.length),
    ...chain.flatMap((certificate) => [javaText("X.509"), sized(certificate)]),
  ]);
  return Buffer.concat([content, sha1(passwordBytes, Buffer.from("Mighty Aphrodite", "latin1"), content)]);
}

/** The JDK's key protector: salt, the key XORed with a SHA-1 keystream, and a digest to recognise the password. */
function protectKey(pkcs8: Buffer, password: Buffer, salt: Buffer): Buffer {
  const hidden = Buffer.from(pkcs8);
  let block = salt;
  for (let at = 0; at < hidden.length; at += 20) {
    block = sha1(password, block);
    for (let index = 0; index < 20 && at + index < hidden.length; index += 1) {
      hidden[at + index] = (hidden[at + index] ?? 0) ^ (block[index] ?? 0);
    }
  }
  const algorithm = der.sequence(der.oid(OID.jksKeyProtector), der.nullValue());
  return der.sequence(algorithm, der.octetString(Buffer.concat([salt, hidden, sha1(password, pkcs8)])));
}

function sha1(...parts: readonly Buffer[]): Buffer {
  const digest = createHash("sha1");
  for (const part of parts) digest.update(part);
  return digest.digest();
}

function uint32(value: number): Buffer {
  const out = Buffer.alloc(4);
  out.writeUInt32BE(value);
  return out;
}

function uint64(value: number): Buffer {
  const out = Buffer.alloc(8);
  out.writeBigUInt64BE(BigInt(value));
  return out;
}

const sized = (bytes: Buffer): Buffer => Buffer.concat([uint32(bytes.length), bytes]);

/** DataOutput.writeUTF: UTF-8 of each UTF-16 unit by itself, with NUL in two octets. */
function javaText(text: string): Buffer {
  const octets: number[] = [];
  for (let index = 0; index < text.length; index += 1) {
    const unit = text.charCodeAt(index);
    if (unit >= 1 && unit <= 0x7f) octets.push(unit);
    else if (unit <= 0x7ff) octets.push(0xc0 | (unit >> 6), 0x80 | (unit & 0x3f));
    else octets.push(0xe0 | (unit >> 12), 0x80 | ((unit >> 6) & 0x3f), 0x80 | (unit & 0x3f));
  }
  if (octets.length > 0xffff) throw new X509Error("jks.alias", "friendlyName", "The alias is too long.");
  return Buffer.from([octets.length >> 8, octets.length & 0xff, ...octets]);
}
