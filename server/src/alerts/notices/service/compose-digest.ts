/** From pending notices that wait to messages: one per alert, with one delivery per channel. */
import { type Tx, MAINTENANCE_TURN } from "../../../platform/db/index.ts";
import { newId } from "../../../platform/ids.ts";
import { groupBy } from "../../../platform/group-by.ts";
import { SHOWN } from "../../../notifications/index.ts";
import { digestIsDue, type AlertRow } from "../../model.ts";
import { contentOf } from "../model.ts";
import * as store from "../store.ts";
import type { MessageRow, UrgentRow, WaitingAlert } from "../store.ts";
import { MAINTENANCE, type NoticeNeeds } from "./ready.ts";

/** Alerts per transaction: enough to hide its round trips, few enough not to block people who edit alerts. */
const ALERTS_AT_ONCE = 50;
const NOTICES_AT_ONCE = 5000;
/** Transactions side by side; the others of the connections are for requests. */
const SIDE_BY_SIDE = 2;

function* portionsOf(waiting: readonly WaitingAlert[]): Generator<string[]> {
  let portion: string[] = [];
  let notices = 0;
  for (const { id, count } of waiting) {
    if (portion.length >= ALERTS_AT_ONCE || (portion.length > 0 && notices + count > NOTICES_AT_ONCE)) {
      yield portion;
      portion = [];
      notices = 0;
    }
    portion.push(id);
    notices += count;
  }
  if (portion.length > 0) yield portion;
}

export function createDigestComposer({ db, clock, publicUrl }: NoticeNeeds) {
  const compose = async (
    tx: Tx,
    alerts: readonly AlertRow[],
    urgent: readonly UrgentRow[],
    now: Date,
  ): Promise<MessageRow[]> => {
    const shown = await store.readCertificates(tx, [...new Set(urgent.map((one) => one.certificateId))]);
    const rows = new Map(shown.map((row) => [row.id, row]));
    const byAlert = groupBy(urgent, (one) => one.alertId);
    const speaking = alerts.filter((alert) => byAlert.has(alert.id));
    const ids = new Map(speaking.map((alert) => [alert.id, newId()]));
    const totals = await store.assignNotices(tx, ids);
    return speaking.map((alert) => {
      const own = byAlert.get(alert.id) ?? [];
      const total = totals.get(alert.id) ?? own.length;
      const content = contentOf({
        alert,
        kind: alert.eventType,
        certificates: [...new Set(own.map((one) => one.certificateId))].flatMap((id) => rows.get(id) ?? []),
        total,
        now,
        publicUrl,
        failures: new Map(
          own.flatMap((one) => (one.detail === null ? [] : [[one.certificateId, one.detail]])),
        ),
      });
      return { id: ids.get(alert.id) ?? newId(), alertId: alert.id, kind: alert.eventType, content, total };
    });
  };

  const composeSome = async (tx: Tx, alertIds: readonly string[], now: Date): Promise<void> => {
    const alerts = (await store.lockForDigest(tx, alertIds)).filter(
      (alert) => alert.enabled && digestIsDue(alert.digest, alert.gatheredAt, now),
    );
    await store.dropNoticesOfOtherKinds(
      tx,
      alerts.map((alert) => alert.id),
    );
    const expiring = alerts.filter((alert) => alert.eventType === "expiration").map((alert) => alert.id);
    if (expiring.length > 0) await store.dropNoticesThatAreOver(tx, expiring, now);
    const urgent = await store.readMostUrgent(
      tx,
      alerts.map((alert) => alert.id),
      SHOWN,
    );
    if (urgent.length === 0) return;
    const messages = await compose(tx, alerts, urgent, now);
    await store.addMessages(tx, messages, now, null);
    store.markGathered(
      tx,
      messages.map((message) => message.alertId),
      now,
    );
  };

  /** All alerts of which something waits, the fewest first, but those of which more is being found. */
  return async (budgetMs: number, unfinished: ReadonlySet<string>): Promise<void> => {
    const now = clock.now();
    const startedAt = clock.elapsed();
    const waiting = (await db.read(store.readWaitingAlerts, MAINTENANCE_TURN)).filter(
      (alert) => !unfinished.has(alert.id) && digestIsDue(alert.digest, alert.gatheredAt, now),
    );
    const portions = portionsOf(waiting);
    const composeNext = async (): Promise<void> => {
      for (const portion of portions) {
        await db.write((tx) => composeSome(tx, portion, now), MAINTENANCE);
        if (clock.elapsed() - startedAt > budgetMs) return;
      }
    };
    await Promise.all(Array.from({ length: SIDE_BY_SIDE }, composeNext));
  };
}
