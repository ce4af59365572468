/** What keeps a million rows as quick as a thousand; see store/maintenance.ts and store/profile-list.ts. */
import type { Clock } from "../platform/clock.ts";
import { type Db, MAINTENANCE_TURN } from "../platform/db/index.ts";
import { takingTurns } from "../platform/jobs/index.ts";
import { bigramsOf } from "./bigrams.model.ts";
import {
  addBlock,
  addChapter,
  blocksWithoutBigrams,
  clearCertificates,
  findNextBlock,
  foldedProfiles,
  forgetProject,
  goneProjects,
  moveExpired,
  profilesWithFullChapters,
  readBlockTexts,
  storeBigrams,
} from "./store/maintenance.ts";
import { addSeconds } from "../certificates/index.ts";

const BATCH = 5_000;
const BLOCK_SIZE = 2_000;
/** A row is written within the half minute that a statement may take; after that nothing can slip in below it. */
const SETTLE_SECONDS = 120;
const MAX_BLOCKS_PER_RUN = 2_000;
type FoldedProfile = Awaited<ReturnType<typeof foldedProfiles>>[number];

export type Maintenance = ReturnType<typeof createMaintenance>;

export function createMaintenance({ db, clock }: { readonly db: Db; readonly clock: Clock }) {
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
          const until = await db.read((q) => findNextBlock(q, after, settled, BLOCK_SIZE), MAINTENANCE_TURN);
          if (!until) return;
          await db.write(async (tx) => addBlock(tx, after, until), { audited: false });
          from = { ...from, ...until };
          left -= 1;
          yield;
        }
      }
      const folded = await db.read(foldedProfiles, MAINTENANCE_TURN);
      await takingTurns(folded.map(fold), () => left <= 0);
      for (const { profileId } of await db.read(profilesWithFullChapters, MAINTENANCE_TURN))
        while (await db.write((tx) => addChapter(tx, profileId), { audited: false }));
      for (const block of await db.read(
        (q) => blocksWithoutBigrams(q, MAX_BLOCKS_PER_RUN),
        MAINTENANCE_TURN,
      )) {
        const letters = bigramsOf(await db.read((q) => readBlockTexts(q, block), MAINTENANCE_TURN));
        await db.write(async (tx) => storeBigrams(tx, block, letters), { audited: false });
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
      await takingTurns((await db.read(goneProjects, MAINTENANCE_TURN)).map(clear));
    },
  };
}
