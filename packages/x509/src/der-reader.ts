// DER, the reading half: a cursor over one value that was written by somebody else, possibly to hurt us.
//
// It accepts exactly the encodings der.ts would produce. BER offers many spellings of one value (long lengths,
// padded integers, 0x01 for TRUE) and each spelling is a place where two parsers can disagree about what was
// signed; so a second spelling is an error, as are trailing bytes, indefinite lengths and constructed strings.
// Nothing is copied: byte results are views of the input.

import { DerError, TAG } from "./der.ts";

export interface DerLimits {
  readonly maxBytes: number;
  readonly maxDepth: number;
}

/** Far above any honest certificate, far below anything that hurts. */
export const DEFAULT_LIMITS: DerLimits = { maxBytes: 1 << 20, maxDepth: 32 };

interface BitString {
  readonly unusedBits: number;
  readonly bytes: Buffer;
}

export interface DerTime {
  readonly at: Date;
  readonly form: "UTCTime" | "GeneralizedTime";
}

/** Reads one value that must fill `bytes` to the last octet. */
export function readDer<T>(bytes: Buffer, read: (reader: DerReader) => T, limits = DEFAULT_LIMITS): T {
  if (bytes.length > limits.maxBytes)
    throw new DerError(`longer than ${limits.maxBytes} bytes`, limits.maxBytes);
  const reader = new DerReader(bytes, { at: 0, end: bytes.length, depthLeft: limits.maxDepth });
  const value = read(reader);
  reader.end();
  return value;
}

interface Window {
  readonly at: number;
  readonly end: number;
  readonly depthLeft: number;
}

export class DerReader {
  readonly #bytes: Buffer;
  readonly #end: number;
  readonly #depthLeft: number;
  #at: number;

  constructor(bytes: Buffer, window: Window) {
    this.#bytes = bytes;
    this.#at = window.at;
    this.#end = window.end;
    this.#depthLeft = window.depthLeft;
  }

  get isDone(): boolean {
    return this.#at === this.#end;
  }

  /** The identifier octet of the next value, or undefined at the end. */
  get nextTag(): number | undefined {
    return this.#at < this.#end ? this.#bytes[this.#at] : undefined;
  }

