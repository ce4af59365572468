/**
 * Before a message is sent: is it still wanted, and may it be sent now? Hours may lie between its creation and this
 * attempt, and in the meantime its certificates may have been renewed or revoked, or the alert was disabled.
 */
import type { Query, SlowQuery } from "../../platform/db/index.ts";
import { HELD_MS, PATIENCE_MS, waitForOlder, type DeliveryVerdict } from "./model.ts";
import { findNotifiedThere, isAnyLive, isAnyNotifiedLive, type ClaimedDelivery } from "./store.ts";

interface Speaker {
  readonly enabled: boolean;
  readonly isAlertEnabled: boolean;
}

const shownIds = ({ content }: ClaimedDelivery): string[] => content.certificates.map(({ id }) => id);

const end = (delivery: ClaimedDelivery, reason: string): DeliveryVerdict => ({
  status: "ended",
  error: delivery.lastError === null ? reason : `${reason} Before that: ${delivery.lastError}`,
});

async function expirationIsOver(q: SlowQuery, delivery: ClaimedDelivery, now: Date): Promise<boolean> {
  const shown = shownIds(delivery);
  if (await isAnyLive(q, shown, now)) return false;
  return delivery.content.total <= shown.length || !(await isAnyNotifiedLive(q, delivery, now));
}

/** If PagerDuty gets the resolution before the trigger, its incident stays open for good. */
async function suppressionToResolution(
  q: Query,
  delivery: ClaimedDelivery,
  now: Date,
): Promise<DeliveryVerdict | undefined> {
  const ids = shownIds(delivery);
  if (await isAnyLive(q, ids, now))
    return end(delivery, "Not sent: the certificate needs attention once more.");
  const there = await findNotifiedThere(q, delivery, ids);
  if (there?.busyUntil)
    return {
      status: "pending",
      error: "waits for an earlier message through this channel",
      nextAt: waitForOlder(there.busyUntil, now),
      counts: false,
    };
  return there?.isTold ? undefined : end(delivery, "Not sent: this channel was never told of it.");
}

function suppressionOfSilence(
  delivery: ClaimedDelivery,
  speaker: Speaker,
  now: Date,
): DeliveryVerdict | undefined {
  if (speaker.enabled && speaker.isAlertEnabled) return undefined;
  const reason = speaker.isAlertEnabled ? "The channel is disabled." : "The alert is disabled.";
  // An expiry is wanted until the certificate has expired, which was checked before; other events for a day.
  const isStale =
    delivery.content.kind !== "expiration" && now.getTime() - delivery.createdAt.getTime() >= PATIENCE_MS;
  if (isStale) return end(delivery, `Not sent: ${reason}`);
  return { status: "pending", error: reason, nextAt: new Date(now.getTime() + HELD_MS), counts: false };
}

/** Why a claimed delivery is not sent now, or undefined. */
export async function findSuppression(
  q: SlowQuery,
  delivery: ClaimedDelivery,
  speaker: Speaker,
  now: Date,
): Promise<DeliveryVerdict | undefined> {
  const { kind } = delivery.content;
  if (kind === "expiration" && (await expirationIsOver(q, delivery, now)))
    return end(delivery, "Not sent: its certificates were replaced or revoked or have ended.");
  const suppression = kind === "resolution" ? await suppressionToResolution(q, delivery, now) : undefined;
  return suppression ?? suppressionOfSilence(delivery, speaker, now);
}
