// Serial numbers, in the toolkit's one spelling: small hexadecimal digits, whole octets, no leading zero octets.
// RFC 5280 4.1.2.2 allows positive numbers of at most 20 octets; the CA/Browser Forum adds 64 random bits.

import * as der from "./der.ts";
import type { DerReader } from "./der-reader.ts";
import { quote, X509Error } from "./x509-error.ts";

const refuse = (message: string): X509Error => new X509Error("serial_number", "serialNumber", message);

/**
 * A serial from 9 to 20 random octets. The two top bits are fixed to 01: never negative, never zero, and always of
 * the same width, at the price of two bits of chance.
 */
export function serialFromRandom(random: Uint8Array): string {
  if (random.length < 9 || random.length > 20)
    throw refuse("A serial number is made from 9 to 20 random octets.");
  const octets = Buffer.from(random);
  octets[0] = ((octets[0] ?? 0) & 0x3f) | 0x40;
  return octets.toString("hex");
}

/** Reads what people paste: capitals, colons, a leading zero octet. */
export function parseSerial(text: string): string {
  const digits = text.replaceAll(":", "").toLowerCase();
  if (!/^[0-9a-f]{1,42}$/.test(digits)) throw refuse(`${quote(text)} is not a serial number in hexadecimal.`);
  const trimmed = digits.replace(/^0+(?=.)/, "");
  return trimmed.length % 2 === 0 ? trimmed : `0${trimmed}`;
}

export function encodeSerial(serial: string): Buffer {
  if (!/^([0-9a-f]{2}){1,20}$/.test(serial) || /^(00)+$/.test(serial)) {
    throw refuse("A serial number is 1 to 20 octets in small hexadecimal digits, and not zero.");
  }
  const encoded = der.unsignedInteger(Buffer.from(serial, "hex"));
  // The sign octet counts: 20 octets with the top bit set would become 21.
  if (encoded.length > 22) throw refuse("A serial number may have at most 20 octets, sign included.");
  return encoded;
}

/** Foreign certificates do carry zero and negative serials; those read as "00" and "-05", and the lint objects. */
export function readSerial(reader: DerReader): string {
  const content = reader.integerContent();
  if (content.length > 64) throw reader.error("a serial number of more than 64 octets");
  if ((content[0] ?? 0) < 0x80) return parseMagnitude(content);
  const magnitude = -BigInt.asIntN(content.length * 8, BigInt(`0x${content.toString("hex")}`));
  const digits = magnitude.toString(16);
  return `-${digits.length % 2 === 0 ? digits : `0${digits}`}`;
}

function parseMagnitude(content: Buffer): string {
  return (content.length > 1 && content[0] === 0 ? content.subarray(1) : content).toString("hex");
}
