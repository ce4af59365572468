/**
 * Parses a large JSON text in chunks. Its top level is an object; what makes it large are arrays in that
 * object, and those are parsed a few items at a time. Everything else is left to JSON.parse, and so is the decision
 * what is JSON: items are cut out by counting brackets, and each cut must be JSON by itself.
 */
import { Pace } from "./pace.ts";

const [QUOTE, BACKSLASH, COMMA, OPEN_LIST, CLOSE_LIST] = [0x22, 0x5c, 0x2c, 0x5b, 0x5d];
const [COLON, OPEN_OBJECT, CLOSE_OBJECT] = [0x3a, 0x7b, 0x7d];
/** How much text is parsed at once, unless one item is longer. */
const SLICE = 16 * 1024;
const LOOKED_AT_ONCE = 64 * 1024;
const IS_BLANK = /^[ \t\n\r]*$/;

export class TooManyParts extends Error {}
export class NotJson extends Error {}

interface PartLimits {
  /** In the whole text. */
  readonly all: number;
  /** In one item of an array, and in all that is not in one. */
  readonly item: number;
}

/** A text of nothing but escaped quotes is looked through letter by letter after so many: calls cost more than letters. */
const MOST_HOPS = 20_000;

/** Where the string that begins at `start` ends. */
function endOfString(text: string, start: number): number {
  let from = start + 1;
  for (let hops = 0; hops < MOST_HOPS; hops += 1) {
    const end = text.indexOf('"', from);
    if (end < 0) throw new NotJson();
    let before = end;
    while (before > from && text.charCodeAt(before - 1) === BACKSLASH) before -= 1;
    if ((end - before) % 2 === 0) return end;
    from = end + 1;
  }
  for (let at = from; at < text.length; at += 1) {
    const letter = text.charCodeAt(at);
    if (letter === BACKSLASH) at += 1;
    else if (letter === QUOTE) return at;
  }
  throw new NotJson();
}

class Cutter {
  readonly #text: string;
  readonly #limits: PartLimits;
  readonly #pace = new Pace();
  readonly lists: unknown[][] = [];
  /** The text with a number in place of what was in each list. */
  skeleton = "";
  #all = 0;
  #outside = 0;
  #lookedTo = 0;

  constructor(text: string, limits: PartLimits) {
    this.#text = text;
    this.#limits = limits;
  }

  #count(parts: number): number {
    this.#all += 1;
    if (this.#all > this.#limits.all || parts >= this.#limits.item) throw new TooManyParts();
    return parts + 1;
  }

  #giveWay(at: number): Promise<void> | undefined {
    if (at - this.#lookedTo < LOOKED_AT_ONCE) return undefined;
    this.#lookedTo = at;
    return this.#pace.giveWay();
  }

  async cut(): Promise<void> {
    const text = this.#text;
    let copied = 0;
    let depth = 0;
    let isObject = false;
    for (let at = 0; at < text.length; at += 1) {
      const letter = text.charCodeAt(at);
      if (letter === QUOTE) at = endOfString(text, at);
      else if (letter === OPEN_LIST && depth === 1 && isObject) {
        this.skeleton += `${text.slice(copied, at + 1)}${this.lists.length}`;
        at = await this.#list(at);
        copied = at;
      } else if (letter === OPEN_LIST || letter === OPEN_OBJECT) {
        if (depth === 0) isObject = letter === OPEN_OBJECT;
        depth += 1;
        this.#outside = this.#count(this.#outside);
      } else if (letter === CLOSE_LIST || letter === CLOSE_OBJECT) depth -= 1;
      else if (letter === COMMA || letter === COLON) this.#outside = this.#count(this.#outside);
      const rest = this.#giveWay(at);
      if (rest) await rest;
    }
    this.skeleton += text.slice(copied);
  }

  /** From the bracket that opens it to the one that closes it. */
  async #list(start: number): Promise<number> {
    const text = this.#text;
    const items: unknown[] = [];
    this.lists.push(items);
    let from = start + 1;
    let parts = 0;
    let depth = 0;
    const take = (end: number): void => {
      for (const item of parse(`[${text.slice(from, end)}]`) as unknown[]) items.push(item);
      from = end + 1;
    };
    for (let at = start + 1; at < text.length; at += 1) {
      const letter = text.charCodeAt(at);
      if (letter === QUOTE) at = endOfString(text, at);
      else if (letter === OPEN_LIST || letter === OPEN_OBJECT) {
        depth += 1;
        parts = this.#count(parts);
      } else if (letter === CLOSE_LIST && depth === 0) {
        const isEmpty = items.length === 0 && IS_BLANK.test(text.slice(from, Math.min(at, from + SLICE)));
        // A comma, and nothing behind it.
        if (!isEmpty && IS_BLANK.test(text.slice(from, at))) throw new NotJson();
        take(at);
        return at;
      } else if (letter === CLOSE_LIST || letter === CLOSE_OBJECT) depth -= 1;
      else if (letter === COMMA && depth === 0) {
        parts = this.#count(0);
        if (at - from >= SLICE) {
          take(at);
          if (this.#pace.isDue()) await this.#pace.rest();
        }
      } else if (letter === COMMA || letter === COLON) parts = this.#count(parts);
      const rest = this.#giveWay(at);
      if (rest) await rest;
    }
    throw new NotJson();
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new NotJson();
  }
}

export async function parseInChunks(text: string, limits: PartLimits): Promise<unknown> {
  const cutter = new Cutter(text, limits);
  await cutter.cut();
  const value = parse(cutter.skeleton);
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const fields = value as Record<string, unknown>;
  // Every list of the top level was cut out, and each has left its number.
  for (const [name, part] of Object.entries(fields))
    if (Array.isArray(part)) fields[name] = cutter.lists[part[0] as number];
  return value;
}
