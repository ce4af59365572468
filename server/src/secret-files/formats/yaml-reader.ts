/**
 * One flat YAML mapping, read by the library in the schema that knows only strings. What is no flat mapping is refused by
 * name, and before the library makes anything of it: of a megabyte of opening brackets it makes the end of the process
 * (docs/decisions/0015). A value is read in one go: large files belong on a thread of their own (yaml.ts).
 */
import { Composer, CST, isMap, isScalar, Lexer, Parser, type Scalar } from "yaml";
import {
  FormatError,
  MAX_VALUE_LETTERS,
  MOST_VALUES,
  tooManyValues,
  valueTooLong,
  type EntryReading,
} from "./entries.ts";

/** Each becomes an object; a file with so many has mostly empty lines. */
const MOST_LEXEMES = 200_000;

/** A fraction of a millisecond. */
const LEXEMES_AT_ONCE = 64;

const NOT_FLAT = "only one flat list of names and values is understood";
const NOT_PLAIN = "anchors, aliases, tags and directives are not understood; put the value between quotes";
const TWO_COLONS = "a colon inside a bare value; put the value between quotes";
const NO_PAIR = "expected NAME: value";

const REFUSED: ReadonlyMap<string | null, string> = new Map([
  ["anchor", NOT_PLAIN],
  ["alias", NOT_PLAIN],
  ["tag", NOT_PLAIN],
  ["directive-line", NOT_PLAIN],
  ["flow-seq-start", NOT_FLAT],
  ["comma", NOT_FLAT],
  ["seq-item-ind", NOT_FLAT],
  ["explicit-key-ind", NOT_FLAT],
]);

const IN_BRACES: ReadonlySet<string | null> = new Set(["space", "newline", "comment", "flow-map-end"]);

/** In our words where there is something to advise; the library's own messages quote what stands in the file. */
const RULES: Readonly<Record<string, string>> = {
  BAD_DQ_ESCAPE: "an escape that YAML does not know",
  BAD_SCALAR_START: "a bare value cannot begin with this character; put the value between quotes",
  BLOCK_AS_IMPLICIT_KEY: TWO_COLONS,
  MISSING_CHAR: "a quote is not closed or a colon is missing",
};
const ruleOf = (code: string): string =>
  RULES[code] ?? `this is not valid YAML (${code.toLowerCase().replaceAll("_", " ")})`;

const SCALARS: ReadonlySet<string> = new Set([
  "scalar",
  "single-quoted-scalar",
  "double-quoted-scalar",
  "block-scalar",
]);
type Item = CST.BlockMap["items"][number];
const OPTIONS = { schema: "failsafe", prettyErrors: false, logLevel: "silent" } as const;

const isFlat = (token: CST.Token | null | undefined): boolean => !token || SCALARS.has(token.type);

/** Longer than a value may be even if it is all escapes: not worth the library's while. */
const isTooLong = (token: CST.Token | undefined): boolean =>
  token !== undefined && "source" in token && token.source.length > 3 * MAX_VALUE_LETTERS;

/** Nothing, in the two words that YAML has for it, is an empty text. */
const textOf = ({ value, type }: Scalar): string =>
  type === "PLAIN" && (value === "~" || value === "null") ? "" : String(value);

class Reader {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text.replace(/^\uFEFF/, "");
  }

  #fail(at: number, what: string): never {
    let line = 1;
    for (let end = this.#text.indexOf("\n"); end >= 0 && end < at; end = this.#text.indexOf("\n", end + 1))
      line += 1;
    throw new FormatError(`Line ${line}: ${what}`);
  }

  *read(): EntryReading {
    const names = new Set<string>();
    const map = yield* this.#map();
    for (const item of map?.items ?? []) {
      const at = item.key?.offset ?? item.start[0]?.offset ?? 0;
      if (!isFlat(item.key) || !isFlat(item.value)) this.#fail(at, NOT_FLAT);
      if (isTooLong(item.value)) this.#fail(at, valueTooLong());
      const pair = this.#pair(item, map?.indent ?? 0);
      if (!pair) continue;
      const [key, value] = pair;
      if (names.has(key)) this.#fail(at, "a name appears twice");
      names.add(key);
      if (value.length > MAX_VALUE_LETTERS) this.#fail(at, valueTooLong());
      yield pair;
    }
  }

  /** The one mapping of the file; undefined if there is nothing but comments, or `{}`. */
  *#map(): Generator<undefined, CST.BlockMap | undefined> {
    const tokens = yield* this.#tokens();
    const error = tokens.find(({ type }) => type === "error");
    if (error) this.#fail(error.offset, ruleOf("UNEXPECTED_TOKEN"));
    const [first, second] = tokens.filter((token): token is CST.Document => token.type === "document");
    if (second) this.#fail(second.offset, "only one document is understood");
    const value = first?.value;
    if (value === undefined || value.type === "flow-collection") return undefined;
    return value.type === "block-map" ? value : this.#fail(value.offset, NO_PAIR);
  }

  /** Flat tokens: the library nests them without recursion, and what nests too easily does not get that far. */
  *#tokens(): Generator<undefined, CST.Token[]> {
    const parser = new Parser();
    const tokens: CST.Token[] = [];
    let [at, lexemes, values, inLine, isContent, isInBraces] = [0, 0, 0, 0, false, false];
    for (const lexeme of new Lexer().lex(this.#text)) {
      const type = isContent ? "content" : CST.tokenType(lexeme);
      isContent = type === "scalar";
      const refusal = REFUSED.get(type);
      if (refusal) this.#fail(at, refusal);
      // Of flow mappings there is `{}` alone.
      if (isInBraces && !IN_BRACES.has(type)) this.#fail(at, NOT_FLAT);
      if (type === "flow-map-start") isInBraces = true;
      if (type === "flow-map-end") isInBraces = false;
      if (type === "newline") inLine = 0;
      if (type === "map-value-ind") {
        if ((inLine += 1) > 1) this.#fail(at, TWO_COLONS);
        if ((values += 1) > MOST_VALUES) throw tooManyValues();
      }
      if ((lexemes += 1) > MOST_LEXEMES) this.#fail(at, "the file has too many lines: split it");
      if (type !== "scalar" && type !== "doc-mode") at += lexeme.length;
      tokens.push(...parser.next(lexeme));
      if (lexemes % LEXEMES_AT_ONCE === 0) yield undefined;
    }
    if (isInBraces) this.#fail(at, NOT_FLAT);
    tokens.push(...parser.end());
    return tokens;
  }

  /** One by one, so that nothing is made of what stands behind the first fault; undefined for a closing comment. */
  #pair(item: Item, indent: number): readonly [string, string] | undefined {
    const offset = item.start[0]?.offset ?? item.key?.offset ?? 0;
    const value: CST.BlockMap = { type: "block-map", offset, indent, items: [item] };
    const [document] = new Composer(OPTIONS).compose([{ type: "document", offset, start: [], value }]);
    const [error] = document?.errors ?? [];
    // That a quote is not closed is noticed at the end of the file: the line to look at is where the entry begins.
    const isMissing = error?.code === "MISSING_CHAR";
    if (error) this.#fail(isMissing ? (item.key?.offset ?? offset) : error.pos[0], ruleOf(error.code));
    const [pair] = isMap(document?.contents) ? document.contents.items : [];
    if (!pair) return undefined;
    if (!isScalar(pair.key) || !isScalar(pair.value) || pair.key.value === "") this.#fail(offset, NO_PAIR);
    return [String(pair.key.value), textOf(pair.value)];
  }
}

export const yamlReading = (text: string): EntryReading => new Reader(text).read();
