/**
 * Sending. Every node may send; a claim (lease) in the database makes sure that one node sends a delivery at a time,
 * and the claim expires when that node dies. A delivery is marked as sent only after the receiver accepted it, so a
 * crash between the two leads to one repeat, with the same id. Receivers are isolated: each destination gets a few
 * slots, and what waits for a dead one waits there.
 */
import type { Clock } from "../../platform/clock.ts";
import { type Db, type Tx, MAINTENANCE_TURN } from "../../platform/db/index.ts";
import type { Log } from "../../platform/log.ts";
import type { Measure, MeasureReading } from "../../platform/measure.ts";
import type { AnyChannel, Notifications, DeliveryOutcome } from "../../notifications/index.ts";
import type { Channels } from "../channels.ts";
import { findChannel, findChannels, type ChannelRow } from "../store.ts";
import { CLAIM_MS, judge, type DeliveryVerdict } from "./model.ts";
import { findSuppression } from "./find-suppression.ts";
import {
  claimDeliveries,
  markDelivered,
  markEnded,
  markFailed,
  postpone,
  readWaiting,
  reassignDeliveries,
  type ClaimedDelivery,
} from "./store.ts";

interface DeliveryNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly log: Log;
  readonly notifications: Notifications;
  readonly channels: Channels;
  /** 0 … 1, for jitter. */
  readonly chance?: () => number;
}

const PER_DESTINATION = 4;
const AT_ONCE = 256;
const POLL_MS = 1000;
/** Well below the lifetime of a claim: a sending that takes longer has lost it. */
const SEND_LIMIT_MS = 90_000;
/** Pauses between attempts to store an outcome; with their time-outs, they end before the claim does. */
const NOTE_PAUSES_MS = [100, 500, 2000, 5000, 10_000];
const MAINTENANCE = { audited: false } as const;

export interface Deliveries {
  /** Sends everything that is due now, waits for it and answers how many attempts were made; for tests. */
  sendDue(): Promise<number>;
  readonly measures: readonly Measure[];
  /** There may be something to send: look soon. */
  wake(): void;
  start(): void;
  stop(): Promise<void>;
}

export function createDeliveries(needs: DeliveryNeeds): Deliveries {
  return new Sender(needs);
}

class Sender implements Deliveries {
  readonly #needs: DeliveryNeeds;
  readonly #underWay = new Map<string, number>();
  /** Destinations that had no slot left for all that wait. */
  readonly #crowded = new Set<string>();
  readonly #sends = new Map<string, Promise<void>>();
  readonly #attempts = new Map<string, MeasureReading>();
  #timer: NodeJS.Timeout | undefined;
  #claiming: Promise<number> | undefined;
  #isRunning = false;
  #isStopping = false;
  #again = false;

  constructor(needs: DeliveryNeeds) {
    this.#needs = needs;
  }

  get measures(): readonly Measure[] {
    const { db, clock } = this.#needs;
    const look = () => db.read(readWaiting);
    return [
      {
        name: "keyward_delivery_attempts_total",
        help: "Attempts of this node to deliver an alert's message, by how they ended.",
        kind: "counter",
        labels: ["channel", "outcome"],
        read: () => [...this.#attempts.values()],
      },
      {
        name: "keyward_deliveries_waiting",
        help: "Messages of alerts that no receiver has taken yet (told up to 100,000).",
        kind: "gauge",
        read: async () => [{ value: (await look())?.count ?? 0 }],
      },
      {
        name: "keyward_deliveries_oldest_seconds",
        help: "For how long the oldest message that waits has been waiting; 0 if none does.",
        kind: "gauge",
        read: async () => {
          const oldestAt = (await look())?.oldestAt;
          return [{ value: oldestAt ? Math.max(0, clock.millis() - oldestAt.getTime()) / 1000 : 0 }];
        },
      },
    ];
  }

  #count(channel: string, outcome: string): void {
    const key = `${channel} ${outcome}`;
    this.#attempts.set(key, { of: [channel, outcome], value: (this.#attempts.get(key)?.value ?? 0) + 1 });
  }

