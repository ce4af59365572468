/** Makes a sample of names. Long names of many certificates are a long count, so it is done in chunks. */
import { inChunks } from "../platform/pace.ts";
import { BETWEEN, groupsOf, type SearchSample, type SeenNames } from "./search-planner.model.ts";

/** Smoothing: as if besides the sample some hundred names had been seen in which every group is rather rare. */
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
