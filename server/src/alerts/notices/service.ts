/**
 * Finding what to report. Three steps, each idempotent and safe to be killed in:
 *
 *  facts     certificates were issued, renewed, revoked: the database kept a copy of each fact in the transaction that
 *            stated it. Taking it out and storing what follows from it is one transaction, so it follows once.
 *            Organisations take turns: one with many facts and many alerts waits for itself.
 *  scan      certificates became due with time: found by an index on `notAfter`, between the moment of
 *            the last scan and now; stored as pending notices, of which each exists once. Only then the cursor moves.
 *  compose   pending notices become one message per alert, with one delivery per channel.
 */
import { createDigestComposer } from "./service/compose-digest.ts";
import { createExpiryScan } from "./service/scan-for-due.ts";
import { MAINTENANCE, type NoticeNeeds } from "./service/ready.ts";
import { createFactTurns } from "./service/take-turns.ts";
import * as store from "./store.ts";

const HISTORY_DAYS = 90;
/** After the certificate's end. */
const NOTICE_DAYS = 30;
const SWEPT_AT_ONCE = 2000;

export type PendingNotices = ReturnType<typeof createPendingNotices>;

export function createPendingNotices(needs: NoticeNeeds) {
  const turns = createFactTurns(needs);
  const scan = createExpiryScan(needs);
  const gather = createDigestComposer(needs);
  return {
    takeFacts: turns,
    /** What takes longer than `budgetMs` is for the next scan. */
    async scanForDue(budgetMs = Number.POSITIVE_INFINITY): Promise<void> {
      const onRound = (unfinished: ReadonlySet<string>) => gather(budgetMs, unfinished);
      await onRound(await scan({ budgetMs, onRound }));
    },
    /** Deletes what is long over, some at a time. */
    async sweep(now: Date): Promise<void> {
      const daysAgo = (days: number) => new Date(now.getTime() - days * 86_400_000);
      const [ends, messages] = [daysAgo(NOTICE_DAYS), daysAgo(HISTORY_DAYS)];
      for (let gone = SWEPT_AT_ONCE; gone === SWEPT_AT_ONCE;)
        gone = await needs.db.write((tx) => store.forgetNotices(tx, ends, SWEPT_AT_ONCE), MAINTENANCE);
      for (let gone = SWEPT_AT_ONCE; gone === SWEPT_AT_ONCE;)
        gone = await needs.db.write((tx) => store.forgetMessages(tx, messages, SWEPT_AT_ONCE), MAINTENANCE);
    },
  };
}
