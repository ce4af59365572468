/**
 * Deciding what is worth telling. Three steps, each safe to repeat and to be killed in:
 *
 *  facts     certificates were issued, renewed, revoked: the database kept a copy of each fact in the transaction that
 *            stated it. Taking it out and writing down what follows from it is one transaction, so it follows once.
 *  look      certificates became due by the passing of time: found by an index on their ends, between the moment of
 *            the last look and now; written down as occasions, of which each exists once. Only then the cursor moves.
 *  gather    occasions that wait are made into one message per alert, with one delivery per channel.
 */
import { createGatherer } from "./service/gather.ts";
import { createLooker } from "./service/look-for-due.ts";
import { UPKEEP, type OccasionNeeds } from "./service/ready.ts";
import { createFactReader, FACT_BATCH } from "./service/take-facts.ts";
import * as store from "./store.ts";

const HISTORY_DAYS = 90;

export type Occasions = ReturnType<typeof createOccasions>;

export function createOccasions(needs: OccasionNeeds) {
  const facts = createFactReader(needs);
  const looker = createLooker(needs);
  const gather = createGatherer(needs);
  return {
    /** Takes in waiting facts until there are none; answers how many. */
    async takeFacts(): Promise<number> {
      let all = 0;
      for (;;) {
        const taken = await needs.db.write((tx) => facts(tx), UPKEEP);
        all += taken;
        if (taken < FACT_BATCH) return all;
      }
    },
    async lookForDue(): Promise<void> {
      await looker();
      await gather();
    },
    gather,
    sweep: (now: Date) =>
      needs.db.write(
        (tx) =>
          store.sweepHistory(
            tx,
            new Date(now.getTime() - 30 * 86_400_000),
            new Date(now.getTime() - HISTORY_DAYS * 86_400_000),
          ),
        UPKEEP,
      ),
  };
}
