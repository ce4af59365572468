/**
 * Which certificates an alert is about. The same rules exist twice: here, for one certificate against many alerts
 * when a fact arrives, and as SQL in the store, for one alert against a million certificates. A test checks that they
 * agree. Letters are compared without case in ASCII only: both sides can do that alike on every database.
 */
import type { Issue } from "../../platform/problem.ts";
import { filtersInput, SINGLE_FIELDS, type CertificateFilter } from "./contract.ts";

export interface FilterCandidate {
  readonly commonName: string;
  readonly san: readonly string[];
  readonly profileName: string | null;
  readonly isCa: boolean;
}

/** Work in short steps: the caller may yield after each. */
export type Steps<T> = Generator<undefined, T>;

type Matcher = (candidate: Prepared) => Steps<boolean>;

export const fold = (text: string): string => text.replace(/[A-Z]+/g, (part) => part.toLowerCase());

export const includesAuthorities = (filters: readonly CertificateFilter[]): boolean =>
  filters.some((filter) => filter.field === "include_cas" && filter.value === true);

const SURROGATE = /[\ud800-\udfff]/;

/** What stands between two stars: where in a text it comes first, from some place on. */
interface Part {
  readonly plain: string;
  readonly letters: readonly (readonly [number, string])[] | undefined;
  readonly length: number;
}

function partOf(plain: string, split: (text: string) => readonly string[]): Part {
  const all = split(plain);
  const letters = all.flatMap((letter, at) => (letter === "?" ? [] : [[at, letter] as const]));
  return { plain, letters: plain.includes("?") ? letters : undefined, length: all.length };
}

const hasAt = (text: ArrayLike<string>, { letters = [] }: Part, from: number): boolean =>
  letters.every(([at, letter]) => letter === text[from + at]);

/** `*` is any run of characters, `?` any one. What stands between two stars is taken where it comes first, so the text is walked once. */
function walkParts(text: ArrayLike<string>, parts: readonly Part[], at: Find): boolean {
  const [first, last] = [parts[0], parts.at(-1)];
  if (!first || !last) return false;
  const end = text.length - last.length;
  if (parts.length === 1) return end === 0 && at(text, first, 0, 0) === 0;
  if (first.length > end || at(text, first, 0, 0) !== 0 || at(text, last, end, end) !== end) return false;
  let from = first.length;
  for (const part of parts.slice(1, -1)) {
    const found = at(text, part, from, end - part.length);
    if (found < 0) return false;
    from = found + part.length;
  }
  return true;
}

/** Where a part comes first, no earlier than `from` and no later than `to`; below zero if it does not. */
type Find = (text: ArrayLike<string>, part: Part, from: number, to: number) => number;

const findLetters: Find = (text, part, from, to) => {
  for (let at = from; at <= to; at += 1) if (hasAt(text, part, at)) return at;
  return -1;
};
const findPlain: Find = (text, part, from, to) => {
  if (part.letters !== undefined) return findLetters(text, part, from, to);
  if (from === to) return (text as string).startsWith(part.plain, from) ? from : -1;
  const found = (text as string).indexOf(part.plain, from);
  return found <= to ? found : -1;
};

/**
 * Letters, not halves of them: `?` takes a whole emoji. Where there is none, text is walked as it is. What LIKE says for
 * the same filter in SQL: the patterns of a policy know no `?`, and a glob (platform/glob.ts) knows more than LIKE can.
 */
export function compileWildcard(pattern: string): (text: string) => boolean {
  const plain = pattern.split("*").map((part) => partOf(part, (text) => text.split("")));
  let whole: readonly Part[] | undefined;
  const inLetters = (text: string): boolean => {
    whole ??= pattern.split("*").map((part) => {
      const { letters, length } = partOf(part, (own) => [...own]);
      return {
        plain: part,
        letters: letters ?? [...part].map((letter, at) => [at, letter] as const),
        length,
      };
    });
    return walkParts([...text], whole, findLetters);
  };
  return (text) => (SURROGATE.test(text) ? inLetters(text) : walkParts(text, plain, findPlain));
}

/** Stands before, between and after names; no text of the database holds it. */
const EDGE = "\0";
const PIECE_CHARACTERS = 8192;

/** Some names in one text, in which all of them are looked through at once. */
interface Piece {
  readonly joined: string;
  readonly names: readonly string[];
}

/** The names of one field. */
interface Names {
  readonly exact: ReadonlySet<string>;
  readonly pieces: readonly Piece[];
}

function* namesOf(all: readonly string[]): Steps<Names> {
  const pieces: Piece[] = [];
  let names: string[] = [];
  let characters = 0;
  const cut = (): void => {
    if (names.length > 0) pieces.push({ joined: `${EDGE}${names.join(EDGE)}${EDGE}`, names });
    [names, characters] = [[], 0];
  };
  for (const name of all) {
    names.push(fold(name));
    characters += name.length;
    if (characters < PIECE_CHARACTERS) continue;
    cut();
    yield;
  }
  cut();
  return { exact: new Set(all), pieces };
}