  async sendDue(): Promise<number> {
    let all = 0;
    for (;;) {
      const claimed = await this.#claim();
      all += claimed;
      if (claimed === 0 && this.#sends.size === 0) return all;
      await Promise.race(this.#sends.values());
    }
  }

  wake(): void {
    if (!this.#isRunning) return;
    // A claim in flight may have read already: once more after it.
    if (this.#claiming) this.#again = true;
    else this.#schedule(0);
  }

  start(): void {
    this.#isRunning = true;
    this.#isStopping = false;
    this.#schedule(POLL_MS);
  }

  async stop(): Promise<void> {
    this.#isRunning = false;
    this.#isStopping = true;
    clearTimeout(this.#timer);
    await this.#claiming?.catch(() => undefined);
    await Promise.all(this.#sends.values());
  }

  #schedule(delay: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#turn(), delay).unref();
  }

  async #turn(): Promise<void> {
    this.#again = false;
    try {
      await this.#claim();
    } catch (error) {
      this.#needs.log.warn(
        { reason: (error as Error).message },
        "deliveries cannot be claimed; trying again",
      );
    }
    if (this.#isRunning) this.#schedule(this.#again ? 0 : POLL_MS);
  }

  /** One claim at a time per node; a second caller waits for the first and then claims itself. */
  async #claim(): Promise<number> {
    while (this.#claiming) await this.#claiming.catch(() => undefined);
    this.#claiming = this.#claimNow().finally(() => {
      this.#claiming = undefined;
    });
    return this.#claiming;
  }

  async #claimNow(): Promise<number> {
    const free = AT_ONCE - this.#sends.size;
    if (free <= 0) return 0;
    const { db, clock } = this.#needs;
    const now = clock.now();
    const wish = {
      now,
      until: new Date(now.getTime() + CLAIM_MS),
      sending: [...this.#sends.keys()],
      perDestination: PER_DESTINATION,
      limit: free,
    };
    const before = new Map(this.#underWay);
    const claimed = await db.write((tx) => claimDeliveries(tx, { ...wish, underWay: before }), MAINTENANCE);
    for (const delivery of claimed) this.#begin(delivery);
    this.#noteCrowds(claimed, before);
    return claimed.length;
  }

  /** If a claim filled all slots, there may be more; if it got less, there is not. */
  #noteCrowds(claimed: readonly ClaimedDelivery[], before: ReadonlyMap<string, number>): void {
    const counts = new Map<string, number>();
    for (const { destination } of claimed) counts.set(destination, (counts.get(destination) ?? 0) + 1);
    for (const [destination, count] of counts) {
      if (count >= PER_DESTINATION - (before.get(destination) ?? 0)) this.#crowded.add(destination);
    }
    for (const destination of this.#crowded) {
      const hadPlace = (before.get(destination) ?? 0) < PER_DESTINATION;
      if (hadPlace && !counts.has(destination)) this.#crowded.delete(destination);
    }
  }

  #begin(delivery: ClaimedDelivery): void {
    const { destination } = delivery;
    this.#underWay.set(destination, (this.#underWay.get(destination) ?? 0) + 1);
    const send = this.#deliver(delivery).finally(() => {
      this.#sends.delete(delivery.id);
      const left = (this.#underWay.get(destination) ?? 1) - 1;
      if (left > 0) this.#underWay.set(destination, left);
      else this.#underWay.delete(destination);
      // A slot is free; if slots were scarce, the next delivery should not wait for the timer.
      if (this.#crowded.has(destination)) this.wake();
    });
    this.#sends.set(delivery.id, send);
  }

  async #deliver(delivery: ClaimedDelivery): Promise<void> {
    const { log } = this.#needs;
    try {
      const verdict = await this.#attempt(delivery);
      if (!verdict) return await this.#reassign(delivery);
      await this.#note(delivery, verdict);
      this.#count(delivery.channelType, verdict.status === "pending" ? "postponed" : verdict.status);
      const seen = {
        delivery: delivery.id,
        alert: delivery.alertId,
        channel: delivery.channelType,
        status: verdict.status,
        attempt: delivery.attempts,
      };
      if (verdict.status === "delivered") log.debug(seen, "an alert was delivered");
      else log.warn({ ...seen, reason: verdict.error }, "an alert was not taken");
    } catch (error) {
      // Not even the outcome could be stored: the claim expires and the delivery becomes due again.
      log.warn({ delivery: delivery.id, reason: (error as Error).message }, "a delivery was interrupted");
    }
  }

