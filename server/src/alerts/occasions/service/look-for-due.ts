/** From the passing of time to occasions: the index of live ends, from the last look until now. */
import { UPKEEP_TURN } from "../../../platform/db/index.ts";
import { includesAuthorities } from "../../filters/model.ts";
import { endWindow, isDue, type AlertRow } from "../../model.ts";
import { expiryOccasion, needsFullLook, type CertificateRow } from "../model.ts";
import * as store from "../store.ts";
import type { DueWindow, Waiting } from "../store.ts";
import { audienceOf, groupBy, UPKEEP, type Audience, type OccasionNeeds } from "./ready.ts";

const WINDOW_BATCH = 500;
const OCCASION_BATCH = 2000;
/** Nodes' clocks differ a little; looking back this far finds what another node's clock skipped. */
const OVERLAP_MS = 5 * 60_000;
const GREATEST_ID = "ffffffff-ffff-ffff-ffff-ffffffffffff";

/** Alerts that wait for the same ends: one project, one time ahead, one window. */
interface Watch {
  readonly window: DueWindow;
  readonly alertBefore: string;
  /** Made when the first certificate asks for it: most looks find none. */
  readonly audience: () => Audience;
}

function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => (made ??= { value: make() }).value;
}

function occasionsOf(row: CertificateRow, audience: Audience, now: Date): Waiting[] {
  return audience(row).map((alert) => ({
    certificateId: row.id,
    alertId: alert.id,
    occasion: expiryOccasion(alert, now),
    notAfter: row.notAfter,
  }));
}

export function createLooker({ db, clock }: OccasionNeeds) {
  const write = async (waiting: Waiting[], now: Date): Promise<void> => {
    while (waiting.length > 0) {
      const part = waiting.splice(0, OCCASION_BATCH);
      await db.write(async (tx) => store.addOccasions(tx, part, now), UPKEEP);
    }
  };

  /** Walks all windows side by side, a page of each at a time. */
  const walk = async (watches: readonly Watch[], now: Date): Promise<void> => {
    let open = [...watches];
    while (open.length > 0) {
      const { page, rows } = await db.read(
        (q) =>
          store.readDue(
            q,
            open.map((watch) => watch.window),
          ),
        UPKEEP_TURN,
      );
      const waiting: Waiting[] = [];
      const last = new Map<number, { row: CertificateRow; count: number }>();
      for (const row of rows) {
        last.set(row.window, { row, count: (last.get(row.window)?.count ?? 0) + 1 });
        const watch = open[row.window];
        if (!watch || !isDue(row.notAfter, watch.alertBefore, now)) continue;
        for (const one of occasionsOf(row, watch.audience(), now)) waiting.push(one);
        if (waiting.length >= OCCASION_BATCH) await write(waiting, now);
      }
      await write(waiting, now);
      open = open.flatMap((watch, index) => {
        const end = last.get(index);
        return end?.count === page
          ? [{ ...watch, window: { ...watch.window, low: end.row.notAfter, lowId: end.row.id } }]
          : [];
      });
    }
  };

  const lookAtAuthorities = async (alerts: readonly AlertRow[], now: Date): Promise<void> => {
    const wishing = alerts.filter(
      (alert) => alert.applicationId === null && includesAuthorities(alert.filters),
    );
    if (wishing.length === 0) return;
    const byProject = groupBy(wishing, (alert) => alert.projectId);
    const audiences = new Map([...byProject].map(([id, group]) => [id, audienceOf(group)]));
    const rows = await db.read((q) => store.readDueAuthorities(q, [...byProject.keys()], now), UPKEEP_TURN);
    const waiting = rows.flatMap((row) => {
      const audience = audiences.get(row.projectId) ?? (() => []);
      return occasionsOf(
        row,
        (one) => audience(one).filter((alert) => isDue(row.notAfter, alert.alertBefore, now)),
        now,
      );
    });
    await write(waiting, now);
  };

  return async (): Promise<void> => {
    const now = clock.now();
    const until = await db.read(store.readEvaluatedUntil);
    const since = until === null ? null : new Date(until.getTime() - OVERLAP_MS);
    const alerts = await db.read(store.readExpiring, UPKEEP_TURN);
    const full = alerts.filter((alert) => needsFullLook(alert, now));
    const isFull = new Set(full);
    const watches = [
      ...groupBy(
        alerts,
        (alert) => `${alert.projectId} ${alert.alertBefore} ${String(isFull.has(alert))}`,
      ).values(),
    ].flatMap((group): Watch[] => {
      const [first] = group;
      if (!first) return [];
      const { projectId, alertBefore } = first;
      const { low, high } = endWindow(alertBefore, isFull.has(first) ? null : since, now);
      const window = { projectId, low, lowId: GREATEST_ID, high };
      return [{ window, alertBefore, audience: once(() => audienceOf(group)) }];
    });
    for (let at = 0; at < watches.length; at += WINDOW_BATCH)
      await walk(watches.slice(at, at + WINDOW_BATCH), now);
    await lookAtAuthorities(alerts, now);
    await db.write(async (tx) => {
      if (full.length > 0) store.markLooked(tx, full, now);
      store.writeEvaluatedUntil(tx, now);
    }, UPKEEP);
  };
}
