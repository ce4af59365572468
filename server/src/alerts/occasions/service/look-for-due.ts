/** From the passing of time to occasions: the index of live ends, from the last look until now. */
import { prepare, includesAuthorities } from "../../filters/model.ts";
import { endWindow, isDue } from "../../model.ts";
import { expiryOccasion, needsFullLook, type CertificateRow } from "../model.ts";
import * as store from "../store.ts";
import type { DueWindow, Waiting } from "../store.ts";
import { concerns, groupBy, makeReady, UPKEEP, type OccasionNeeds, type Ready } from "./ready.ts";

const WINDOW_BATCH = 500;
const OCCASION_BATCH = 5000;
/** Nodes' clocks differ a little; looking back this far finds what another node's clock skipped. */
const OVERLAP_MS = 5 * 60_000;
const GREATEST_ID = "ffffffff-ffff-ffff-ffff-ffffffffffff";

interface Look extends Ready {
  readonly isFull: boolean;
}

export function createLooker({ db, clock }: OccasionNeeds) {
  const write = async (waiting: Waiting[], now: Date): Promise<void> => {
    while (waiting.length > 0) {
      const part = waiting.splice(0, OCCASION_BATCH);
      await db.write(async (tx) => store.addOccasions(tx, part, now), UPKEEP);
    }
  };

  const collect = (row: CertificateRow, looks: readonly Look[], now: Date): Waiting[] => {
    const prepared = prepare(row);
    return looks
      .filter((look) => isDue(row.notAfter, look.alert.alertBefore, now) && concerns(look, row, prepared))
      .map(({ alert }) => ({
        certificateId: row.id,
        alertId: alert.id,
        occasion: expiryOccasion(alert, now),
        notAfter: row.notAfter,
      }));
  };

  /** Walks all windows side by side, a page of each at a time. */
  const walk = async (
    groups: readonly { window: DueWindow; looks: readonly Look[] }[],
    now: Date,
  ): Promise<void> => {
    let open = [...groups];
    while (open.length > 0) {
      const rows = await db.read((q) =>
        store.readDue(
          q,
          open.map((group) => group.window),
        ),
      );
      const waiting: Waiting[] = [];
      const last = new Map<number, { row: CertificateRow; count: number }>();
      for (const row of rows) {
        last.set(row.window, { row, count: (last.get(row.window)?.count ?? 0) + 1 });
        for (const one of collect(row, open[row.window]?.looks ?? [], now)) waiting.push(one);
      }
      await write(waiting, now);
      open = open.flatMap((group, index) => {
        const end = last.get(index);
        return end?.count === store.PAGE
          ? [{ ...group, window: { ...group.window, low: end.row.notAfter, lowId: end.row.id } }]
          : [];
      });
    }
  };

  const lookAtAuthorities = async (looks: readonly Look[], now: Date): Promise<void> => {
    const wishing = looks.filter(
      ({ alert }) => alert.applicationId === null && includesAuthorities(alert.filters),
    );
    if (wishing.length === 0) return;
    const byProject = groupBy(wishing, ({ alert }) => alert.projectId);
    const rows = await db.read((q) => store.readDueAuthorities(q, [...byProject.keys()], now));
    await write(
      rows.flatMap((row) => collect(row, byProject.get(row.projectId) ?? [], now)),
      now,
    );
  };

  return async (): Promise<void> => {
    const now = clock.now();
    const until = await db.read(store.readEvaluatedUntil);
    const since = until === null ? null : new Date(until.getTime() - OVERLAP_MS);
    const looks: Look[] = (await db.read(store.readExpiring)).map((alert) => ({
      ...makeReady(alert),
      isFull: needsFullLook(alert, now),
    }));
    const byWindow = groupBy(
      looks,
      ({ alert, isFull }) => `${alert.projectId} ${alert.alertBefore} ${String(isFull)}`,
    );
    const groups = [...byWindow.values()].flatMap((group) => {
      const [first] = group;
      if (!first) return [];
      const { low, high } = endWindow(first.alert.alertBefore, first.isFull ? null : since, now);
      return [{ window: { projectId: first.alert.projectId, low, lowId: GREATEST_ID, high }, looks: group }];
    });
    for (let at = 0; at < groups.length; at += WINDOW_BATCH)
      await walk(groups.slice(at, at + WINDOW_BATCH), now);
    await lookAtAuthorities(looks, now);
    const full = looks.filter((look) => look.isFull).map((look) => look.alert);
    await db.write(async (tx) => {
      if (full.length > 0) store.markLooked(tx, full, now);
      store.writeEvaluatedUntil(tx, now);
    }, UPKEEP);
  };
}
