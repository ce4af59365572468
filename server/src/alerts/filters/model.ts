/**
 * Which certificates an alert is about. The same rules exist twice: here, for one certificate against many alerts
 * when a fact arrives, and as SQL in the store, for one alert against a million certificates. A test holds the two
 * together. Letters are compared without case in ASCII only: both sides can do that alike on every database.
 */
import type { Filter } from "./contract.ts";

export interface Candidate {
  readonly commonName: string;
  readonly san: readonly string[];
  readonly profileName: string | null;
  readonly isCa: boolean;
}

export type Matcher = (candidate: Candidate) => boolean;

export const fold = (text: string): string => text.replace(/[A-Z]+/g, (part) => part.toLowerCase());

export const includesAuthorities = (filters: readonly Filter[]): boolean =>
  filters.some((filter) => filter.field === "include_cas" && filter.value === true);

/** `*` is any run of characters, `?` any one. Linear: after a mismatch only the last star moves on. */
export function wildcardMatches(pattern: readonly string[], text: readonly string[]): boolean {
  let [at, from, star, resume] = [0, 0, -1, 0];
  while (from < text.length) {
    if (pattern[at] === "*") [star, resume, at] = [at, from, at + 1];
    else if (at < pattern.length && (pattern[at] === "?" || pattern[at] === text[from])) [at, from] = [at + 1, from + 1];
    else if (star >= 0) [at, resume, from] = [star + 1, resume + 1, resume + 1];
    else return false;
  }
  while (pattern[at] === "*") at += 1;
  return at === pattern.length;
}

type TextTest = (text: string) => boolean;

function textTest(operator: Filter["operator"], value: string): TextTest {
  const folded = fold(value);
  switch (operator) {
    case "equals":
      return (text) => text === value;
    case "contains":
      return (text) => fold(text).includes(folded);
    case "starts_with":
      return (text) => fold(text).startsWith(folded);
    case "ends_with":
      return (text) => fold(text).endsWith(folded);
    case "matches": {
      const pattern = [...folded];
      return (text) => wildcardMatches(pattern, [...fold(text)]);
    }
  }
}

function textsOf(field: Filter["field"], candidate: Candidate): readonly string[] {
  const profile = candidate.profileName === null ? [] : [candidate.profileName];
  switch (field) {
    case "profile_name":
      return profile;
    case "common_name":
      return [candidate.commonName];
    case "san":
      return candidate.san;
    case "any":
      return [...profile, candidate.commonName, ...candidate.san];
    case "include_cas":
      return [];
  }
}

export function compileFilters(filters: readonly Filter[]): Matcher {
  const withAuthorities = includesAuthorities(filters);
  const tests = filters
    .filter((filter) => filter.field !== "include_cas")
    .map(({ field, operator, value }) => {
      const wanted = (Array.isArray(value) ? value : [String(value)]).map((one) => textTest(operator, one));
      return (candidate: Candidate) => textsOf(field, candidate).some((text) => wanted.some((test) => test(text)));
    });
  return (candidate) => (withAuthorities || !candidate.isCa) && tests.every((test) => test(candidate));
}
