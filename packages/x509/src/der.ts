// DER, the writing half (X.690). Every function returns the complete TLV of one value, so a structure is written
// by nesting calls in the order the ASN.1 module lists its fields. Each level is one allocation and one copy of
// its children; a certificate is five levels deep, which is cheaper than any cleverness that would avoid it.
//
// The reading half is der-reader.ts. Both agree on one rule: what we read is what we would have written.

/** Bytes that are not DER. `offset` counts from the start of the bytes that were handed to the reader. */
export class DerError extends Error {
  readonly offset: number;

  constructor(message: string, offset: number) {
    super(`${message} (at byte ${offset})`);
    this.name = "DerError";
    this.offset = offset;
  }
}

/** Identifier octets of the types X.509 uses. SEQUENCE and SET carry the constructed bit. */
export const TAG = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  null: 0x05,
  oid: 0x06,
  enumerated: 0x0a,
  utf8String: 0x0c,
  numericString: 0x12,
  printableString: 0x13,
  teletexString: 0x14,
  ia5String: 0x16,
  utcTime: 0x17,
  generalizedTime: 0x18,
  visibleString: 0x1a,
  universalString: 0x1c,
  bmpString: 0x1e,
  sequence: 0x30,
  set: 0x31,
} as const;

/** `[n] IMPLICIT` over a primitive type. */
export const contextTag = (number: number): number => 0x80 | number;
/** `[n] EXPLICIT`, or `[n] IMPLICIT` over a SEQUENCE or SET. */
export const contextConstructedTag = (number: number): number => 0xa0 | number;

export function tlv(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  return tlvOf(tag, parts);
}

