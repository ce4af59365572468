/**
 * How to look for a term in a profile's list. There are two ways, and which is quick depends on the term:
 *
 * - walk: read the list in its order and compare each row. Good for terms that many rows hold: a page is soon full.
 * - index: ask the trigram index for rows that hold certain parts of the term, compare those, sort. Good for rare
 *   terms, and quickest with few parts: the index keeps a list of rows for each group of three letters, and reads
 *   every list that it is asked for. "api-900000." is better looked up by "900" and "00." than by all of it.
 *
 * Terms without three letters in a row are in no list; for those the blocks of the list know their letters.
 *
 * A sample of the profile's names tells the two apart and estimates how long those lists are. It only guides: the
 * whole term is compared in any case, so a bad guess costs time and never correctness.
 */
import { inChunks } from "../platform/pace.ts";

export const NEWEST_SAMPLED = 500;
export const PLACES_SAMPLED = 50;
export const SAMPLED_AT_A_PLACE = 8;
/** Of each certificate's names: more than nearly all have, and enough to guess by for those that have hundreds. */
export const LETTERS_SAMPLED = 512;

/** What a sample is made of. */
export interface SeenNames {
  readonly newest: readonly string[];
  readonly places: readonly (readonly string[])[];
  readonly counted: number;
  readonly everywhere: number;
}

export interface SearchSample {
  /** The newest names, a blank line between them, and how many there are. */
  readonly newest: string;
  readonly newestCount: number;
  /** Names from places spread evenly over the rest of the list, newest place first. */
  readonly places: readonly { readonly text: string; readonly count: number }[];
  /** Certificates in the profile, and in all of them. */
  readonly size: number;
  readonly everywhere: number;
  /** The share of names that hold a group of three letters, of those that were seen. */
  readonly shares: ReadonlyMap<string, number>;
  readonly shareOfUnseen: number;
}

export type SearchPlan =
  | { readonly kind: "walk" }
  /** Walk, but pass over blocks that lack the term's letters. */
  | { readonly kind: "letters" }
  /** `parts` are parts of the term in its order, without overlap. */
  | { readonly kind: "index"; readonly parts: readonly string[]; readonly isByProfile: boolean };

/**
 * Microseconds, as measured with a million rows: a row that is walked; an entry of a list that the index reads, and
 * more for those of the shortest list, each of which is looked for in the others; a row that is fetched to be
 * compared; and what any question to the index costs.
 */
const COST = { walk: 0.5, entry: 0.032, probe: 0.03, candidate: 3, index: 50 } as const;
/** Shorter walks are not worth a thought. */
const LONG_WALK_ROWS = 500;
/** A part more narrows the choice, but is a list more to read. */
const MOST_PARTS = 4;
const BETWEEN = "\n\n";

/**
 * The groups of three letters by which the index files a piece of text: of every word, with two blanks before it and
 * one after it, where the piece shows that the word begins or ends there.
 */
export function groupsOf(piece: string): string[] {
  const groups = new Set<string>();
  for (const { 0: word, index } of piece.matchAll(/[\p{L}\p{N}]+/gu)) {
    const isBegun = index > 0;
    const isEnded = index + word.length < piece.length;
    const padded = `${isBegun ? "  " : ""}${word}${isEnded ? " " : ""}`;
    for (let at = 0; at + 3 <= padded.length; at += 1) groups.add(padded.slice(at, at + 3));
  }
  return [...groups];
}

/** How many of the names hold the term. */
function countIn(names: string, term: string): number {
  let count = 0;
  for (let at = names.indexOf(term); at >= 0; at = names.indexOf(term, at)) {
    count += 1;
    at = names.indexOf(BETWEEN, at);
    if (at < 0) break;
  }
  return count;
}

/** How many rows a walk is expected to read before it has met `needed` of them, and how many hold the term at all. */
function expectWalk(term: string, needed: number, { newest, newestCount, places, size }: SearchSample) {
  let met = countIn(newest, term);
  if (met >= needed) return { rows: (newestCount * needed) / met, met };
  let rows = newestCount;
  const run = (size - newestCount) / Math.max(1, places.length);
  for (const place of places) {
    const here = (countIn(place.text, term) / Math.max(1, place.count)) * run;
    if (met < needed) rows += here > needed - met ? (run * (needed - met)) / here : run;
    met += here;
  }
  return { rows: places.length === 0 ? size : rows, met };
}

/** Three letters of the term, and the lists that the index reads for them. */
interface PlanPart {
  readonly from: number;
  readonly text: string;
  readonly shortest: number;
  readonly entries: number;
  /** The share of names that hold it. */
  readonly share: number;
}

/**
 * Of the names that hold one part, at least so many hold the other too: one may go on where the other ends, as "900"
 * and "00." do in "900.", and there are only so many ways to go on.
 */
function leastTogether(one: string, other: string): number {
  if (one.slice(1) === other.slice(0, 2) || other.slice(1) === one.slice(0, 2)) return 0.1;
  return one[2] === other[0] || other[2] === one[0] ? 0.015 : 0;
}

function partsOf(term: string, { shares, shareOfUnseen, everywhere }: SearchSample): PlanPart[] {
  const parts = new Map<string, PlanPart>();
  for (let from = 0; from + 3 <= term.length; from += 1) {
    const text = term.slice(from, from + 3);
    if (parts.has(text)) continue;
    let [shortest, entries, share] = [Number.POSITIVE_INFINITY, 0, 1];
    for (const group of groupsOf(text)) {
      const part = shares.get(group) ?? shareOfUnseen;
      shortest = Math.min(shortest, part * everywhere);
      entries += part * everywhere;
      share = Math.min(share, part);
    }
    if (entries > 0) parts.set(text, { from, text, shortest, entries, share });
  }
  return [...parts.values()];
}