  #note(delivery: ClaimedDelivery, verdict: DeliveryVerdict): Promise<void> {
    const now = this.#needs.clock.now();
    return this.#writeDown(async (tx) => {
      if (verdict.status === "delivered") await markDelivered(tx, delivery, now, verdict.remark);
      else if (verdict.status === "failed") await markFailed(tx, delivery, now, verdict.error);
      else if (verdict.status === "ended") await markEnded(tx, delivery, now, verdict.error);
      else await postpone(tx, delivery, now, verdict);
    });
  }

  /** The channel was removed since the message was made: others of the alert may take it. */
  async #reassign({ alertId }: ClaimedDelivery): Promise<void> {
    const now = this.#needs.clock.now();
    await this.#writeDown(async (tx) =>
      reassignDeliveries(tx, alertId, await findChannels(tx, [alertId]), now),
    );
  }

  /** The outcome; nothing if its channel is gone. */
  async #attempt(delivery: ClaimedDelivery): Promise<DeliveryVerdict | undefined> {
    const { db, clock, notifications, chance = Math.random } = this.#needs;
    const row = await db.read((q) => findChannel(q, delivery.channelId));
    if (!row) return undefined;
    const channel = notifications.get(row.channelType);
    if (!channel) return { status: "failed", error: "This kind of channel is unknown here." };
    const suppression = await db.read(
      (q) => findSuppression(q, delivery, row, clock.now()),
      MAINTENANCE_TURN,
    );
    if (suppression) return suppression;
    const outcome = await this.#send(channel, row, delivery);
    return judge(outcome, {
      attempts: delivery.attempts,
      firstAttemptAt: delivery.firstAttemptAt,
      createdAt: delivery.createdAt,
      now: clock.now(),
      chance: chance(),
    });
  }

  /** A short database outage must not send the receiver a duplicate. */
  async #writeDown(note: (tx: Tx) => Promise<void>): Promise<void> {
    for (const pause of NOTE_PAUSES_MS) {
      try {
        await this.#needs.db.write(note, MAINTENANCE);
        return;
      } catch (error) {
        if (this.#isStopping) throw error;
        await new Promise((done) => setTimeout(done, pause));
      }
    }
    await this.#needs.db.write(note, MAINTENANCE);
  }

  async #send(channel: AnyChannel, row: ChannelRow, delivery: ClaimedDelivery): Promise<DeliveryOutcome> {
    let timer: NodeJS.Timeout | undefined;
    const limit = new Promise<DeliveryOutcome>((settle) => {
      timer = setTimeout(() => settle({ kind: "later", reason: "sending took too long" }), SEND_LIMIT_MS);
    });
    try {
      const settings = await this.#needs.channels.open(row);
      const notice = {
        id: delivery.id,
        remainingRecipients: delivery.remainingRecipients,
        ...delivery.content,
      };
      return await Promise.race([channel.send(settings, notice), limit]);
    } catch (error) {
      // Settings that cannot be decrypted, for example: somebody may fix it within a day, and the reason is shown.
      return { kind: "later", reason: `could not be sent: ${(error as Error).message}`.slice(0, 300) };
    } finally {
      clearTimeout(timer);
    }
  }
}