/** A certificate prepared for matching by many alerts: its names are case-folded and joined once, not once per alert. */
export interface Prepared {
  readonly isCa: boolean;
  readonly names: Readonly<Record<Exclude<CertificateFilter["field"], "include_cas">, readonly Names[]>>;
}

export function* prepare({ commonName, san, profileName, isCa }: FilterCandidate): Steps<Prepared> {
  const profile = profileName === null ? [] : [yield* namesOf([profileName])];
  const name = [yield* namesOf([commonName])];
  const names = [yield* namesOf(san)];
  return {
    isCa,
    names: { profile_name: profile, common_name: name, san: names, any: [...profile, ...name, ...names] },
  };
}

type PieceTest = (piece: Piece) => boolean;

/** What a text that passes must hold, in any case. */
export const longestRun = (pattern: string): string =>
  pattern.split(/[*?]+/).reduce((longest, run) => (run.length > longest.length ? run : longest), "");

function wildcardTest(wanted: string): PieceTest {
  const needed = longestRun(wanted);
  const matches = compileWildcard(wanted);
  return ({ joined, names }) =>
    joined.includes(needed) && names.some((name) => name.includes(needed) && matches(name));
}

function pieceTest(operator: Exclude<CertificateFilter["operator"], "equals">, value: string): PieceTest {
  const wanted = fold(value);
  if (wanted.includes(EDGE)) return () => false;
  if (operator === "matches") return wildcardTest(wanted);
  const within = { contains: wanted, starts_with: `${EDGE}${wanted}`, ends_with: `${wanted}${EDGE}` }[
    operator
  ];
  return ({ joined }) => joined.includes(within);
}

const valuesOf = ({ value }: CertificateFilter): readonly string[] => [value].flat().map(String);

/** Each value is compiled when it is first used: an alert may have thousands, and most certificates use few. */
function compileFilter(filter: CertificateFilter): (names: Names) => Steps<boolean> {
  const { operator } = filter;
  const values = valuesOf(filter);
  if (operator === "equals")
    return function* ({ exact }) {
      yield;
      return values.some((value) => exact.has(value));
    };
  const tests: PieceTest[] = [];
  return function* ({ pieces }) {
    for (const piece of pieces)
      for (const [at, value] of values.entries()) {
        yield;
        if ((tests[at] ??= pieceTest(operator, value))(piece)) return true;
      }
    return false;
  };
}

export function compileFilters(filters: readonly CertificateFilter[]): Matcher {
  const withAuthorities = includesAuthorities(filters);
  const tests = filters.flatMap((filter) =>
    filter.field === "include_cas" ? [] : [{ field: filter.field, passes: compileFilter(filter) }],
  );
  return function* (candidate) {
    if (candidate.isCa && !withAuthorities) return false;
    for (const { field, passes } of tests) {
      let isPassed = false;
      for (const names of candidate.names[field]) isPassed ||= yield* passes(names);
      if (!isPassed) return false;
    }
    return true;
  };
}

/**
 * Filters of a body that let nothing through together: a name that has to equal one of some values, of which the other
 * filters on it allow none. Wildcards are left out: comparing very many of them would take long.
 */
export function filterFaults(body: unknown): Issue[] {
  const given = filtersInput.safeParse((body as { readonly filters?: unknown } | undefined)?.filters);
  return given.success ? SINGLE_FIELDS.flatMap((field) => contradictionsOn(field, given.data)) : [];
}

/** Comparisons of characters; beyond it this early check costs more than it is worth. */
const WORTH_COMPARING = 4_000_000;
const lengthOf = (texts: readonly string[]): number => texts.reduce((sum, { length }) => sum + length, 0);

function contradictionsOn(
  field: (typeof SINGLE_FIELDS)[number],
  filters: readonly CertificateFilter[],
): Issue[] {
  const own = filters.flatMap((filter, index) => (filter.field === field ? [{ filter, index }] : []));
  const exact = own.find(({ filter }) => filter.operator === "equals");
  const others = own.filter(({ filter: { operator } }) => operator !== "matches" && operator !== "equals");
  if (!exact || others.length === 0) return [];
  let left = valuesOf(exact.filter);
  const wanted = others.flatMap(({ filter }) => valuesOf(filter));
  if (lengthOf(left) * lengthOf(wanted) > WORTH_COMPARING) return [];
  for (const { filter, index } of others) {
    const { operator } = filter;
    // The contract refuses two `equals` with nothing in common.
    if (operator === "equals") continue;
    const tests = valuesOf(filter).map((value) => pieceTest(operator, value));
    left = left.filter((name) => {
      const names = [fold(name)];
      return tests.some((test) => test({ joined: `${EDGE}${names.join("")}${EDGE}`, names }));
    });
    if (left.length > 0) continue;
    const message = `${field} cannot equal what another filter asks for and pass this one: filters are combined with and`;
    return [{ code: "custom", path: ["filters", index, "value"], message }];
  }
  return [];
}