function sum(chosen: readonly PlanPart[], more: PlanPart) {
  let { entries, shortest, share } = more;
  for (const part of chosen) {
    entries += part.entries;
    shortest = Math.min(shortest, part.shortest);
    share = Math.max(share, leastTogether(part.text, more.text));
  }
  return { entries, shortest, share };
}

/** What it costs to ask the index for these parts: of every profile, or of this one alone. */
function priceOf(chosen: Choice, more: PlanPart, { everywhere, size }: SearchSample): Choice {
  const { entries, shortest, share: further } = sum(chosen.parts, more);
  const share = chosen.share * further;
  const byTerm = shortest * COST.probe + entries * COST.entry + share * everywhere * COST.candidate;
  const byProfile =
    Math.min(shortest, size) * COST.probe + (entries + size) * COST.entry + share * size * COST.candidate;
  return {
    parts: [...chosen.parts, more],
    share,
    price: COST.index + Math.min(byTerm, byProfile),
    isByProfile: byProfile < byTerm,
  };
}

interface Choice {
  readonly parts: readonly PlanPart[];
  readonly share: number;
  readonly price: number;
  readonly isByProfile: boolean;
}

const NONE: Choice = { parts: [], share: 1, price: Number.POSITIVE_INFINITY, isByProfile: false };
/** Parts that are tried with each other: those with the shortest lists. */
const TRIED_TOGETHER = 14;
/** One part more than two must save a good deal: that it is rare may be an accident of the sample. */
const WORTH_A_PART = 0.75;

const cheapest = (choices: readonly Choice[]): Choice =>
  choices.reduce((best, choice) => (choice.price < best.price ? choice : best), NONE);

/** The cheapest part or two to ask for, and more of them for as long as each makes it much cheaper. */
function choose(term: string, sample: SearchSample): Choice | undefined {
  const parts = partsOf(term, sample)
    .sort((a, b) => a.entries - b.entries)
    .slice(0, TRIED_TOGETHER);
  const singles = parts.map((part) => priceOf(NONE, part, sample));
  const pairs = singles.flatMap((single, at) =>
    parts.slice(at + 1).map((part) => priceOf(single, part, sample)),
  );
  let best = cheapest([...singles, ...pairs]);
  while (best.parts.length < MOST_PARTS) {
    const { parts: chosen } = best;
    const more = parts.filter((part) => !chosen.includes(part)).map((part) => priceOf(best, part, sample));
    const next = cheapest(more);
    if (next.parts.length === 0 || next.price > best.price * WORTH_A_PART) break;
    best = next;
  }
  return best.parts.length === 0 ? undefined : best;
}

/** The chosen parts in the order of the term; those that overlap are one. */
function joined(term: string, chosen: readonly PlanPart[]): string[] {
  const spans: { from: number; to: number }[] = [];
  for (const { from } of [...chosen].sort((a, b) => a.from - b.from)) {
    const last = spans.at(-1);
    if (last && from < last.to) last.to = from + 3;
    else spans.push({ from, to: from + 3 });
  }
  return spans.map(({ from, to }) => term.slice(from, to));
}

export function planSearch(
  search: string,
  sample: SearchSample,
  { offset, limit }: { readonly offset: number; readonly limit: number },
): SearchPlan {
  if (sample.newestCount < NEWEST_SAMPLED) return { kind: "walk" };
  const term = search.toLowerCase();
  const { rows, met } = expectWalk(term, offset + limit, sample);
  if (rows <= LONG_WALK_ROWS) return { kind: "walk" };
  const best = choose(term, sample);
  if (!best) return { kind: "letters" };
  if (rows * COST.walk <= best.price + met * COST.candidate) return { kind: "walk" };
  return { kind: "index", parts: joined(term, best.parts), isByProfile: best.isByProfile };
}

/** As if besides the sample some hundred names had been seen in which every group is rather rare: chance evens out. */
const PRIOR = { held: 1.5, seen: 200 } as const;

/** Honest names have a few thousand; those made to be all different must not fill the memory. */
const MOST_GROUPS = 50_000;

async function sharesOf(texts: readonly string[]) {
  const counts = new Map<string, number>();
  await inChunks(texts, (text) => {
    for (const group of groupsOf(`\n${text}\n`)) {
      const count = counts.get(group);
      if (count !== undefined || counts.size < MOST_GROUPS) counts.set(group, (count ?? 0) + 1);
    }
  });
  const shareOf = (count: number) => (count + PRIOR.held) / (texts.length + PRIOR.seen);
  const shares = new Map<string, number>();
  await inChunks(counts, ([group, count]) => void shares.set(group, shareOf(count)));
  return { shares, shareOfUnseen: shareOf(0) };
}

/** Long names of many certificates are a long count, so it is done in chunks. */
export async function sampleOf(seen: SeenNames): Promise<SearchSample> {
  const { newest, places } = seen;
  const size = Math.max(seen.counted, newest.length);
  const spread = places.flat();
  return {
    newest: newest.join(BETWEEN),
    newestCount: newest.length,
    places: places.map((texts) => ({ text: texts.join(BETWEEN), count: texts.length })),
    size,
    everywhere: Math.max(seen.everywhere, size),
    ...(await sharesOf(spread.length >= newest.length / 2 ? spread : newest)),
  };
}
