/**
 * Rate limit of invitation mails per hour: by an organisation, to one address, and by the whole instance. A caller who
 * may invite could otherwise have this server write to anybody as often as they like.
 */
import { createHash } from "node:crypto";
import type { Clock } from "../../platform/clock.ts";
import type { Db } from "../../platform/db/index.ts";
import { tooManyRequests } from "../../platform/problem.ts";
import { spendOne, sweepBudgets } from "./budget.store.ts";

const HOUR_MS = 3_600_000;
const TO_ONE_ADDRESS = 5;
const ORGANISATIONS = 10;

export interface MailBudget {
  /** Throws what to answer if there is nothing left. */
  spend(orgId: string, address: string): Promise<void>;
  sweep(): Promise<void>;
}

/** An address is not kept for having been written to. */
const fingerprint = (address: string): string =>
  createHash("sha256").update(address.toLowerCase()).digest("base64url").slice(0, 22);

export function createMailBudget(needs: {
  readonly db: Db;
  readonly clock: Clock;
  readonly invitationsPerHour: number;
}): MailBudget {
  const { db, clock, invitationsPerHour: most } = needs;
  const windowStart = (): Date => new Date(clock.millis() - (clock.millis() % HOUR_MS));
  return {
    async spend(orgId, address) {
      if (most === 0) return;
      const limits = [
        // An organisation learns of its own mails only; of others' it would learn who else writes there.
        { key: `to:${orgId}:${fingerprint(address)}`, limit: TO_ONE_ADDRESS, words: "this address" },
        { key: `org:${orgId}`, limit: most, words: "this organisation" },
        { key: `to:${fingerprint(address)}`, limit: TO_ONE_ADDRESS * ORGANISATIONS, words: "this server" },
        { key: "all", limit: most * ORGANISATIONS, words: "this server" },
      ];
      const start = windowStart();
      await db.write(
        async (tx) => {
          const left = await spendOne(tx, start, limits);
          const over = limits.find(({ key }) => !left.has(key));
          if (!over) return;
          const seconds = Math.ceil((start.getTime() + HOUR_MS - clock.millis()) / 1000);
          // Thrown here, so that what was spent of the others is given back.
          throw tooManyRequests(
            Math.max(1, seconds),
            `The invitations per hour for ${over.words} are used up.`,
          );
        },
        { audited: false },
      );
    },
    async sweep() {
      await db.write((tx) => sweepBudgets(tx, new Date(windowStart().getTime() - HOUR_MS)), {
        audited: false,
      });
    },
  };
}
