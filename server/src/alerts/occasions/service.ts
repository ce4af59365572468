/**
 * Deciding what is worth telling. Three steps, each safe to repeat and to be killed in:
 *
 *  facts     certificates were issued, renewed, revoked: the database kept a copy of each fact in the transaction that
 *            stated it. Taking it out and writing down what follows from it is one transaction, so it follows once.
 *            Organisations take turns: whoever has many facts and many alerts waits for themselves.
 *  look      certificates became due by the passing of time: found by an index on their ends, between the moment of
 *            the last look and now; written down as occasions, of which each exists once. Only then the cursor moves.
 *  gather    occasions that wait are made into one message per alert, with one delivery per channel.
 */
import { createGatherer } from "./service/gather.ts";
import { createLooker } from "./service/look-for-due.ts";
import { MAINTENANCE, type OccasionNeeds } from "./service/ready.ts";
import { createFactTurns } from "./service/take-turns.ts";
import * as store from "./store.ts";

const HISTORY_DAYS = 90;
/** After the certificate's end. */
const OCCASION_DAYS = 30;
const SWEPT_AT_ONCE = 2000;

export type Occasions = ReturnType<typeof createOccasions>;

export function createOccasions(needs: OccasionNeeds) {
  const turns = createFactTurns(needs);
  const looker = createLooker(needs);
  const gather = createGatherer(needs);
  return {
    takeFacts: turns,
    /** What takes longer than `budgetMs` is for the next look. */
    async lookForDue(budgetMs = Number.POSITIVE_INFINITY): Promise<void> {
      const onRound = (unfinished: ReadonlySet<string>) => gather(budgetMs, unfinished);
      await onRound(await looker({ budgetMs, onRound }));
    },
    /** Forgets what is long over, some at a time. */
    async sweep(now: Date): Promise<void> {
      const daysAgo = (days: number) => new Date(now.getTime() - days * 86_400_000);
      const [ends, messages] = [daysAgo(OCCASION_DAYS), daysAgo(HISTORY_DAYS)];
      for (let gone = SWEPT_AT_ONCE; gone === SWEPT_AT_ONCE;)
        gone = await needs.db.write((tx) => store.forgetOccasions(tx, ends, SWEPT_AT_ONCE), MAINTENANCE);
      for (let gone = SWEPT_AT_ONCE; gone === SWEPT_AT_ONCE;)
        gone = await needs.db.write((tx) => store.forgetMessages(tx, messages, SWEPT_AT_ONCE), MAINTENANCE);
    },
  };
}
