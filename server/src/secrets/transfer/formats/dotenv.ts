/**
 * Files of `KEY=value` lines. Written so that neither a reader of such files nor a shell that sources one can mistake
 * a value for anything else; read strictly, so that nothing is lost in silence.
 */
import { FormatError, type Entries } from "./entries.ts";

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

export function writeDotenv(entries: Entries): string {
  let text = "";
  for (const [key, value] of entries) {
    if (!KEY.test(key))
      throw new FormatError(
        `The name ${JSON.stringify(key)} cannot be written to a .env file; use JSON or YAML.`,
      );
    text += `${key}=${quote(value)}\n`;
  }
  return text;
}

class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text.replace(/^\uFEFF/, "");
  }

  #fail(what: string): never {
    const line = this.#text.slice(0, this.#at).split("\n").length;
    throw new FormatError(`Line ${line}: ${what}`);
  }

  #restOfLine(): string {
    const end = this.#text.indexOf("\n", this.#at);
    const line = this.#text.slice(this.#at, end < 0 ? undefined : end);
    this.#at = end < 0 ? this.#text.length : end + 1;
    return line.endsWith("\r") ? line.slice(0, -1) : line;
  }

  read(): Entries {
    const entries = new Map<string, string>();
    while (this.#at < this.#text.length) {
      const start = this.#at;
      const line = this.#restOfLine();
      if (/^\s*(#|$)/.test(line)) continue;
      const equals = line.indexOf("=");
      const key = line
        .slice(0, Math.max(equals, 0))
        .trim()
        .replace(/^export\s+/, "");
      this.#at = start;
      if (equals < 0 || !KEY.test(key)) this.#fail("expected NAME=value");
      if (entries.has(key)) this.#fail(`${key} appears twice`);
      this.#at = start + equals + 1;
      entries.set(key, this.#value());
    }
    return entries;
  }

  #value(): string {
    while (this.#text[this.#at] === " " || this.#text[this.#at] === "\t") this.#at += 1;
    const mark = this.#text[this.#at];
    if (mark === "'" || mark === '"') return this.#quoted(mark);
    const line = this.#restOfLine();
    // A comment needs a space before it: a password may contain a #.
    return line.replace(/(^|\s)#.*$/, "").trim();
  }

  #quoted(mark: string): string {
    let value = "";
    for (this.#at += 1; this.#at < this.#text.length; this.#at += 1) {
      const char = this.#text[this.#at] ?? "";
      if (char === mark) {
        this.#at += 1;
        const rest = this.#restOfLine();
        if (!/^\s*(#.*)?$/.test(rest)) this.#fail("something follows the closing quote");
        return value;
      }
      if (char !== "\\" || mark === "'") value += char;
      else {
        this.#at += 1;
        const next = this.#text[this.#at] ?? "";
        // An escape that nobody defined keeps its backslash, as other readers have it.
        value += ESCAPES[next] ?? `\\${next}`;
      }
    }
    return this.#fail("a quote is not closed");
  }
}

export const readDotenv = (text: string): Entries => new Reader(text).read();
