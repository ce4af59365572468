/**
 * Scans the index of live `notAfter` from the last scan until now for pending notices. Organisations take turns:
 * everybody's first slice of time comes before anybody's second, the one served longest ago is first, and a scan ends
 * after a while, in the middle of a page if need be: an organisation with a million due certificates and hundreds of alerts
 * goes on in the next scan, and the others are notified in time.
 */
import { MAINTENANCE_TURN } from "../../../platform/db/index.ts";
import { Pace } from "../../../platform/pace.ts";
import { Problem } from "../../../platform/problem.ts";
import { groupBy } from "../../../platform/group-by.ts";
import { includesAuthorities } from "../../filters/model.ts";
import { endWindow, isDue, utcDay, type AlertRow } from "../../model.ts";
import { expiryNotice, needsFullLook, type NoticeCertificateRow } from "../model.ts";
import * as store from "../store.ts";
import type { DueWindow, PendingNotice } from "../store.ts";
import { audienceOf, MAINTENANCE, type AlertAudience, type NoticeNeeds } from "./ready.ts";

const WINDOW_BATCH = 500;
const NOTICE_BATCH = 2000;
/** Of one window in one round; the rest of its page is read again. */
const NOTICES_A_ROUND = 5000;
/** Of one organisation in one round. */
const SLICE_MS = 200;
/**
 * Values of filters that one certificate is matched with in one step: a slice ends between steps only. Most projects have
 * fewer than that in all of their alerts.
 */
const VALUES_A_STEP = 2000;
/** Nodes' clocks differ a little; scanning back this far finds what another node's clock skipped. */
const OVERLAP_MS = 5 * 60_000;
const GREATEST_ID = "ffffffff-ffff-ffff-ffff-ffffffffffff";

/** Alerts that wait for the same ends: one project, one time ahead, one window; some of them where all ask for much. */
interface ExpiryWatch {
  readonly key: string;
  readonly alerts: readonly AlertRow[];
  readonly window: DueWindow;
  readonly alertBefore: string;
  /** Made for the first certificate that is found: most scans find none. */
  readonly audience: () => Promise<AlertAudience>;
}

/** Where a scan that took too long stopped, and for which alerts as they were then. */
interface Bookmark {
  readonly of: string;
  readonly low: Date;
  readonly lowId: string;
  /** How many scans have not come to the end. */
  readonly looks: number;
}

/** After this many scans what was found is reported, though there is more: an hour is too long to wait for all of it. */
const PATIENT_LOOKS = 90;

/** Another day is another pending notice for daily alerts. */
const versionOf = (alerts: readonly AlertRow[], now: Date): string =>
  [
    alerts.some(({ isDaily }) => isDaily) ? utcDay(now) : "",
    ...alerts.map(({ id, updatedAt }) => `${id} ${updatedAt.getTime()}`).sort(),
  ].join();

function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => (made ??= { value: make() }).value;
}

async function noticesOf(
  row: NoticeCertificateRow,
  audience: AlertAudience,
  now: Date,
): Promise<PendingNotice[]> {
  return (await audience(row)).map((alert) => ({
    certificateId: row.id,
    alertId: alert.id,
    notice: expiryNotice(alert, now),
    notAfter: row.notAfter,
  }));
}

const after = (watch: ExpiryWatch, { notAfter, id }: NoticeCertificateRow): ExpiryWatch => ({
  ...watch,
  window: { ...watch.window, low: notAfter, lowId: id },
});

const ownerOf = ({ alerts: [first], window }: ExpiryWatch): string => first?.orgId ?? window.projectId;

const weightOf = ({ filters }: AlertRow): number =>
  filters.reduce((sum, { value }) => sum + (Array.isArray(value) ? value.length : 1), 0);

function* stepsOf(alerts: readonly AlertRow[]): Generator<AlertRow[]> {
  let [step, weight] = [[] as AlertRow[], 0];
  for (const alert of [...alerts].sort((a, b) => (a.id < b.id ? -1 : 1))) {
    if (step.length > 0 && weight + weightOf(alert) > VALUES_A_STEP) {
      yield step;
      [step, weight] = [[], 0];
    }
    step.push(alert);
    weight += weightOf(alert);
  }
  if (step.length > 0) yield step;
}

