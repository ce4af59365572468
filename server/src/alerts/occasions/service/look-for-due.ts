/**
 * From the passing of time to occasions: the index of live ends, from the last look until now. Everybody's first page
 * comes before anybody's second, and a look ends after a while: who has a million due certificates and hundreds of
 * alerts for them goes on in the next look, and the others are told in time.
 */
import { UPKEEP_TURN } from "../../../platform/db/index.ts";
import { Pace } from "../../../platform/pace.ts";
import { includesAuthorities } from "../../filters/model.ts";
import { endWindow, isDue, utcDay, type AlertRow } from "../../model.ts";
import { expiryOccasion, needsFullLook, type CertificateRow } from "../model.ts";
import * as store from "../store.ts";
import type { DueWindow, Waiting } from "../store.ts";
import { audienceOf, groupBy, UPKEEP, type Audience, type OccasionNeeds } from "./ready.ts";

const WINDOW_BATCH = 500;
const OCCASION_BATCH = 2000;
/** Of one window in one round; the rest of its page is read again. */
const OCCASIONS_A_ROUND = 5000;
/** Nodes' clocks differ a little; looking back this far finds what another node's clock skipped. */
const OVERLAP_MS = 5 * 60_000;
const GREATEST_ID = "ffffffff-ffff-ffff-ffff-ffffffffffff";

/** Alerts that wait for the same ends: one project, one time ahead, one window. */
interface Watch {
  readonly key: string;
  readonly alerts: readonly AlertRow[];
  readonly window: DueWindow;
  readonly alertBefore: string;
  /** Made when the first certificate asks for it: most looks find none. */
  readonly audience: () => Promise<Audience>;
}

/** Where a look that took too long stopped, and for which alerts as they were then. */
interface Bookmark {
  readonly of: string;
  readonly low: Date;
  readonly lowId: string;
  /** How many looks have not come to the end. */
  readonly looks: number;
}

/** After so many looks what has been found is told, though there is more: an hour is too long to wait for all of it. */
const PATIENT_LOOKS = 30;

/** Another day is another occasion for those that speak daily. */
const versionOf = (alerts: readonly AlertRow[], now: Date): string =>
  [
    alerts.some(({ isDaily }) => isDaily) ? utcDay(now) : "",
    ...alerts.map(({ id, updatedAt }) => `${id} ${updatedAt.getTime()}`).sort(),
  ].join();

function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => (made ??= { value: make() }).value;
}

async function occasionsOf(row: CertificateRow, audience: Audience, now: Date): Promise<Waiting[]> {
  return (await audience(row)).map((alert) => ({
    certificateId: row.id,
    alertId: alert.id,
    occasion: expiryOccasion(alert, now),
    notAfter: row.notAfter,
  }));
}

const after = (watch: Watch, { notAfter, id }: CertificateRow): Watch => ({
  ...watch,
  window: { ...watch.window, low: notAfter, lowId: id },
});

const idsOf = (watches: readonly Watch[]): ReadonlySet<string> =>
  new Set(watches.flatMap(({ alerts }) => alerts.map(({ id }) => id)));

export interface LookLimits {
  /** For how long one look may go on; what is left is for the next one. */
  readonly budgetMs: number;
  /** Called when everybody's first page is done, and between rounds, with those who have more: told when all is found. */
  readonly onRound: (unfinished: ReadonlySet<string>) => Promise<void>;
}

