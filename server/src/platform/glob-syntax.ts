// The grammar of our globs: text in, a small tree out, or the reason why not.
//
// Path globs (folders):     `*` `?` `[abc]` stay inside one segment; `/**` is any number of whole segments,
//                           none included, and must fill its segment; the pattern starts with `/`.
// Text globs (slugs, names): `/` is a character like any other, `*` is any run of characters, `**` means `*`.
// Both:                     `[a-z]`, `[!x]`, `[^x]`, and `{a,b}`, which may nest.
//
// There is no escape character; a class quotes (`[*]` is a star). Everything other glob dialects know beyond
// this is refused rather than read as plain text: an author who writes `!(prod)` means something, and a
// permission that quietly means something else is worse than an error.

export type GlobMode = "path" | "text";

export interface CodeRange {
  readonly low: number;
  readonly high: number;
}

export type GlobPart =
  | { readonly kind: "char"; readonly code: number }
  | { readonly kind: "class"; readonly ranges: readonly CodeRange[]; readonly negated: boolean }
  | { readonly kind: "one" }
  | { readonly kind: "many" }
  | { readonly kind: "deep" }
  | { readonly kind: "either"; readonly options: readonly (readonly GlobPart[])[] };

type ParsedGlob =
  | { readonly ok: true; readonly parts: readonly GlobPart[] }
  | { readonly ok: false; readonly reason: string };

export const MAX_GLOB_LENGTH = 512;
const MAX_BRACE_DEPTH = 8;
const SLASH = 0x2f;

/** Carries the reason out of the recursive descent; never leaves this file. */
class Refusal extends Error {}

function refuse(reason: string): never {
  throw new Refusal(reason);
}

export function parseGlob(pattern: string, mode: GlobMode): ParsedGlob {
  try {
    checkText(pattern, mode);
    // One trailing slash says nothing; without it the root `/` is the path of zero segments.
    const body = mode === "path" && pattern.endsWith("/") ? pattern.slice(0, -1) : pattern;
    const parser = new Parser(body, mode);
    const parts = parser.sequence(0);
    if (!parser.done()) refuse("has a } without its {");
    checkDeepEndsSegment(parts, true);
    return { ok: true, parts };
  } catch (error) {
    if (error instanceof Refusal) return { ok: false, reason: error.message };
    throw error;
  }
}

function checkText(pattern: string, mode: GlobMode): void {
  if (pattern.length === 0) refuse("must not be empty");
  if (pattern.length > MAX_GLOB_LENGTH) refuse(`must be at most ${MAX_GLOB_LENGTH} characters long`);
  if (pattern.includes("\\")) refuse("must not contain a backslash");
  if (/[\u0000-\u001f\u007f]/.test(pattern)) refuse("must not contain control characters");
  if (mode === "text") return;
  if (!pattern.startsWith("/")) refuse("must start with /");
  const segments = pattern.split("/");
  if (pattern.includes("//")) refuse("must not contain an empty segment (//)");
  if (segments.includes(".") || segments.includes("..")) refuse("must not contain the segments . or ..");
}

/**
 * `**` promises whole segments, so nothing but a segment border may come after it. Textually that is checked
 * while parsing; this looks at what follows a brace, so that `/{a/**,b}c` cannot match `/ac`.
 */
function checkDeepEndsSegment(parts: readonly GlobPart[], borderAfter: boolean): void {
  for (const [index, part] of parts.entries()) {
    const next = parts[index + 1];
    const border =
      next === undefined
        ? borderAfter
        : next.kind === "deep" || (next.kind === "char" && next.code === SLASH);
    if (part.kind === "deep" && !border) refuse("has a ** that is not a whole segment");
    if (part.kind === "either") for (const option of part.options) checkDeepEndsSegment(option, border);
  }
}

class Parser {
  readonly #text: readonly string[];
  readonly #mode: GlobMode;
  #at = 0;

  constructor(text: string, mode: GlobMode) {
    // Code points, not code units: `?` must take a whole emoji.
    this.#text = Array.from(text);
    this.#mode = mode;
  }

  done(): boolean {
    return this.#at >= this.#text.length;
  }

  sequence(depth: number): GlobPart[] {
    const parts: GlobPart[] = [];
    while (!this.done()) {
      const char = this.#peek();
      if (char === "}" || (char === "," && depth > 0)) break;
      parts.push(this.#part(depth));
    }
    return parts;
  }

  #part(depth: number): GlobPart {
    const char = this.#peek();
    if ("!+@?*".includes(char) && this.#peek(1) === "(") refuse(`must not use ${char}( … )`);
    if (char === "*") return this.#stars();
    if (char === "[") return this.#class();
    if (char === "{") return this.#braces(depth + 1);
    if (char === "]") refuse("has a ] without its [");
    if (this.#startsDeep()) {
      this.#at += 3;
      return { kind: "deep" };
    }
    this.#at += 1;
    return char === "?" ? { kind: "one" } : { kind: "char", code: codeOf(char) };
  }

  #startsDeep(): boolean {
    if (this.#mode !== "path" || this.#peek() !== "/") return false;
    if (this.#peek(1) !== "*" || this.#peek(2) !== "*") return false;
    return ["", "/", ",", "}"].includes(this.#peek(3));
  }

  #stars(): GlobPart {
    let run = 0;
    while (this.#peek(run) === "*") run += 1;
    if (this.#peek(run) === "(") refuse("must not use *( … )");
    if (run > 1 && this.#mode === "path") refuse("has a ** that is not a whole segment");
    this.#at += run;
    return { kind: "many" };
  }

  #class(): GlobPart {
    this.#at += 1;
    const negated = this.#peek() === "!" || this.#peek() === "^";
    if (negated) this.#at += 1;
    const ranges: CodeRange[] = [];
    while (this.#peek() !== "]") ranges.push(this.#range());
    if (ranges.length === 0) refuse("has an empty []");
    this.#at += 1;
    return { kind: "class", ranges, negated };
  }

  #range(): CodeRange {
    const low = this.#classMember();
    if (this.#peek() !== "-" || this.#peek(1) === "]") return { low, high: low };
    this.#at += 1;
    const high = this.#classMember();
    if (high < low) refuse("has a range that runs backwards");
    return { low, high };
  }

  #classMember(): number {
    const char = this.#peek();
    if (char === "") refuse("has a [ without its ]");
    if (char === "[") refuse("has a [ inside [ ]");
    if (char === "/" && this.#mode === "path") refuse("has a / inside [ ]");
    this.#at += 1;
    return codeOf(char);
  }

  #braces(depth: number): GlobPart {
    if (depth > MAX_BRACE_DEPTH) refuse(`nests braces deeper than ${MAX_BRACE_DEPTH}`);
    const options: GlobPart[][] = [];
    do {
      this.#at += 1;
      options.push(this.sequence(depth));
    } while (this.#peek() === ",");
    if (this.#peek() !== "}") refuse("has a { without its }");
    // `{1..9}` and `{name}` mean something elsewhere; here they would be a silent never-match.
    if (options.length < 2) refuse("has braces with a single alternative");
    this.#at += 1;
    return { kind: "either", options };
  }

  #peek(ahead = 0): string {
    return this.#text[this.#at + ahead] ?? "";
  }
}

function codeOf(char: string): number {
  return char.codePointAt(0) ?? 0;
}
