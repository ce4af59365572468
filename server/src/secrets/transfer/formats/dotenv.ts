/**
 * Files of `KEY=value` lines. Written so that neither a reader of such files nor a shell that sources one can mistake
 * a value for anything else; read strictly, so that nothing is lost in silence.
 */
import {
  FormatError,
  MAX_VALUE_LETTERS,
  readAll,
  valueTooLong,
  type Entries,
  type Reading,
  withoutComment,
  type Writing,
} from "./entries.ts";

const KEY = /^[A-Za-z_][A-Za-z0-9_.-]*$/;
const PLAIN = /^[A-Za-z0-9_.:/@+-]+$/;
const ESCAPES: Readonly<Record<string, string>> = {
  n: "\n",
  r: "\r",
  t: "\t",
  '"': '"',
  "\\": "\\",
  $: "$",
  "`": "`",
};
const NEEDS_ESCAPE: Readonly<Record<string, string>> = {
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
  '"': '\\"',
  "\\": "\\\\",
  $: "\\$",
  "`": "\\`",
};

function quote(value: string): string {
  if (PLAIN.test(value)) return value;
  // Between single quotes nothing has a meaning, for a shell as for other readers.
  if (!/['\r\n]/.test(value)) return `'${value}'`;
  return `"${value.replace(/[\n\r\t"\\$`]/g, (char) => NEEDS_ESCAPE[char] ?? char)}"`;
}

export function* dotenvLines(entries: Entries): Writing {
  for (const [key, value] of entries) {
    if (!KEY.test(key))
      throw new FormatError(
        `The name ${JSON.stringify(key)} cannot be written to a .env file; use JSON or YAML.`,
      );
    yield `${key}=${quote(value)}\n`;
  }
}
export const writeDotenv = (entries: Entries): string => [...dotenvLines(entries)].join("");

/** So many lines without an entry are looked at in one go. */
const BREATH_LINES = 1000;

class Reader {
  readonly #text: string;
  #at = 0;
  /** The line that is being read, counted from one. */
  #line = 1;

  constructor(text: string) {
    this.#text = text.replace(/^\uFEFF/, "");
  }

  #fail(what: string): never {
    throw new FormatError(`Line ${this.#line}: ${what}`);
  }

  /** Where the line that is being read ends. */
  #lineEnd(): number {
    const end = this.#text.indexOf("\n", this.#at);
    return end < 0 ? this.#text.length : end;
  }

  #restOfLine(): string {
    const end = this.#lineEnd();
    const line = this.#text.slice(this.#at, end);
    this.#at = end + 1;
    this.#line += 1;
    return line.endsWith("\r") ? line.slice(0, -1) : line;
  }

  *read(): Reading {
    const names = new Set<string>();
    let idle = 0;
    while (this.#at < this.#text.length) {
      const start = this.#at;
      const line = this.#text.slice(start, this.#lineEnd()).replace(/\r$/, "");
      if (/^\s*(#|$)/.test(line)) {
        this.#restOfLine();
        idle += 1;
        if (idle % BREATH_LINES === 0) yield undefined;
        continue;
      }
      const equals = line.indexOf("=");
      const key = line
        .slice(0, Math.max(equals, 0))
        .trim()
        .replace(/^export\s+/, "");
      if (equals < 0 || !KEY.test(key)) this.#fail("expected NAME=value");
      if (names.has(key)) this.#fail(`${key} appears twice`);
      names.add(key);
      this.#at = start + equals + 1;
      yield [key, this.#value()];
    }
  }

  #value(): string {
    if (this.#lineEnd() - this.#at > 2 * MAX_VALUE_LETTERS) this.#fail(valueTooLong());
    while (this.#text[this.#at] === " " || this.#text[this.#at] === "\t") this.#at += 1;
    const mark = this.#text[this.#at];
    if (mark === "'" || mark === '"') return this.#quoted(mark);
    // A comment needs a space before it: a password may contain a #.
    return this.#short(withoutComment(this.#restOfLine()).trim());
  }

  #short(value: string): string {
    return value.length > MAX_VALUE_LETTERS ? this.#fail(valueTooLong()) : value;
  }

  #quoted(mark: "'" | '"'): string {
    const special = mark === "'" ? /['\n]/g : /["\\\n]/g;
    const parts: string[] = [];
    let letters = 0;
    this.#at += 1;
    for (;;) {
      special.lastIndex = this.#at;
      const found = special.exec(this.#text);
      if (!found) {
        this.#line += this.#text.slice(this.#at).split("\n").length - 1;
        return this.#fail("a quote is not closed");
      }
      letters += found.index - this.#at + 1;
      if (letters > 2 * MAX_VALUE_LETTERS) this.#fail(valueTooLong());
      parts.push(this.#text.slice(this.#at, found.index));
      this.#at = found.index + 1;
      if (found[0] === mark) return this.#closed(parts.join(""));
      if (found[0] === "\n") {
        this.#line += 1;
        parts.push("\n");
      } else parts.push(this.#escape());
    }
  }

  #closed(value: string): string {
    const after = this.#text.slice(this.#at, this.#lineEnd());
    if (!/^\s*(#.*)?$/.test(after)) this.#fail("something follows the closing quote");
    this.#restOfLine();
    return this.#short(value);
  }

  #escape(): string {
    const next = this.#text[this.#at] ?? "";
    if (next === "\n") this.#line += 1;
    this.#at += 1;
    // An escape that nobody defined keeps its backslash, as other readers have it.
    return ESCAPES[next] ?? `\\${next}`;
  }
}

export const dotenvEntries = (text: string): Reading => new Reader(text).read();
export const readDotenv = (text: string): Entries => readAll(dotenvEntries(text));
