/**
 * Renewal by the server, from each certificate's own schedule. A renewal that fails is tried again with growing
 * pauses until the certificate ends; one that was interrupted is resumed under the same key, never made twice.
 */
import { createHash } from "node:crypto";
import { systemActor } from "../../../platform/actor.ts";
import type { Clock } from "../../../platform/clock.ts";
import type { Db } from "../../../platform/db/index.ts";
import type { Log } from "../../../platform/log.ts";
import { Problem } from "../../../platform/problem.ts";
import { certificateRenewalFailed } from "../../events.ts";
import { findCertificateById } from "../../inventory/store/certificates.ts";
import { addSeconds, statusOf } from "../../model.ts";
import type { Profiles } from "../../profiles/service.ts";
import { abandonRequests, forgetRequests } from "../gate/store.ts";
import type { Issuance } from "../service.ts";
import { dueRenewals, postponeRenewal, stopRenewal } from "./store.ts";

export interface RenewalNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly log: Log;
  readonly profiles: Profiles;
  readonly issuance: Issuance;
}

export type Renewal = ReturnType<typeof createRenewal>;

const BATCH = 200;
const FIRST_PAUSE_SECONDS = 60;
const LONGEST_PAUSE_SECONDS = 6 * 3_600;
const PLAIN_PATIENCE_SECONDS = 120;
const KEYED_PATIENCE_SECONDS = 86_400;
const REQUEST_LIFE_SECONDS = 30 * 86_400;

export const pauseAfter = (attempts: number): number =>
  Math.min(FIRST_PAUSE_SECONDS * 2 ** Math.min(attempts, 20), LONGEST_PAUSE_SECONDS);

export function createRenewal({ db, clock, log, profiles, issuance }: RenewalNeeds) {
  const renewOne = async (id: string, attempts: number): Promise<void> => {
    const row = await db.read((q) => findCertificateById(q, id));
    if (!row) return;
    const at = clock.now();
    if (row.renewedById !== null || statusOf(row, at) !== "active") {
      await db.write(async (tx) => stopRenewal(tx, id, at), { audited: false });
      return;
    }
    try {
      const profile = row.profileId === null ? null : ((await profiles.load(row.profileId)) ?? null);
      const idempotency = { key: `auto-renew:${id}`, digest: createHash("sha256").update(id).digest() };
      await issuance.renewRow(
        systemActor("renewal"),
        { row, profile, idempotency },
        { removeRootsFromChain: false },
      );
    } catch (error) {
      // A refusal is told to people; anything else is a bug that is logged, and tried again all the same.
      const reason = error instanceof Problem ? error.message : "An internal error; see the server's log.";
      if (!(error instanceof Problem))
        log.error({ certificateId: id, reason: (error as Error).message }, "a renewal failed");
      await db.write(
        async (tx) => {
          postponeRenewal(tx, id, { next: addSeconds(at, pauseAfter(attempts)), reason, at });
          tx.emit(
            certificateRenewalFailed({
              orgId: row.orgId,
              projectId: row.projectId,
              certificateId: id,
              reason,
            }),
          );
        },
        { audited: false },
      );
    }
  };

  return {
    async renewDue(): Promise<void> {
      for (;;) {
        const due = await db.read((q) => dueRenewals(q, clock.now(), BATCH));
        for (const { id, attempts } of due) await renewOne(id, attempts);
        if (due.length < BATCH) return;
      }
    },

    /** Requests that were interrupted and that nobody can ask for again are closed; old ones are forgotten. */
    async tidyRequests(): Promise<void> {
      const at = clock.now();
      await db.write(
        async (tx) => {
          abandonRequests(tx, {
            plain: addSeconds(at, -PLAIN_PATIENCE_SECONDS),
            keyed: addSeconds(at, -KEYED_PATIENCE_SECONDS),
            at,
          });
          forgetRequests(tx, addSeconds(at, -REQUEST_LIFE_SECONDS));
        },
        { audited: false },
      );
    },
  };
}