/** One round of a scan: how much time each organisation had. */
class Round {
  readonly #spent = new Map<string, number>();
  readonly #elapsed: () => number;
  readonly #endsAt: number;

  constructor(elapsed: () => number, endsAt: number) {
    this.#elapsed = elapsed;
    this.#endsAt = endsAt;
  }

  isOverFor(watch: ExpiryWatch): boolean {
    return (this.#spent.get(ownerOf(watch)) ?? 0) >= SLICE_MS;
  }

  /** Work in steps, until it, the organisation's slice or the whole scan is over. */
  async serve(watch: ExpiryWatch, step: () => Promise<boolean>): Promise<void> {
    let before = this.#elapsed();
    for (let isMore = true; isMore && !this.isOverFor(watch) && before < this.#endsAt;) {
      isMore = await step();
      const now = this.#elapsed();
      this.#spent.set(ownerOf(watch), (this.#spent.get(ownerOf(watch)) ?? 0) + now - before);
      before = now;
    }
  }
}

const idsOf = (watches: readonly ExpiryWatch[]): ReadonlySet<string> =>
  new Set(watches.flatMap(({ alerts }) => alerts.map(({ id }) => id)));

interface ScanLimits {
  /** For how long one scan may go on; what is left is for the next one. */
  readonly budgetMs: number;
  /** Called when everybody's first page is done, and between rounds, with those who have more. */
  readonly onRound: (unfinished: ReadonlySet<string>) => Promise<void>;
}

export function createExpiryScan({ db, clock }: NoticeNeeds) {
  const bookmarks = new Map<string, Bookmark>();

  const write = async (waiting: PendingNotice[], now: Date): Promise<void> => {
    while (waiting.length > 0) {
      const part = waiting.splice(0, NOTICE_BATCH);
      await db.write(async (tx) => store.addNotices(tx, part, now), MAINTENANCE);
    }
  };

  /** The one served longest ago comes first: organisations, and windows of one organisation. */
  const served = new Map<string, number>();
  let turn = 0;
  const servedAt = (key: string): number => served.get(key) ?? 0;
  const inTurn = (watches: readonly ExpiryWatch[]): ExpiryWatch[] => {
    const known = new Set(watches.flatMap((watch) => [watch.key, ownerOf(watch)]));
    for (const key of served.keys()) if (!known.has(key)) served.delete(key);
    return [...watches].sort(
      (a, b) =>
        servedAt(ownerOf(a)) - servedAt(ownerOf(b)) ||
        (ownerOf(a) < ownerOf(b) ? -1 : Number(ownerOf(a) > ownerOf(b))) ||
        servedAt(a.key) - servedAt(b.key),
    );
  };

  /** Goes through what was read of a window; answers from where to go on, if there is more. */
  const readOne = async (
    watch: ExpiryWatch,
    own: readonly store.DueRow[],
    { round, now, waiting }: { readonly round: Round; readonly now: Date; readonly waiting: PendingNotice[] },
  ): Promise<ExpiryWatch | undefined> => {
    let written = 0;
    let last: store.DueRow | undefined;
    let at = 0;
    await round.serve(watch, async () => {
      const row = own[at];
      if (!row) return false;
      [at, last] = [at + 1, row];
      if (isDue(row.notAfter, watch.alertBefore, now)) {
        const found = await noticesOf(row, await watch.audience(), now);
        written += found.length;
        waiting.push(...found);
        if (waiting.length >= NOTICE_BATCH) await write(waiting, now);
      }
      return at < own.length && written < NOTICES_A_ROUND;
    });
    if (!last) return watch;
    served.set(watch.key, (turn += 1)).set(ownerOf(watch), turn);
    return last !== own.at(-1) || last.hasMore ? after(watch, last) : undefined;
  };

  /** Where one answer cannot hold the first certificate of every window, they are read in halves. */
  const readDue = async (windows: readonly DueWindow[]): Promise<store.DueRow[]> => {
    try {
      return await db.read((q) => store.readDue(q, windows), MAINTENANCE_TURN);
    } catch (error) {
      if (!(error instanceof Problem) || error.status !== 400 || windows.length < 2) throw error;
      const half = Math.ceil(windows.length / 2);
      const [first, second] = [await readDue(windows.slice(0, half)), await readDue(windows.slice(half))];
      return [...first, ...second.map((row) => ({ ...row, window: row.window + half }))];
    }
  };

  /** A page of each window; answers those that have more, from where to go on. */
  const readRound = async (
    watches: readonly ExpiryWatch[],
    round: Round,
    now: Date,
  ): Promise<ExpiryWatch[]> => {
    const open = watches.filter((watch) => !round.isOverFor(watch));
    const rows = await readDue(open.map((watch) => watch.window));
    const byWindow = groupBy(rows, (row) => String(row.window));
    const waiting: PendingNotice[] = [];
    const goOn = watches.filter((watch) => round.isOverFor(watch));
    const pace = new Pace();
    for (const [index, watch] of open.entries()) {
      const own = byWindow.get(String(index));
      const left = own ? await readOne(watch, own, { round, now, waiting }) : undefined;
      if (left) goOn.push(left);
      if (pace.isDue()) await pace.rest();
    }
    await write(waiting, now);
    return goOn;
  };

  /** Answers the windows that were not seen to their end. */
  const walk = async (
    watches: readonly ExpiryWatch[],
    now: Date,
    { budgetMs, onRound }: ScanLimits,
  ): Promise<ExpiryWatch[]> => {
    const endsAt = clock.elapsed() + budgetMs;
    let open = watches;
    for (let isFirst = true; open.length > 0; isFirst = false) {
      if (!isFirst) {
        await onRound(idsOf(open));
        if (clock.elapsed() > endsAt) break;
      }
      const round = new Round(() => clock.elapsed(), endsAt);
      const goOn: ExpiryWatch[] = [];
      const all = inTurn(open);
      for (let at = 0; at < all.length; at += WINDOW_BATCH) {
        const some = all.slice(at, at + WINDOW_BATCH);
        const isOver = clock.elapsed() > endsAt && at > 0;
        goOn.push(...(isOver ? some : await readRound(some, round, now)));
      }
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
    const audiences = new Map<string, AlertAudience>();
    for (const [id, group] of byProject) audiences.set(id, await audienceOf(group));
    const rows = await db.read(
      (q) => store.readDueAuthorities(q, [...byProject.keys()], now),
      MAINTENANCE_TURN,
    );
    const pace = new Pace();
    const waiting: PendingNotice[] = [];
    for (const row of rows) {
      const audience = audiences.get(row.projectId) ?? (async () => []);
      waiting.push(
        ...(await noticesOf(
          row,
          async (one) => (await audience(one)).filter((alert) => isDue(row.notAfter, alert.alertBefore, now)),
          now,
        )),
      );
      if (waiting.length >= NOTICE_BATCH) await write(waiting, now);
      if (pace.isDue()) await pace.rest();
    }
    await write(waiting, now);
  };

  const watchesOf = (
    alerts: readonly AlertRow[],
    isFull: ReadonlySet<AlertRow>,
    { since, now }: { readonly since: Date | null; readonly now: Date },
  ): ExpiryWatch[] => {
    const keyOf = (alert: AlertRow) => `${alert.projectId} ${alert.alertBefore} ${String(isFull.has(alert))}`;
    const groups = [...groupBy(alerts, keyOf)].flatMap(([key, all]) =>
      [...stepsOf(all)].map((group, at) => ({ key: `${at} ${key}`, group })),
    );
    return groups.flatMap(({ key, group }): ExpiryWatch[] => {
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
  return async (limits: ScanLimits): Promise<ReadonlySet<string>> => {
    const now = clock.now();
    const until = await db.read(store.readEvaluatedUntil);
    const since = until === null ? null : new Date(until.getTime() - OVERLAP_MS);
    const alerts = await db.read(store.readExpiring, MAINTENANCE_TURN);
    const isFull = new Set(alerts.filter((alert) => needsFullLook(alert, now)));
    const watches = watchesOf(alerts, isFull, { since, now });
    const earlier = new Map(bookmarks);
    bookmarks.clear();
    const unfinished = await walk(watches, now, limits);
    await lookAtAuthorities(alerts, now);
    // Not to its end: scanned from the beginning again, or from the cursor if this node does it.
    const late: ExpiryWatch[] = [];
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
    }, MAINTENANCE);
    return idsOf(unfinished.filter((watch) => !late.includes(watch)));
  };
}
