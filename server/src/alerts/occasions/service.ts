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
import { createFactReader } from "./service/take-facts.ts";
import * as store from "./store.ts";

const HISTORY_DAYS = 90;
/** After the certificate's end. */
const OCCASION_DAYS = 30;
const SWEPT_AT_ONCE = 2000;

export type Occasions = ReturnType<typeof createOccasions>;

export function createOccasions(needs: OccasionNeeds) {
  const facts = createFactReader(needs);
  const looker = createLooker(needs);
  const gather = createGatherer(needs);
  return {
    /** Takes in waiting facts until there are none; answers how many. */
    async takeFacts(): Promise<number> {
      for (let all = 0; ;) {
        const { taken, isMore } = await needs.db.write((tx) => facts(tx), UPKEEP);
        all += taken;
        if (!isMore) return all;
      }
    },
    async lookForDue(): Promise<void> {
      await looker();
      await gather();
    },
    gather,
    /** Forgets what is long over, some at a time. */
    async sweep(now: Date): Promise<void> {
      const daysAgo = (days: number) => new Date(now.getTime() - days * 86_400_000);
      const [ends, messages] = [daysAgo(OCCASION_DAYS), daysAgo(HISTORY_DAYS)];
      for (let gone = SWEPT_AT_ONCE; gone === SWEPT_AT_ONCE;)
        gone = await needs.db.write((tx) => store.forgetOccasions(tx, ends, SWEPT_AT_ONCE), UPKEEP);
      for (let gone = SWEPT_AT_ONCE; gone === SWEPT_AT_ONCE;)
        gone = await needs.db.write((tx) => store.forgetMessages(tx, messages, SWEPT_AT_ONCE), UPKEEP);
    },
  };
}