export function createLooker({ db, clock }: OccasionNeeds) {
  const bookmarks = new Map<string, Bookmark>();

  const write = async (waiting: Waiting[], now: Date): Promise<void> => {
    while (waiting.length > 0) {
      const part = waiting.splice(0, OCCASION_BATCH);
      await db.write(async (tx) => store.addOccasions(tx, part, now), UPKEEP);
    }
  };

  /** A page of each window; answers those that have more, from where to go on. */
  const readRound = async (watches: readonly Watch[], now: Date): Promise<Watch[]> => {
    const windows = watches.map((watch) => watch.window);
    const { page, rows } = await db.read((q) => store.readDue(q, windows), UPKEEP_TURN);
    const pace = new Pace();
    const waiting: Waiting[] = [];
    const goOn: Watch[] = [];
    for (const [index, own] of groupBy(rows, (row) => String(row.window))) {
      const watch = watches[Number(index)];
      if (!watch) continue;
      let written = 0;
      let last: CertificateRow | undefined;
      for (const row of own) {
        if (written >= OCCASIONS_A_ROUND) break;
        last = row;
        if (pace.isDue()) await pace.rest();
        if (!isDue(row.notAfter, watch.alertBefore, now)) continue;
        const found = await occasionsOf(row, await watch.audience(), now);
        written += found.length;
        waiting.push(...found);
        if (waiting.length >= OCCASION_BATCH) await write(waiting, now);
      }
      if (last && (own.length === page || last !== own.at(-1))) goOn.push(after(watch, last));
    }
    await write(waiting, now);
    return goOn;
  };

  /** Answers the windows that were not seen to their end. */
  const walk = async (
    watches: readonly Watch[],
    now: Date,
    { budgetMs, onRound }: LookLimits,
  ): Promise<Watch[]> => {
    const startedAt = clock.elapsed();
    let open: readonly Watch[] = watches;
    for (let isFirst = true; open.length > 0; isFirst = false) {
      if (!isFirst) {
        await onRound(idsOf(open));
        if (clock.elapsed() - startedAt > budgetMs) break;
      }
      const goOn: Watch[] = [];
      for (let at = 0; at < open.length; at += WINDOW_BATCH)
        goOn.push(...(await readRound(open.slice(at, at + WINDOW_BATCH), now)));
      open = goOn;
    }
    return [...open];
  };

  const lookAtAuthorities = async (alerts: readonly AlertRow[], now: Date): Promise<void> => {
    const wishing = alerts.filter(
      (alert) => alert.applicationId === null && includesAuthorities(alert.filters),
    );
    if (wishing.length === 0) return;
    const byProject = groupBy(wishing, (alert) => alert.projectId);
    const audiences = new Map<string, Audience>();
    for (const [id, group] of byProject) audiences.set(id, await audienceOf(group));
    const rows = await db.read((q) => store.readDueAuthorities(q, [...byProject.keys()], now), UPKEEP_TURN);
    const pace = new Pace();
    const waiting: Waiting[] = [];
    for (const row of rows) {
      const audience = audiences.get(row.projectId) ?? (async () => []);
      waiting.push(
        ...(await occasionsOf(
          row,
          async (one) => (await audience(one)).filter((alert) => isDue(row.notAfter, alert.alertBefore, now)),
          now,
        )),
      );
      if (waiting.length >= OCCASION_BATCH) await write(waiting, now);
      if (pace.isDue()) await pace.rest();
    }
    await write(waiting, now);
  };

  const watchesOf = (
    alerts: readonly AlertRow[],
    isFull: ReadonlySet<AlertRow>,
    { since, now }: { readonly since: Date | null; readonly now: Date },
  ): Watch[] => {
    const keyOf = (alert: AlertRow) => `${alert.projectId} ${alert.alertBefore} ${String(isFull.has(alert))}`;
    return [...groupBy(alerts, keyOf)].flatMap(([key, group]): Watch[] => {
      const [first] = group;
      if (!first) return [];
      const { projectId, alertBefore } = first;
      const { low, high } = endWindow(alertBefore, isFull.has(first) ? null : since, now);
      const mark = bookmarks.get(key);
      const from =
        mark && mark.low > low && mark.of === versionOf(group, now) ? mark : { low, lowId: GREATEST_ID };
      const window = { projectId, low: from.low, lowId: from.lowId, high };
      return [{ key, alerts: group, window, alertBefore, audience: once(() => audienceOf(group)) }];
    });
  };

  /** Answers the alerts of which more is to be found. */
  return async (limits: LookLimits): Promise<ReadonlySet<string>> => {
    const now = clock.now();
    const until = await db.read(store.readEvaluatedUntil);
    const since = until === null ? null : new Date(until.getTime() - OVERLAP_MS);
    const alerts = await db.read(store.readExpiring, UPKEEP_TURN);
    const isFull = new Set(alerts.filter((alert) => needsFullLook(alert, now)));
    const watches = watchesOf(alerts, isFull, { since, now });
    const earlier = new Map(bookmarks);
    bookmarks.clear();
    const unfinished = await walk(watches, now, limits);
    await lookAtAuthorities(alerts, now);
    // Not to its end: looked at from the beginning again, or from the bookmark if this node does it.
    const late: Watch[] = [];
    for (const watch of unfinished) {
      const [key, looks] = [watch.key.replace(/ false$/, " true"), (earlier.get(watch.key)?.looks ?? 0) + 1];
      bookmarks.set(key, { of: versionOf(watch.alerts, now), ...watch.window, looks: looks % PATIENT_LOOKS });
      if (looks === PATIENT_LOOKS) late.push(watch);
    }
    const isUnfinished = new Set(unfinished.flatMap((watch) => watch.alerts));
    const looked = [...isFull].filter((alert) => !isUnfinished.has(alert));
    await db.write(async (tx) => {
      if (looked.length > 0) store.markLooked(tx, looked, now);
      if (isUnfinished.size > 0) store.markLooked(tx, [...isUnfinished], null);
      store.writeEvaluatedUntil(tx, now);
    }, UPKEEP);
    return idsOf(unfinished.filter((watch) => !late.includes(watch)));
  };
}
