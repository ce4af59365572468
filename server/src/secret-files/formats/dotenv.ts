/**
 * Files of `KEY=value` lines. Written so that neither a reader of such files nor a shell that sources one can mistake
 * a value for anything else; read strictly, so that nothing is lost in silence.
 */
import { clip } from "../../platform/text.ts";
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

export function* dotenvLines(entries: FileEntries): Writing {
  for (const [key, value] of entries) {
    if (!KEY.test(key))
      throw new FormatError(
        `The name ${JSON.stringify(clip(key))} cannot be written to a .env file; use JSON or YAML.`,
      );
    yield `${key}=${quote(value)}\n`;
  }
}
export const writeDotenv = (entries: FileEntries): string => [...dotenvLines(entries)].join("");

/** Lines without an entry, or escapes in a value, that are parsed in one go. */
const BREATH = 1000;
const LINE_BREAK = 0x0a;

class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text.replace(/^\uFEFF/, "");
  }

  /** Lines are counted only for an error message, from one. */
  #fail(what: string, at = this.#at): never {
    let line = 1;
    for (let look = 0; look < at; look += 1) if (this.#text.charCodeAt(look) === LINE_BREAK) line += 1;
    throw new FormatError(`Line ${line}: ${what}`);
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
    return line.endsWith("\r") ? line.slice(0, -1) : line;
  }

  *read(): EntryReading {
    const names = new Set<string>();
    let idle = 0;
    while (this.#at < this.#text.length) {
      const start = this.#at;
      const line = this.#text.slice(start, this.#lineEnd()).replace(/\r$/, "");
      if (/^\s*(#|$)/.test(line)) {
        this.#restOfLine();
        idle += 1;
        if (idle % BREATH === 0) yield undefined;
        continue;
      }
      const equals = line.indexOf("=");
      const key = line
        .slice(0, Math.max(equals, 0))
        .trim()
        .replace(/^export\s+/, "");
      if (equals < 0 || !KEY.test(key)) this.#fail("expected NAME=value");
      if (names.has(key)) this.#fail(`${clip(key)} appears twice`);
      names.add(key);
      this.#at = start + equals + 1;
      yield [key, yield* this.#value()];
    }
  }

  *#value(): Generator<undefined, string> {
    if (this.#lineEnd() - this.#at > 2 * MAX_VALUE_LETTERS) this.#fail(valueTooLong());
    while (this.#text[this.#at] === " " || this.#text[this.#at] === "\t") this.#at += 1;
    const mark = this.#text[this.#at];
    if (mark === "'" || mark === '"') return yield* this.#quoted(mark);
    // A comment needs a space before it: a password may contain a #.
    return this.#short(withoutComment(this.#restOfLine()).trim());
  }

  /** Of the line before. */
  #short(value: string): string {
    return value.length > MAX_VALUE_LETTERS ? this.#fail(valueTooLong(), this.#at - 1) : value;
  }

  *#quoted(mark: "'" | '"'): Generator<undefined, string> {
    const special = mark === "'" ? /'/g : /["\\]/g;
    let value = "";
    this.#at += 1;
    for (let steps = 1; ; steps += 1) {
      special.lastIndex = this.#at;
      const found = special.exec(this.#text);
      if (!found) return this.#fail("a quote is not closed", this.#text.length);
      if (found.index - this.#at + value.length > 2 * MAX_VALUE_LETTERS) this.#fail(valueTooLong());
      value += this.#text.slice(this.#at, found.index);
      this.#at = found.index + 1;
      if (found[0] === mark) return this.#closed(value);
      value += this.#escape();
      if (steps % BREATH === 0) yield undefined;
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
    this.#at += 1;
    // An escape that nobody defined keeps its backslash, as other readers have it.
    return ESCAPES[next] ?? `\\${next}`;
  }
}

export const dotenvEntries = (text: string): EntryReading => new Reader(text).read();
export const readDotenv = (text: string): FileEntries => readAll(dotenvEntries(text));
