// Distinguished names as text (RFC 4514): `CN=db,OU=Ops+OU=Night,O=Acme\, Inc.,C=DE`, most particular part first,
// so the reverse of the order in DER.

import {
  keywordOf,
  typeOfKeyword,
  type DistinguishedName,
  type NameAttribute,
  type RelativeName,
} from "./names.ts";
import { X509Error } from "./x509-error.ts";

const MAX_TEXT = 8192;

export function formatName(name: DistinguishedName): string {
  return name.map(formatRdn).reverse().join(",");
}

function formatRdn(rdn: RelativeName): string {
  return rdn.map(({ type, value }) => `${keywordOf(type) ?? type}=${escapeValue(value)}`).join("+");
}

function escapeValue(value: string): string {
  // One pass, so that no escape is escaped again.
  return value.replace(/^[# ]| $|["+,;<>\\=]|[\u0000-\u001f\u007f]/g, (character) =>
    character < " " || character === "\u007f"
      ? `\\${character.charCodeAt(0).toString(16).padStart(2, "0")}`
      : `\\${character}`,
  );
}

export function parseName(text: string): DistinguishedName {
  if (text.length > MAX_TEXT) throw refuse("is too long", MAX_TEXT);
  if (text.trim() === "") return [];
  const scanner = new NameScanner(text);
  const rdns: RelativeName[] = [];
  do rdns.push(scanner.relativeName());
  while (scanner.take(",") || scanner.take(";"));
  scanner.end();
  return rdns.reverse();
}

function refuse(what: string, at: number): X509Error {
  return new X509Error("name.text", "subject", `The distinguished name ${what} at character ${at + 1}.`);
}

class NameScanner {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  take(character: string): boolean {
    if (this.#text[this.#at] !== character) return false;
    this.#at += 1;
    return true;
  }

  end(): void {
    if (this.#at < this.#text.length) throw refuse("cannot be read", this.#at);
  }

  relativeName(): RelativeName {
    const attributes: NameAttribute[] = [];
    do attributes.push(this.#attribute());
    while (this.take("+"));
    return attributes;
  }

  #attribute(): NameAttribute {
    const match = /^ *([A-Za-z][A-Za-z0-9-]*|\d+(?:\.\d+)+) *= */.exec(this.#text.slice(this.#at));
    if (match?.[1] === undefined) throw refuse("needs TYPE=value", this.#at);
    const keyword = match[1];
    const type = /^\d/.test(keyword) ? keyword : typeOfKeyword(keyword);
    if (type === undefined) throw refuse(`uses the unknown attribute ${keyword}`, this.#at);
    this.#at += match[0].length;
    return { type, value: this.#value() };
  }

  /** Escapes may spell single octets of a UTF-8 character, so the value is gathered as octets. */
  #value(): string {
    const start = this.#at;
    if (this.#text[start] === "#")
      throw refuse("has a value in hexadecimal DER, which is not supported,", start);
    const octets: Buffer[] = [];
    let looseSpaces = 0;
    for (;;) {
      const match = /^(?:\\([0-9A-Fa-f]{2})|\\([ "#+,;<=>\\])|([^"+,;<>\\\u0000]+))/.exec(
        this.#text.slice(this.#at),
      );
      if (match === null) break;
      const [whole, hex, escaped, plain] = match;
      this.#at += whole.length;
      if (plain !== undefined) octets.push(Buffer.from(plain, "utf8"));
      else octets.push(hex === undefined ? Buffer.from(escaped ?? "", "latin1") : Buffer.from(hex, "hex"));
      looseSpaces = plain === undefined ? 0 : plain.length - plain.replace(/ +$/, "").length;
    }
    const bytes = Buffer.concat(octets);
    // Spaces (U+0020 alone, one octet each) before a separator belong to the layout unless they were escaped.
    const value = bytes.subarray(0, bytes.length - looseSpaces);
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(value);
    } catch {
      throw refuse("has escapes that are not UTF-8", start);
    }
  }
}
