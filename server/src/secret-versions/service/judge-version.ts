import type { Query } from "../../platform/db/index.ts";
import type { ConditionAttributes } from "../../permissions/index.ts";
import { attributesThen } from "../model.ts";
import { placesOfFolders, type VersionRow } from "../store.ts";
import { type FolderPlace, type TagRef, tagsFor, type Tags } from "../../secrets/index.ts";

/** What a version was: its tags, and everything that permissions have to be asked about besides what it is today. */
export interface Then {
  readonly tags: readonly TagRef[];
  readonly attributes: readonly ConditionAttributes[];
}

/**
 * Rights to an old version are checked by what the secret is today and by what it was, and neither may allow what the other
 * denies: a secret that an admin changed, untagged or moved to an open folder keeps its past protected.
 */
export async function learnThen(
  q: Query,
  tags: Pick<Tags, "lookUp">,
  today: FolderPlace,
  rows: readonly Pick<VersionRow, "folderId" | "key" | "createdAt" | "tagIds">[],
): Promise<Then[]> {
  const places = await placesOfFolders(q, [...new Set(rows.map((row) => row.folderId))]);
  const known = await tags.lookUp(
    today.projectId,
    rows.map((row) => row.tagIds),
  );
  return rows.map((row) => {
    const own = tagsFor(known, row.tagIds);
    return { tags: own, attributes: attributesThen(row, places, own, today) };
  });
}
