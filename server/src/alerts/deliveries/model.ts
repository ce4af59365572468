/**
 * The life of a delivery: pending until it is delivered or failed. Attempts come with exponential back-off and jitter, so
 * that a receiver which recovers does not get everything at once, for a day from the first attempt; the last one
 * falls on the end of that day.
 */
import type { DeliveryOutcome } from "../../notifications/contract.ts";

const FIRST_DELAY_MS = 15_000;
const LONGEST_DELAY_MS = 3 * 3_600_000;
export const PATIENCE_MS = 24 * 3_600_000;
/** A mail that waits for a mail server to be configured is tried less often the longer it has waited: there may be many. */
const UNREADY_DELAY_MS = 60_000;
const UNREADY_LONGEST_MS = 3_600_000;
const UNREADY_PER_AGE = 0.25;
/** How long a message is put off because its alert or channel is disabled; enabling wakes it. */
export const HELD_MS = 3_600_000;
const SHORTEST_WAIT_MS = 5000;
const LONGEST_WAIT_MS = 60_000;

/** How long a claim is valid; a node that has not reported by then is taken for dead. */
export const CLAIM_MS = 120_000;

interface DeliveryAttempt {
  /** This one included. */
  readonly attempts: number;
  readonly firstAttemptAt: Date;
  /** When the message was made. */
  readonly createdAt: Date;
  readonly now: Date;
  /** 0 … 1 */
  readonly chance: number;
}

export type DeliveryVerdict =
  /** `remark`: it was accepted, but not by all recipients. */
  | { readonly status: "delivered"; readonly remark?: string | undefined }
  | { readonly status: "failed"; readonly error: string }
  /** Failed without an attempt: there is no reason to send it any more. */
  | { readonly status: "ended"; readonly error: string }
  | {
      readonly status: "pending";
      readonly error: string;
      readonly nextAt: Date;
      readonly counts: boolean;
      readonly remainingRecipients?: readonly number[] | undefined;
    };

export function backOffMs(attempts: number, chance: number): number {
  const full = Math.min(FIRST_DELAY_MS * 2 ** Math.min(attempts - 1, 30), LONGEST_DELAY_MS);
  return Math.round(full * (0.5 + chance));
}

/** When to check again whether older messages of a channel have ended; the oldest may be in flight at this moment. */
export function waitForOlder(busyUntil: Date, now: Date): Date {
  const wish = busyUntil.getTime() - now.getTime() + 1000;
  return new Date(now.getTime() + Math.min(LONGEST_WAIT_MS, Math.max(SHORTEST_WAIT_MS, wish)));
}

function unreadyMs({ createdAt, now, chance }: DeliveryAttempt): number {
  const age = (now.getTime() - createdAt.getTime()) * UNREADY_PER_AGE * (0.5 + chance);
  return Math.round(Math.min(UNREADY_LONGEST_MS, Math.max(UNREADY_DELAY_MS, age)));
}

export function judge(outcome: DeliveryOutcome, attempt: DeliveryAttempt): DeliveryVerdict {
  const { now } = attempt;
  switch (outcome.kind) {
    case "taken":
      return { status: "delivered", ...(outcome.remark === undefined ? {} : { remark: outcome.remark }) };
    case "refused":
      return { status: "failed", error: outcome.reason };
    case "unready":
      return {
        status: "pending",
        error: outcome.reason,
        nextAt: new Date(now.getTime() + unreadyMs(attempt)),
        counts: false,
      };
    case "later": {
      const deadline = attempt.firstAttemptAt.getTime() + PATIENCE_MS;
      if (now.getTime() >= deadline)
        return { status: "failed", error: `${outcome.reason} (given up after a day)` };
      const wish = Math.max(backOffMs(attempt.attempts, attempt.chance), (outcome.afterSeconds ?? 0) * 1000);
      return {
        status: "pending",
        error: outcome.reason,
        nextAt: new Date(Math.min(now.getTime() + wish, deadline)),
        counts: true,
        ...(outcome.remainingRecipients === undefined
          ? {}
          : { remainingRecipients: outcome.remainingRecipients }),
      };
    }
  }
}
