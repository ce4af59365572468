/**
 * Which certificates an alert is about. The same rules exist twice: here, for one certificate against many alerts
 * when a fact arrives, and as SQL in the store, for one alert against a million certificates. A test holds the two
 * together. Letters are compared without case in ASCII only: both sides can do that alike on every database.
 */
import type { Issue } from "../../platform/problem.ts";
import { filtersInput, SINGLE_FIELDS, type Filter } from "./contract.ts";

export interface Candidate {
  readonly commonName: string;
  readonly san: readonly string[];
  readonly profileName: string | null;
  readonly isCa: boolean;
}

export type Matcher = (candidate: Prepared) => boolean;

export const fold = (text: string): string => text.replace(/[A-Z]+/g, (part) => part.toLowerCase());

export const includesAuthorities = (filters: readonly Filter[]): boolean =>
  filters.some((filter) => filter.field === "include_cas" && filter.value === true);

const hasAt = (text: readonly string[], part: readonly string[], from: number): boolean =>
  part.every((letter, at) => letter === "?" || letter === text[from + at]);

/**
 * `*` is any run of characters, `?` any one. What stands between two stars is taken where it comes first, so the text is
 * walked once.
 */
export function compileWildcard(pattern: string): (text: WildcardText) => boolean {
  const parts = pattern.split("*").map((plain) => ({ plain, letters: [...plain] }));
  const [first, last] = [parts[0], parts.at(-1)];
  if (!first || !last) return () => false;
  const between = parts.slice(1, -1).filter(({ plain }) => plain !== "");
  return ({ letters }) => {
    if (parts.length === 1)
      return letters.length === first.letters.length && hasAt(letters, first.letters, 0);
    const end = letters.length - last.letters.length;
    if (first.letters.length > end || !hasAt(letters, first.letters, 0) || !hasAt(letters, last.letters, end))
      return false;
    let at = first.letters.length;
    for (const { letters: part } of between) {
      while (at + part.length <= end && !hasAt(letters, part, at)) at += 1;
      if (at + part.length > end) return false;
      at += part.length;
    }
    return true;
  };
}

/** Letters, not halves of them: `?` takes a whole emoji. */
interface WildcardText {
  readonly letters: readonly string[];
}
export const wildcardText = (text: string): WildcardText => ({ letters: [...text] });

interface Text extends WildcardText {
  readonly exact: string;
  readonly folded: string;
}

/** A certificate made ready to be asked by many alerts: its texts are folded once, not once per alert. */
export interface Prepared {
  readonly isCa: boolean;
  readonly texts: Readonly<Record<Exclude<Filter["field"], "include_cas">, readonly Text[]>>;
}

const asText = (exact: string): Text => {
  const folded = fold(exact);
  return { exact, folded, ...wildcardText(folded) };
};

export function prepare({ commonName, san, profileName, isCa }: Candidate): Prepared {
  const profile = profileName === null ? [] : [asText(profileName)];
  const name = [asText(commonName)];
  const names = san.map(asText);
  return {
    isCa,
    texts: { profile_name: profile, common_name: name, san: names, any: [...profile, ...name, ...names] },
  };
}

type TextTest = (text: Text) => boolean;

function textTest(operator: Filter["operator"], value: string): TextTest {
  const wanted = fold(value);
  switch (operator) {
    case "equals":
      return ({ exact }) => exact === value;
    case "contains":
      return ({ folded }) => folded.includes(wanted);
    case "starts_with":
      return ({ folded }) => folded.startsWith(wanted);
    case "ends_with":
      return ({ folded }) => folded.endsWith(wanted);
    case "matches":
      return compileWildcard(wanted);
  }
}

export function compileFilters(filters: readonly Filter[]): Matcher {
  const withAuthorities = includesAuthorities(filters);
  const tests = filters.flatMap(({ field, operator, value }) => {
    if (field === "include_cas") return [];
    const wanted = (Array.isArray(value) ? value : [String(value)]).map((one) => textTest(operator, one));
    return [
      (candidate: Prepared) => candidate.texts[field].some((text) => wanted.some((test) => test(text))),
    ];
  });
  return (candidate) => (withAuthorities || !candidate.isCa) && tests.every((test) => test(candidate));
}

/**
 * Filters of a body that let nothing through together: a name that has to equal one of some values, of which the other
 * filters on it allow none. Wildcards are left out: comparing very many of them would take long.
 */
export function filterFaults(body: unknown): Issue[] {
  const given = filtersInput.safeParse((body as { readonly filters?: unknown } | undefined)?.filters);
  return given.success ? SINGLE_FIELDS.flatMap((field) => contradictionsOn(field, given.data)) : [];
}

function contradictionsOn(field: (typeof SINGLE_FIELDS)[number], filters: readonly Filter[]): Issue[] {
  const own = filters.flatMap((filter, index) => (filter.field === field ? [{ filter, index }] : []));
  const exact = own.find(({ filter }) => filter.operator === "equals");
  if (!exact) return [];
  let left = [exact.filter.value].flat().map((value) => asText(String(value)));
  for (const { filter, index } of own) {
    // Two that equal nothing in common are the contract's to refuse.
    if (filter.operator === "matches" || filter.operator === "equals") continue;
    const tests = [filter.value].flat().map((value) => textTest(filter.operator, String(value)));
    left = left.filter((text) => tests.some((test) => test(text)));
    if (left.length > 0) continue;
    const message = `${field} cannot equal what another filter asks for and pass this one: filters are combined with and`;
    return [{ code: "custom", path: ["filters", index, "value"], message }];
  }
  return [];
}
