/**
 * One flat YAML mapping of names to strings. Everything is written between double quotes, which leaves no value that
 * could be read as a number, a date or `no`. Reading takes what people write in such files (plain, quoted and block
 * scalars, comments) and refuses the rest of the language by name instead of guessing.
 */
import { FormatError, type Entries } from "./entries.ts";

const SIMPLE_KEY = /^[A-Za-z_][A-Za-z0-9_-]*$/;
/** YAML 1.1 readers take these for words or numbers when they stand bare. */
const WORD = /^(y|n|yes|no|true|false|on|off|null|~)$/i;

/** A JSON string is a YAML string once the line breaks that only YAML knows are escaped too. */
const quoted = (text: string): string =>
  JSON.stringify(text).replace(
    /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );

export function writeYaml(entries: Entries): string {
  const lines = [...entries].map(
    ([key, value]) => `${SIMPLE_KEY.test(key) && !WORD.test(key) ? key : quoted(key)}: ${quoted(value)}\n`,
  );
  return lines.length === 0 ? "{}\n" : lines.join("");
}

const ESCAPES: Readonly<Record<string, string>> = {
  "0": "\0",
  a: "\x07",
  b: "\b",
  t: "\t",
  n: "\n",
  v: "\v",
  f: "\f",
  r: "\r",
  e: "\x1b",
  " ": " ",
  '"': '"',
  "/": "/",
  "\\": "\\",
  N: "\x85",
  _: "\xa0",
  L: "\u2028",
  P: "\u2029",
};
const CODED: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 };

class Reader {
  readonly #lines: readonly string[];
  #number = 0;

  constructor(text: string) {
    this.#lines = text.replace(/^\uFEFF/, "").split(/\r?\n/);
  }

  #fail(what: string): never {
    throw new FormatError(`Line ${this.#number}: ${what}`);
  }

  read(): Entries {
    const entries = new Map<string, string>();
    while (this.#number < this.#lines.length) {
      const line = this.#lines[this.#number] ?? "";
      this.#number += 1;
      if (/^\s*(#.*)?$/.test(line) || line === "---" || line === "{}") continue;
      if (/^\s/.test(line)) this.#fail("only one flat list of names and values is understood");
      const { text: key, rest } = this.#key(line);
      if (entries.has(key)) this.#fail("a name appears twice");
      entries.set(key, this.#value(rest));
    }
    return entries;
  }

  #key(line: string): { text: string; rest: string } {
    if (line.startsWith('"') || line.startsWith("'")) {
      const { text, rest } = this.#quoted(line);
      if (!/^\s*:(\s|$)/.test(rest)) this.#fail("expected a colon after the name");
      return { text, rest: rest.slice(rest.indexOf(":") + 1).trim() };
    }
    const colon = /:(\s|$)/.exec(line);
    const name = line.slice(0, colon?.index ?? 0).trim();
    if (!colon || name === "" || /^[#&*!|>%@`[\]{},"'-]|\s#/.test(name))
      return this.#fail("expected NAME: value");
    return { text: name, rest: line.slice(colon.index + 1).trim() };
  }

  #value(rest: string): string {
    if (rest.startsWith('"') || rest.startsWith("'")) {
      const { text, rest: after } = this.#quoted(rest);
      if (!/^\s*(#.*)?$/.test(after)) this.#fail("something follows the closing quote");
      return text;
    }
    if (/^\|[+-]?\s*(#.*)?$/.test(rest))
      return this.#block(rest[1] === "-" || rest[1] === "+" ? rest[1] : "");
    if (/^[&*!|>%@`[\]{}]/.test(rest))
      this.#fail(
        "anchors, tags, folded text and nested values are not understood; put the value between quotes",
      );
    const plain = rest.replace(/(^|\s)#.*$/, "").trim();
    if (/:(\s|$)/.test(plain)) this.#fail("a colon inside a bare value; put the value between quotes");
    return plain === "~" || plain === "null" ? "" : plain;
  }

  #quoted(line: string): { text: string; rest: string } {
    const mark = line[0];
    let text = "";
    for (let at = 1; at < line.length; at += 1) {
      const char = line[at] ?? "";
      if (char === mark && mark === "'" && line[at + 1] === "'") {
        text += "'";
        at += 1;
      } else if (char === mark) return { text, rest: line.slice(at + 1) };
      else if (char !== "\\" || mark === "'") text += char;
      else {
        at += 1;
        const kind = line[at] ?? "";
        const digits = CODED[kind];
        if (digits === undefined) text += ESCAPES[kind] ?? this.#fail("an escape that YAML does not know");
        else {
          text += this.#coded(line.slice(at + 1, at + 1 + digits), digits);
          at += digits;
        }
      }
    }
    return this.#fail("a quote is not closed on its line");
  }

  #coded(hex: string, digits: number): string {
    const code = Number.parseInt(hex, 16);
    if (hex.length !== digits || !/^[0-9a-fA-F]+$/.test(hex) || code > 0x10ffff)
      this.#fail("an escape with a wrong code");
    return digits === 4 ? String.fromCharCode(code) : String.fromCodePoint(code);
  }

  #block(chomp: string): string {
    const lines: string[] = [];
    let indent = "";
    while (this.#number < this.#lines.length) {
      const line = this.#lines[this.#number] ?? "";
      if (line.trim() !== "" && !/^\s/.test(line)) break;
      if (indent === "" && line.trim() !== "") indent = /^\s+/.exec(line)?.[0] ?? "";
      if (line.trim() !== "" && !line.startsWith(indent))
        this.#fail("a block whose lines are not indented alike");
      lines.push(line.slice(indent.length));
      this.#number += 1;
    }
    const text = lines.join("\n");
    if (chomp === "+") return `${text}`;
    // By hand: a regular expression would look at every run of line breaks again and again.
    let end = text.length;
    while (text[end - 1] === "\n") end -= 1;
    const body = text.slice(0, end);
    return chomp === "-" || body === "" ? body : `${body}\n`;
  }
}

export const readYaml = (text: string): Entries => new Reader(text).read();
