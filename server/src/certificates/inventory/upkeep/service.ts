/** What keeps a million rows as quick as a thousand; see store/upkeep.ts and store/profile-list.ts. */
import type { Clock } from "../../../platform/clock.ts";
import { type Db, UPKEEP_TURN } from "../../../platform/db/index.ts";
import { takingTurns } from "../../../platform/jobs/index.ts";
import { addSeconds } from "../../model.ts";
import { lettersOf } from "../letters/model.ts";
import {
  addBlock,
  addChapter,
  blocksWithoutLetters,
  clearCertificates,
  findNextBlock,
  foldedProfiles,
  forgetProject,
  goneProjects,
  moveExpired,
  profilesWithFullChapters,
  readBlockTexts,
  storeLetters,
} from "../store/upkeep.ts";

const BATCH = 5_000;
export const BLOCK_SIZE = 2_000;
/** A row is written within the half minute that a statement may take; after that nothing can slip in below it. */
const SETTLE_SECONDS = 120;
const MAX_BLOCKS_PER_RUN = 2_000;
type FoldedProfile = Awaited<ReturnType<typeof foldedProfiles>>[number];

export type Upkeep = ReturnType<typeof createUpkeep>;

export function createUpkeep({ db, clock }: { readonly db: Db; readonly clock: Clock }) {
  return {
    async moveExpired(): Promise<void> {
      while ((await db.write((tx) => moveExpired(tx, clock.now(), BATCH), { audited: false })) === BATCH);
    },

    async foldBlocks(): Promise<void> {
      const settled = addSeconds(clock.now(), -SETTLE_SECONDS);
      let left = MAX_BLOCKS_PER_RUN;
      async function* fold(profile: FoldedProfile): AsyncGenerator<void> {
        for (let from = profile; ;) {
          const after = from;
          const until = await db.read((q) => findNextBlock(q, after, settled, BLOCK_SIZE), UPKEEP_TURN);
          if (!until) return;
          await db.write(async (tx) => addBlock(tx, after, until), { audited: false });
          from = { ...from, ...until };
          left -= 1;
          yield;
        }
      }
      const folded = await db.read(foldedProfiles, UPKEEP_TURN);
      await takingTurns(folded.map(fold), () => left <= 0);
      for (const { profileId } of await db.read(profilesWithFullChapters, UPKEEP_TURN))
        while (await db.write((tx) => addChapter(tx, profileId), { audited: false }));
      for (const block of await db.read((q) => blocksWithoutLetters(q, MAX_BLOCKS_PER_RUN), UPKEEP_TURN)) {
        const letters = lettersOf(await db.read((q) => readBlockTexts(q, block), UPKEEP_TURN));
        await db.write(async (tx) => storeLetters(tx, block, letters), { audited: false });
      }
    },

    async clearDeletedProjects(): Promise<void> {
      async function* clear({ projectId }: { readonly projectId: string }): AsyncGenerator<void> {
        while (
          (await db.write((tx) => clearCertificates(tx, projectId, BATCH), { audited: false })) === BATCH
        )
          yield;
        await db.write(async (tx) => forgetProject(tx, projectId), { audited: false });
      }
      await takingTurns((await db.read(goneProjects, UPKEEP_TURN)).map(clear));
    },
  };
}