  end(): void {
    if (this.#at !== this.#end) throw this.error("trailing bytes");
  }

  error(message: string): DerError {
    return new DerError(message, this.#at);
  }

  /** The next value whole, header included: for parts that are copied or hashed as they are. */
  element(tag?: number): Buffer {
    const start = this.#at;
    this.#skipHead(tag);
    return this.#bytes.subarray(start, this.#at);
  }

  /** The content octets of the next value, which must carry `tag`. */
  content(tag: number): Buffer {
    const start = this.#skipHead(tag);
    return this.#bytes.subarray(start, this.#at);
  }

  /** A reader for the inside of the next value, which must carry `tag`; the caller calls `end()` on it. */
  enter(tag: number): DerReader {
    if ((tag & 0x20) === 0) throw this.error("a primitive value has no inside");
    if (this.#depthLeft === 0) throw this.error("nested too deeply");
    const start = this.#skipHead(tag);
    return new DerReader(this.#bytes, { at: start, end: this.#at, depthLeft: this.#depthLeft - 1 });
  }

  /** What `read` makes of the next value or values, together with the bytes they took. */
  capture<T>(read: (reader: DerReader) => T): { value: T; bytes: Buffer } {
    const start = this.#at;
    const value = read(this);
    return { value, bytes: this.#bytes.subarray(start, this.#at) };
  }

  /** Reads all of a constructed value: what `read` leaves over is an error. */
  within<T>(tag: number, read: (inside: DerReader) => T): T {
    const inside = this.enter(tag);
    const value = read(inside);
    inside.end();
    return value;
  }

  sequence<T>(read: (inside: DerReader) => T): T {
    return this.within(TAG.sequence, read);
  }

  /** Reads `tag` if it comes next. */
  optional<T>(tag: number, read: (reader: DerReader) => T): T | undefined {
    return this.nextTag === tag ? read(this) : undefined;
  }

  /** Every value inside a constructed value, in order. */
  list<T>(tag: number, read: (reader: DerReader) => T): T[] {
    return this.within(tag, (inside) => {
      const values: T[] = [];
      while (!inside.isDone) values.push(read(inside));
      return values;
    });
  }

  /** SET OF, in the order DER demands. */
  setOf<T>(read: (reader: DerReader) => T): T[] {
    let previous: Buffer | undefined;
    return this.list(TAG.set, (inside) => {
      const { value, bytes } = inside.capture(read);
      if (previous !== undefined && Buffer.compare(previous, bytes) > 0) {
        throw inside.error("SET OF members out of order");
      }
      previous = bytes;
      return value;
    });
  }

  boolean(tag: number = TAG.boolean): boolean {
    const content = this.content(tag);
    const octet = content[0];
    if (content.length !== 1 || (octet !== 0 && octet !== 0xff)) throw this.error("BOOLEAN must be 00 or FF");
    return octet === 0xff;
  }

  /** `BOOLEAN DEFAULT FALSE`: DER forbids writing the default out. */
  defaultFalse(tag: number = TAG.boolean): boolean {
    if (this.nextTag !== tag) return false;
    if (!this.boolean(tag)) throw this.error("a default FALSE must be left out");
    return true;
  }

  /** Content octets of an INTEGER: two's complement, minimal. */
  integerContent(tag: number = TAG.integer): Buffer {
    const content = this.content(tag);
    const [first, second] = content;
    if (first === undefined) throw this.error("INTEGER without octets");
    if (second !== undefined && ((first === 0 && second < 0x80) || (first === 0xff && second >= 0x80))) {
      throw this.error("INTEGER with a redundant leading octet");
    }
    return content;
  }

  integer(tag: number = TAG.integer): bigint {
    const content = this.integerContent(tag);
    return BigInt.asIntN(content.length * 8, BigInt(`0x${content.toString("hex")}`));
  }

  /** An INTEGER that the standard keeps small: a version, a path length, an iteration count. */
  smallInteger(tag: number = TAG.integer): number {
    const content = this.integerContent(tag);
    if (content.length > 6) throw this.error("INTEGER too large here");
    return content.readIntBE(0, content.length);
  }

  oid(tag: number = TAG.oid): string {
    const content = this.content(tag);
    const last = content.at(-1);
    if (last === undefined || last >= 0x80) throw this.error("OBJECT IDENTIFIER cut short");
    if (content.length > 64) throw this.error("OBJECT IDENTIFIER too long");
    const key = content.toString("latin1");
    const known = dottedCache.get(key);
    if (known !== undefined) return known;
    const dotted = this.#dotted(content);
    if (dottedCache.size < DOTTED_CACHE_LIMIT) dottedCache.set(key, dotted);
    return dotted;
  }

  #dotted(content: Buffer): string {
    const arcs: string[] = [];
    let arc = 0n;
    let isFresh = true;
    for (const octet of content) {
      if (isFresh && octet === 0x80) throw this.error("OBJECT IDENTIFIER with a padded arc");
      arc = (arc << 7n) | BigInt(octet & 0x7f);
      isFresh = octet < 0x80;
      if (!isFresh) continue;
      if (arc >= 1n << 128n) throw this.error("OBJECT IDENTIFIER arc above 128 bits");
      if (arcs.length === 0) {
        const root = arc < 80n ? arc / 40n : 2n;
        arcs.push(`${root}`);
        arc -= root * 40n;
      }
      arcs.push(`${arc}`);
      arc = 0n;
    }
    return arcs.join(".");
  }

  null(): void {
    if (this.content(TAG.null).length !== 0) throw this.error("NULL with content");
  }

  octetString(tag: number = TAG.octetString): Buffer {
    return this.content(tag);
  }

  bitString(tag: number = TAG.bitString): BitString {
    const content = this.content(tag);
    const unusedBits = content[0];
    const bytes = content.subarray(1);
    if (unusedBits === undefined || unusedBits > 7 || (bytes.length === 0 && unusedBits > 0)) {
      throw this.error("BIT STRING with a bad count of unused bits");
    }
    if (((bytes.at(-1) ?? 0) & ((1 << unusedBits) - 1)) !== 0) throw this.error("BIT STRING with stray bits");
    return { unusedBits, bytes };
  }

  /** A BIT STRING of whole octets: a key or a signature. */
  octetsInBitString(): Buffer {
    const { unusedBits, bytes } = this.bitString();
    if (unusedBits !== 0) throw this.error("BIT STRING of whole octets expected");
    return bytes;
  }

  /**
   * Positions set in a named-bit list. DER wants trailing zero bits cut, and only whoever knows that the bits have names
   * can tell; roots in every browser break the rule, so it is left to the lint.
   */
  namedBits(tag: number = TAG.bitString): number[] {
    const { bytes } = this.bitString(tag);
    const positions: number[] = [];
    for (let bit = 0; bit < bytes.length * 8; bit += 1) {
      if (((bytes[bit >> 3] ?? 0) & (0x80 >> (bit & 7))) !== 0) positions.push(bit);
    }
    return positions;
  }

  ia5String(tag: number = TAG.ia5String): string {
    const content = this.content(tag);
    if (content.some((octet) => octet >= 0x80)) throw this.error("IA5String outside ASCII");
    return content.toString("latin1");
  }

  utf8String(tag: number = TAG.utf8String): string {
    return this.#utf8(this.content(tag));
  }

  #utf8(content: Buffer): string {
    try {
      return strictUtf8.decode(content);
    } catch {
      throw this.error("UTF8String is not UTF-8");
    }
  }

  /** UTCTime or GeneralizedTime in the only spelling DER and RFC 5280 leave: seconds, Zulu, no fraction. */
  time(): DerTime {
    const isUtc = this.nextTag === TAG.utcTime;
    const text = this.content(isUtc ? TAG.utcTime : TAG.generalizedTime).toString("latin1");
    const full = isUtc ? (text.slice(0, 2) < "50" ? "20" : "19") + text : text;
    const parts = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/.exec(full);
    if (parts === null) throw this.error("a time must read YYMMDDHHMMSSZ or YYYYMMDDHHMMSSZ");
    const [, year, month, day, hour, minute, second] = parts;
    const iso = `${year}-${month}-${day}T${hour}:${minute}:${second}.000Z`;
    const at = new Date(iso);
    // An impossible day rolls over in Date; the way back tells.
    if (Number.isNaN(at.getTime()) || at.toISOString() !== iso) throw this.error("no such moment");
    return { at, form: isUtc ? "UTCTime" : "GeneralizedTime" };
  }

  /** Checks the header, moves past the value, returns where its content starts. */
  #skipHead(expected: number | undefined): number {
    const tag = this.nextTag;
    if (tag === undefined) throw this.error("a value is missing");
    if (expected !== undefined && tag !== expected)
      throw this.error(`tag ${hex(tag)} where ${hex(expected)} belongs`);
    if ((tag & 0x1f) === 0x1f) throw this.error("multi-octet tags do not occur here");
    const first = this.#at + 1 < this.#end ? this.#bytes[this.#at + 1] : undefined;
    if (first === undefined) throw this.error("cut short before the length");
    if (first < 0x80) return this.#advance(this.#at + 2, first);
    const octets = first & 0x7f;
    if (octets === 0) throw this.error("indefinite length");
    if (octets > 4) throw this.error("length of more than four octets");
    if (this.#at + 2 + octets > this.#end) throw this.error("cut short inside the length");
    const length = this.#bytes.readUIntBE(this.#at + 2, octets);
    if (length < 0x80 || length < 2 ** (8 * (octets - 1)))
      throw this.error("length not in its shortest form");
    return this.#advance(this.#at + 2 + octets, length);
  }

  #advance(contentStart: number, length: number): number {
    if (length > this.#end - contentStart) throw this.error("longer than what surrounds it");
    this.#at = contentStart + length;
    return contentStart;
  }
}

// Certificates name the same thirty identifiers over and over; the bound keeps an attacker from filling memory.
const dottedCache = new Map<string, string>();
const DOTTED_CACHE_LIMIT = 1024;

// ignoreBOM keeps a leading U+FEFF as a character; stripping it would make two encodings read alike.
const strictUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const hex = (tag: number): string => `0x${tag.toString(16).padStart(2, "0")}`;
