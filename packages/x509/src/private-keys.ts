// Private keys, ours and other people's. OpenSSL works out the public half of some kinds while it reads them, with
// numbers as long as the sender likes: seconds, on the main thread. So what a key is and how long its numbers are is
// read here first, and OpenSSL gets the very bytes that were read, never the text around them.

import { createPrivateKey, type KeyObject } from "node:crypto";
import * as der from "./der.ts";
import { readDer, type DerReader } from "./der-reader.ts";
import { CURVES, familyOf, MAX_RSA_BITS, tooLong, unsupported } from "./keys.ts";
import { OID } from "./oids.ts";
import { decodePem } from "./pem.ts";
import { X509Error } from "./x509-error.ts";

type Form = "pkcs8" | "pkcs1" | "sec1";
interface Encoded {
  readonly form: Form;
  readonly bytes: Buffer;
}

const FORMS: Readonly<Record<string, Form | undefined>> = {
  "PRIVATE KEY": "pkcs8",
  "RSA PRIVATE KEY": "pkcs1",
  "EC PRIVATE KEY": "sec1",
};
const FIELD = "privateKey";
const unreadable = (why = "The private key cannot be read."): X509Error =>
  new X509Error("key.invalid", FIELD, why);

/** The first private key in the text, as OpenSSL chooses too: curve parameters or a certificate may stand before it. */
function fromPem(text: string): Encoded {
  if (/ENCRYPTED/.test(text))
    throw unreadable("The private key is encrypted. Send it without a passphrase, as PKCS#8.");
  const block = decodePem(text).find(({ label }) => label.endsWith("PRIVATE KEY"));
  if (block === undefined) throw unreadable();
  const form = FORMS[block.label];
  if (form === undefined) throw unsupported(`A ${block.label} is not supported.`, FIELD);
  return { form, bytes: block.der };
}

const MAX_OCTETS = MAX_RSA_BITS / 8;
const MAX_EXPONENT_OCTETS = 32;

/** A positive number of at most so many octets, and how many it has. */
function octetsOf(reader: DerReader, most: number): number {
  const content = reader.integerContent();
  const [first = 0] = content;
  if (first >= 0x80) throw unreadable("An RSA key has positive numbers.");
  const octets = first === 0 ? content.length - 1 : content.length;
  if (octets > most) {
    const { code, message } = tooLong(octets * 8);
    throw new X509Error(code, FIELD, message);
  }
  return octets;
}

/** RFC 8017 A.1.2: of two primes, and no number is longer than the modulus. */
function judgeRsa(bytes: Buffer): void {
  readDer(bytes, (reader) =>
    reader.sequence((key) => {
      if (key.smallInteger() !== 0) throw unsupported("RSA keys of more than two primes are refused.", FIELD);
      const modulus = octetsOf(key, MAX_OCTETS);
      octetsOf(key, MAX_EXPONENT_OCTETS);
      for (let others = 0; others < 6; others += 1) octetsOf(key, modulus);
    }),
  );
}

function curveOf(reader: DerReader) {
  if (reader.nextTag !== der.TAG.oid)
    throw unsupported("Curves given by explicit parameters are refused.", FIELD);
  const named = CURVES[reader.oid()];
  if (named === undefined) throw unsupported("This elliptic curve is not supported.", FIELD);
  return named;
}

/** RFC 5915. `outside` is the curve that PKCS#8 names; if both name one, it must be the same. */
function judgeCurve(bytes: Buffer, outside?: ReturnType<typeof curveOf>): void {
  readDer(bytes, (reader) =>
    reader.sequence((key) => {
      if (key.smallInteger() !== 1) throw unreadable();
      const scalar = key.octetString();
      const tag = der.contextConstructedTag(0);
      const inside = key.optional(tag, (each) => each.within(tag, curveOf));
      const curve = outside ?? inside;
      if (curve === undefined || (inside !== undefined && inside !== curve)) throw unreadable();
      const octets = Math.ceil(curve.bits / 8);
      // Some write a zero before the number.
      if (scalar.length > octets + 1) throw unreadable();
      const pointTag = der.contextConstructedTag(1);
      const point = key.optional(pointTag, (each) =>
        each.within(pointTag, (bits) => bits.octetsInBitString()),
      );
      if (point !== undefined && point.length > 1 + 2 * octets) throw unreadable();
    }),
  );
}

/** RFC 5958: attributes and a public key may follow. */
function judgePkcs8(bytes: Buffer): void {
  readDer(bytes, (reader) =>
    reader.sequence((info) => {
      if (info.smallInteger() > 1) throw unreadable();
      const algorithm = info.enter(der.TAG.sequence);
      const type = algorithm.oid();
      if (type === OID.rsaEncryption) {
        algorithm.optional(der.TAG.null, (each) => each.null());
        judgeRsa(info.octetString());
      } else if (type === OID.ecPublicKey) judgeCurve(info.octetString(), curveOf(algorithm));
      else if (type === OID.ed25519) {
        const seed = readDer(info.octetString(), (inside) => inside.octetString());
        if (seed.length !== 32) throw unreadable();
      } else throw unsupported(`Keys of type ${type} are not supported.`, FIELD);
      algorithm.end();
      while (!info.isDone) info.element();
    }),
  );
}

const JUDGES: Readonly<Record<Form, (bytes: Buffer) => void>> = {
  pkcs8: judgePkcs8,
  pkcs1: judgeRsa,
  sec1: (bytes) => judgeCurve(bytes),
};

/** PKCS#8 as DER, or PEM: PKCS#8, PKCS#1 or SEC 1. */
export function importPrivateKey(key: Buffer | string): KeyObject {
  try {
    const { form, bytes } = typeof key === "string" ? fromPem(key) : { form: "pkcs8" as const, bytes: key };
    JUDGES[form](bytes);
    const imported = createPrivateKey({ key: bytes, format: "der", type: form });
    familyOf(imported);
    return imported;
  } catch (cause) {
    if (cause instanceof X509Error && cause.code.startsWith("key.")) throw cause;
    throw unreadable();
  }
}
