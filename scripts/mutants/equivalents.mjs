// Mutants that change nothing anybody can see, each with its reason (equivalents.json). They are found again by what the
// code says and not by its line, so that they outlive edits elsewhere; one that fits nothing any more is reported.
import { readFileSync } from "node:fs";

const LIST = new URL("./equivalents.json", import.meta.url);

/** `{ file, line, before, after, reason }`: the end of the path, the whole line, the change in it. */
export const readEquivalents = () => JSON.parse(readFileSync(LIST, "utf8"));

const fits = (entry, place) =>
  `/${place.path}`.endsWith(`/${entry.file}`) &&
  place.lineText === entry.line &&
  place.before === entry.before &&
  place.after === entry.after;

export const equivalentOf = (entries, place) => entries.find((entry) => fits(entry, place));

export const staleAmong = (entries, places) =>
  entries.filter((entry) => !places.some((place) => fits(entry, place)));