/** As `tlv`, for lists too long to be arguments: a revocation list has hundreds of thousands of parts. */
export function tlvOf(tag: number, parts: readonly Uint8Array[]): Buffer {
  let length = 0;
  for (const part of parts) length += part.length;
  const head = headLength(length);
  const out = Buffer.allocUnsafe(head + length);
  writeHead(out, tag, length);
  let at = head;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

function headLength(contentLength: number): number {
  if (contentLength < 0x80) return 2;
  if (contentLength < 0x100) return 3;
  if (contentLength < 0x10000) return 4;
  if (contentLength < 0x1000000) return 5;
  return 6;
}

function writeHead(out: Buffer, tag: number, length: number): void {
  out[0] = tag;
  if (length < 0x80) {
    out[1] = length;
    return;
  }
  const lengthOctets = headLength(length) - 2;
  out[1] = 0x80 | lengthOctets;
  out.writeUIntBE(length, 2, lengthOctets);
}

export const sequence = (...parts: readonly Uint8Array[]): Buffer => tlvOf(TAG.sequence, parts);
export const sequenceOf = (parts: readonly Uint8Array[]): Buffer => tlvOf(TAG.sequence, parts);

/** SET OF: DER orders the members by their encodings (X.690 11.6). */
export function setOf(parts: readonly Uint8Array[]): Buffer {
  return tlvOf(TAG.set, parts.length < 2 ? parts : [...parts].sort(Buffer.compare));
}

export const explicit = (number: number, ...parts: readonly Uint8Array[]): Buffer =>
  tlvOf(contextConstructedTag(number), parts);

export const boolean = (value: boolean): Buffer => tlv(TAG.boolean, Buffer.from([value ? 0xff : 0]));
export const nullValue = (): Buffer => Buffer.from([TAG.null, 0]);
export const octetString = (bytes: Uint8Array): Buffer => tlv(TAG.octetString, bytes);
export const enumerated = (value: number): Buffer => tlv(TAG.enumerated, integerContent(BigInt(value)));
export const integer = (value: number | bigint): Buffer => tlv(TAG.integer, integerContent(BigInt(value)));

/** INTEGER from a big-endian magnitude of any width: leading zeros go, and a sign octet comes when needed. */
export function unsignedInteger(magnitude: Uint8Array): Buffer {
  let start = 0;
  while (start < magnitude.length - 1 && magnitude[start] === 0) start += 1;
  const digits = magnitude.subarray(start);
  const first = digits[0];
  if (first === undefined) return tlv(TAG.integer, Buffer.from([0]));
  return first < 0x80 ? tlv(TAG.integer, digits) : tlv(TAG.integer, Buffer.from([0]), digits);
}

/** Two's complement in the fewest octets. */
export function integerContent(value: bigint): Buffer {
  let octets = 1;
  while (BigInt.asIntN(octets * 8, value) !== value) octets += 1;
  const hex = BigInt.asUintN(octets * 8, value).toString(16);
  return Buffer.from(hex.padStart(octets * 2, "0"), "hex");
}

export function bitString(bytes: Uint8Array, unusedBits = 0): Buffer {
  return tlv(TAG.bitString, Buffer.from([unusedBits]), bytes);
}

/** A named-bit list such as KeyUsage: bit 0 is the leftmost, trailing zero bits are not sent (X.690 11.2.2). */
export function namedBits(positions: readonly number[]): Buffer {
  const last = Math.max(-1, ...positions);
  const bytes = Buffer.alloc(Math.ceil((last + 1) / 8));
  for (const position of positions) {
    const index = position >> 3;
    bytes[index] = (bytes[index] ?? 0) | (0x80 >> (position & 7));
  }
  return bitString(bytes, bytes.length * 8 - (last + 1));
}

export const utf8String = (text: string): Buffer => tlv(TAG.utf8String, Buffer.from(text, "utf8"));
export const ia5String = (text: string): Buffer => tlv(TAG.ia5String, Buffer.from(text, "latin1"));
export const printableString = (text: string): Buffer =>
  tlv(TAG.printableString, Buffer.from(text, "latin1"));

/** UTF-16BE, as PKCS#12 wants friendly names. */
export function bmpString(text: string): Buffer {
  return tlv(TAG.bmpString, Buffer.from(text, "utf16le").swap16());
}

const oidCache = new Map<string, Buffer>();
const OID_CACHE_LIMIT = 1024;

/** OBJECT IDENTIFIER from dotted text. The handful of identifiers X.509 uses is remembered. */
export function oid(dotted: string): Buffer {
  const known = oidCache.get(dotted);
  if (known !== undefined) return known;
  const encoded = tlv(TAG.oid, oidContent(dotted));
  if (oidCache.size < OID_CACHE_LIMIT) oidCache.set(dotted, encoded);
  return encoded;
}

export function oidContent(dotted: string): Buffer {
  if (!/^[0-2](\.(0|[1-9]\d{0,38}))+$/.test(dotted))
    throw new DerError(`"${dotted}" is not an object identifier`, 0);
  const [root = 0n, second = 0n, ...rest] = dotted.split(".").map(BigInt);
  if (root < 2n && second > 39n) throw new DerError(`"${dotted}" has a second arc above 39`, 0);
  return Buffer.from([root * 40n + second, ...rest].flatMap(base128));
}

function base128(arc: bigint): number[] {
  const digits = [Number(arc & 0x7fn)];
  for (let left = arc >> 7n; left > 0n; left >>= 7n) digits.unshift(Number(left & 0x7fn) | 0x80);
  return digits;
}

/** The form RFC 5280 4.1.2.5 demands for the year: UTCTime to 2049, GeneralizedTime from 2050. */
export function time(at: Date): Buffer {
  const year = at.getUTCFullYear();
  return year >= 1950 && year < 2050 ? utcTime(at) : generalizedTime(at);
}

export const utcTime = (at: Date): Buffer => encodeTime(TAG.utcTime, at, 2);
export const generalizedTime = (at: Date): Buffer => encodeTime(TAG.generalizedTime, at, 4);

/** [YY]YYMMDDHHMMSSZ. Fractions of a second are cut, never rounded: a rounded notBefore could lie in the future. */
function encodeTime(tag: number, at: Date, yearDigits: 2 | 4): Buffer {
  const year = at.getUTCFullYear();
  if (!(year >= 0 && year <= 9999)) throw new DerError("a time must lie in the years 0000 to 9999", 0);
  const out = Buffer.allocUnsafe(13 + yearDigits);
  out[0] = tag;
  out[1] = 11 + yearDigits;
  if (yearDigits === 4) writeTwoDigits(out, 2, Math.trunc(year / 100));
  const pairs = [
    year % 100,
    at.getUTCMonth() + 1,
    at.getUTCDate(),
    at.getUTCHours(),
    at.getUTCMinutes(),
    at.getUTCSeconds(),
  ];
  let offset = yearDigits;
  for (const pair of pairs) {
    writeTwoDigits(out, offset, pair);
    offset += 2;
  }
  out[offset] = 0x5a;
  return out;
}

function writeTwoDigits(out: Buffer, at: number, value: number): void {
  out[at] = 0x30 + Math.trunc(value / 10);
  out[at + 1] = 0x30 + (value % 10);
}
