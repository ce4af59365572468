/**
 * One flat YAML mapping of names to strings. Everything is written between double quotes, which leaves no value that
 * could be read as a number, a date or `no`. Reading takes what people write in such files (plain, quoted and block
 * scalars, comments) and refuses the rest of the language by name instead of guessing.
 */
import {
  FormatError,
  MAX_VALUE_LETTERS,
  readAll,
  valueTooLong,
  type FileEntries,
  type EntryReading,
  withoutComment,
  type Writing,
} from "./entries.ts";

const SIMPLE_KEY = /^[A-Za-z_][A-Za-z0-9_-]*$/;
/** YAML 1.1 readers take these for words or numbers when they stand bare. */
const WORD = /^(y|n|yes|no|true|false|on|off|null|~)$/i;

/** A JSON string is a YAML string once the line breaks that only YAML knows are escaped too. */
const quoted = (text: string): string =>
  JSON.stringify(text).replace(
    /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );

export function* yamlLines(entries: FileEntries): Writing {
  if (entries.size === 0) yield "{}\n";
  for (const [key, value] of entries)
    yield `${SIMPLE_KEY.test(key) && !WORD.test(key) ? key : quoted(key)}: ${quoted(value)}\n`;
}
export const writeYaml = (entries: FileEntries): string => [...yamlLines(entries)].join("");

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

/** So many lines without an entry are looked at in one go. */
const BREATH_LINES = 1000;
/** And so many letters between quotes. */
const BREATH_LETTERS = 16 * 1024;

interface Quoted {
  readonly text: string;
  readonly rest: string;
}

class Reader {
  readonly #text: string;
  #at = 0;
  /** Lines read so far: the number of the one that was read last. */
  #number = 0;

  constructor(text: string) {
    this.#text = text.replace(/^\uFEFF/, "");
  }

  #fail(what: string): never {
    throw new FormatError(`Line ${this.#number}: ${what}`);
  }

  /** The next line, which stays the next one; undefined behind the last. */
  #peek(): string | undefined {
    if (this.#at > this.#text.length) return undefined;
    const end = this.#text.indexOf("\n", this.#at);
    const line = this.#text.slice(this.#at, end < 0 ? undefined : end);
    return end >= 0 && line.endsWith("\r") ? line.slice(0, -1) : line;
  }

  #step(): void {
    const end = this.#text.indexOf("\n", this.#at);
    this.#at = end < 0 ? this.#text.length + 1 : end + 1;
    this.#number += 1;
  }

  *read(): EntryReading {
    const names = new Set<string>();
    for (let line = this.#peek(); line !== undefined; line = this.#peek()) {
      this.#step();
      if (this.#number % BREATH_LINES === 0) yield undefined;
      if (line.length > 3 * MAX_VALUE_LETTERS) this.#fail(valueTooLong());
      if (/^\s*(#.*)?$/.test(line) || line === "---" || line === "{}") continue;
      if (/^\s/.test(line)) this.#fail("only one flat list of names and values is understood");
      const { text: key, rest } = yield* this.#key(line);
      if (names.has(key)) this.#fail("a name appears twice");
      names.add(key);
      const block = /^\|([+-]?)\s*(#.*)?$/.exec(rest);
      const value = block ? yield* this.#block(block[1] ?? "") : yield* this.#value(rest);
      if (value.length > MAX_VALUE_LETTERS) this.#fail(valueTooLong());
      yield [key, value];
    }
  }

  *#key(line: string): Generator<undefined, Quoted> {
    if (line.startsWith('"') || line.startsWith("'")) {
      const { text, rest } = yield* this.#quoted(line);
      if (!/^\s*:(\s|$)/.test(rest)) this.#fail("expected a colon after the name");
      return { text, rest: rest.slice(rest.indexOf(":") + 1).trim() };
    }
    const colon = /:(\s|$)/.exec(line);
    const name = line.slice(0, colon?.index ?? 0).trim();
    if (!colon || name === "" || /^[#&*!|>%@`[\]{},"'-]|\s#/.test(name))
      return this.#fail("expected NAME: value");
    return { text: name, rest: line.slice(colon.index + 1).trim() };
  }

  *#value(rest: string): Generator<undefined, string> {
    if (rest.startsWith('"') || rest.startsWith("'")) {
      const { text, rest: after } = yield* this.#quoted(rest);
      if (!/^\s*(#.*)?$/.test(after)) this.#fail("something follows the closing quote");
      return text;
    }
    if (/^[&*!|>%@`[\]{}]/.test(rest))
      this.#fail(
        "anchors, tags, folded text and nested values are not understood; put the value between quotes",
      );
    const plain = withoutComment(rest).trim();
    if (/:(\s|$)/.test(plain)) this.#fail("a colon inside a bare value; put the value between quotes");
    return plain === "~" || plain === "null" ? "" : plain;
  }

  *#quoted(line: string): Generator<undefined, Quoted> {
    const mark = line[0];
    let text = "";
    let breathed = 0;
    for (let at = 1; at < line.length; at += 1) {
      const char = line[at] ?? "";
      if (at - breathed >= BREATH_LETTERS) {
        breathed = at;
        yield undefined;
      }
      if (char === mark && mark === "'" && line[at + 1] === "'") {
        text += "'";
        at += 1;
      } else if (char === mark) return { text, rest: line.slice(at + 1) };
      else if (text.length > MAX_VALUE_LETTERS) this.#fail(valueTooLong());
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

  *#block(chomp: string): Generator<undefined, string> {
    const lines: string[] = [];
    let indent = "";
    let letters = 0;
    for (let line = this.#peek(); line !== undefined; line = this.#peek()) {
      if (line.trim() !== "" && !/^\s/.test(line)) break;
      if (indent === "" && line.trim() !== "") indent = /^\s+/.exec(line)?.[0] ?? "";
      if (line.trim() !== "" && !line.startsWith(indent)) {
        this.#number += 1;
        this.#fail("a block whose lines are not indented alike");
      }
      const own = line.slice(indent.length);
      lines.push(own);
      this.#step();
      if (this.#number % BREATH_LINES === 0) yield undefined;
      // Line breaks at the end are cut off, most of the time: they count when more follows.
      letters += own.length + 1;
      if (letters > 2 * MAX_VALUE_LETTERS) this.#fail(valueTooLong());
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

export const yamlEntries = (text: string): EntryReading => new Reader(text).read();
export const readYaml = (text: string): FileEntries => readAll(yamlEntries(text));
