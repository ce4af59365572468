/** From occasions that wait to one message per alert, with one delivery per channel. */
import type { Tx } from "../../../platform/db/index.ts";
import { newId } from "../../../platform/ids.ts";
import { SHOWN } from "../../../notifications/index.ts";
import { digestIsDue } from "../../model.ts";
import { contentOf } from "../model.ts";
import * as store from "../store.ts";
import { UPKEEP, type OccasionNeeds } from "./ready.ts";

/** Alerts gathered at once: enough to hide the round trips, few enough to leave connections to requests. */
const SIDE_BY_SIDE = 3;

export function createGatherer({ db, clock, publicUrl }: OccasionNeeds) {
  const gatherOne = async (tx: Tx, alertId: string, now: Date): Promise<void> => {
    const alert = await store.lockForGathering(tx, alertId);
    if (!alert?.enabled || !digestIsDue(alert.digest, alert.gatheredAt, now)) return;
    if (alert.eventType === "expiration") await store.dropOccasionsThatAreOver(tx, alertId, now);
    const urgent = await store.readMostUrgent(tx, alertId, SHOWN);
    if (urgent.length === 0) return;
    const rows = new Map(
      (
        await store.readCertificates(
          tx,
          urgent.map((one) => one.certificateId),
        )
      ).map((row) => [row.id, row]),
    );
    const certificates = [...new Set(urgent.map((one) => one.certificateId))].flatMap(
      (id) => rows.get(id) ?? [],
    );
    const failures = new Map(
      urgent.flatMap((one) => (one.detail === null ? [] : [[one.certificateId, one.detail] as const])),
    );
    const id = newId();
    const total = await store.assignOccasions(tx, alertId, id);
    const content = contentOf({
      alert,
      kind: alert.eventType,
      certificates,
      total,
      now,
      publicUrl,
      failures,
    });
    store.addMessage(tx, { id, alertId, kind: alert.eventType, content, total, at: now }, null);
    store.markGathered(tx, alertId, now);
  };

  return async (): Promise<void> => {
    const now = clock.now();
    const waiting = (await db.read(store.readWaitingAlerts)).filter((alert) =>
      digestIsDue(alert.digest, alert.gatheredAt, now),
    );
    const gatherNext = async (): Promise<void> => {
      for (let next = waiting.pop(); next; next = waiting.pop()) {
        const { id } = next;
        await db.write((tx) => gatherOne(tx, id, now), UPKEEP);
      }
    };
    await Promise.all(Array.from({ length: SIDE_BY_SIDE }, gatherNext));
  };
}
