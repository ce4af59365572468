// Files that a reader must open to follow a story, counted in the tours that tell it.
import { readFileSync } from "node:fs";
import { join } from "node:path";

export const filesIn = (text) => [...text.matchAll(/`([\w./-]+\.(?:ts|mjs))`/g)].map(([, path]) => path);
/** Of the numbered steps, their continued lines too. */
export const stepsOf = (text) =>
  new Set([...text.matchAll(/^\d+\. .*(?:\n +\S.*)*/gm)].flatMap(([step]) => filesIn(step)));
/** The part of a tour under the heading that begins with these words; all of it without. */
const under = (text, words) =>
  words === undefined ? text : (text.split(/^## /m).find((part) => part.startsWith(words)) ?? "");

const STORIES = [
  { story: "create an alert", most: 6, tour: "follow-an-alert.md", part: "It is created" },
  { story: "a secret change to a stream on another node", most: 12, tour: "follow-a-secret-change.md" },
  { story: "issue for a CSR", most: 12, tour: "issue-a-certificate.md", part: "It is issued" },
  { story: "list with search", most: 8, tour: "follow-a-request.md", part: "Listing" },
];
/** Fewer, and the tour was written in another way than this reads it. */
const FEWEST = 4;

export function storiesOf(root) {
  return STORIES.map(({ story, most, tour, part }) => {
    const { size } = stepsOf(under(readFileSync(join(root, "docs/tours", tour), "utf8"), part));
    return { story, most, files: size, isRight: size >= FEWEST && size <= most };
  });
}
