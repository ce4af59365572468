/**
 * Renewal by the server, from each certificate's own schedule. A renewal that fails is tried again until the
 * certificate ends, with pauses that grow and, towards the end, shrink; one that was interrupted is resumed under the
 * same key, never made twice.
 */
import { createHash } from "node:crypto";
import { systemActor } from "../platform/actor.ts";
import type { Clock } from "../platform/clock.ts";
import { type Db, MAINTENANCE_TURN } from "../platform/db/index.ts";
import { inBatches } from "../platform/jobs/index.ts";
import type { Log } from "../platform/log.ts";
import { Problem } from "../platform/problem.ts";
import { certificateRenewalFailed } from "../certificates/events.ts";
import type { Issuance } from "./service.ts";
import { dueRenewals, postponeRenewal, stopRenewal } from "./renewal.store.ts";
import { findCertificateById, type CertificateRow } from "../inventory/index.ts";
import { addSeconds, statusOf } from "../certificates/index.ts";
import type { Profiles } from "../profiles/index.ts";
import { abandonRequests, forgetRequests } from "../signing/index.ts";

interface RenewalNeeds {
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
const SHORTEST_PAUSE_SECONDS = 30;
const PLAIN_PATIENCE_SECONDS = 120;
const KEYED_PATIENCE_SECONDS = 86_400;
const REQUEST_LIFE_SECONDS = 30 * 86_400;

/** Never more than half of what is left: the nearer the end, the more a further try is worth. */
function nextTry(at: Date, notAfter: Date, attempts: number): Date {
  const pause = Math.min(FIRST_PAUSE_SECONDS * 2 ** Math.min(attempts, 20), LONGEST_PAUSE_SECONDS);
  const half = (notAfter.getTime() - at.getTime()) / 2000;
  return addSeconds(at, Math.max(Math.min(pause, half), SHORTEST_PAUSE_SECONDS));
}

/**
 * The same for every node, and after a crash, for as long as this try is due; another one for the next try. Under one
 * key for all tries, a recorded request that can never be finished would be in the way of every later one.
 */
const keyOf = (id: string, renewAt: Date) => ({
  key: `auto-renew:${id}:${renewAt.getTime()}`,
  digest: createHash("sha256").update(id).digest(),
});

export function createRenewal({ db, clock, log, profiles, issuance }: RenewalNeeds) {
  const failed = (row: CertificateRow, reason: string) =>
    certificateRenewalFailed({
      orgId: row.orgId,
      projectId: row.projectId,
      certificateId: row.id,
      reason,
    });

  /** Without its profile there is no policy to renew under, and no later try would find one. */
  const giveUp = (row: CertificateRow, at: Date): Promise<void> => {
    const reason = "The certificate's profile was deleted: it is not renewed by the server any more.";
    return db.write(
      async (tx) => {
        stopRenewal(tx, row.id, { at, reason });
        tx.emit(failed(row, reason));
      },
      { audited: false },
    );
  };

  const tryAgain = (row: CertificateRow, attempts: number, again: { reason: string; at: Date }) =>
    db.write(
      async (tx) => {
        const next = nextTry(again.at, row.notAfter, attempts);
        // Where another renewal was quicker, nothing has failed and no alert is due.
        if (await postponeRenewal(tx, row.id, { next, ...again })) tx.emit(failed(row, again.reason));
      },
      { audited: false },
    );

  const renewOne = async (id: string, attempts: number): Promise<void> => {
    const row = await db.read((q) => findCertificateById(q, id));
    const at = clock.now();
    if (!row || row.renewedById !== null || statusOf(row, at) !== "active") {
      await db.write(async (tx) => stopRenewal(tx, id, { at, reason: null }), { audited: false });
      return;
    }
    // Since the list was read, another node has tried it or somebody has switched it off.
    if (row.renewAt === null || row.renewAt > at) return;
    try {
      const profile = row.profileId === null ? undefined : await profiles.load(row.profileId);
      if (!profile) return await giveUp(row, at);
      await issuance.renewRow(
        systemActor("renewal"),
        { row, profile, idempotency: keyOf(id, row.renewAt) },
        { removeRootsFromChain: false },
      );
    } catch (error) {
      // A refusal is reported to people; anything else is a bug that is logged, and still retried.
      const reason = error instanceof Problem ? error.message : "An internal error; see the server's log.";
      if (!(error instanceof Problem))
        log.error({ certificateId: id, reason: (error as Error).message }, "a renewal failed");
      await tryAgain(row, attempts, { reason, at });
    }
  };

  return {
    /** Thousands may be due at once, each with a key to make: a node that stops does not wait for all of them. */
    async renewDue(isStopping: () => boolean = () => false): Promise<void> {
      for (;;) {
        const due = await db.read((q) => dueRenewals(q, clock.now(), BATCH), MAINTENANCE_TURN);
        for (const { id, attempts } of due) {
          if (isStopping()) return;
          await renewOne(id, attempts);
        }
        if (due.length < BATCH) return;
      }
    },

    /** Requests that were interrupted and that nobody can ask for again are closed; old ones are forgotten. */
    async tidyRequests(): Promise<void> {
      const at = clock.now();
      const limits = {
        plain: addSeconds(at, -PLAIN_PATIENCE_SECONDS),
        keyed: addSeconds(at, -KEYED_PATIENCE_SECONDS),
        at,
      };
      await db.write(async (tx) => abandonRequests(tx, limits), { audited: false });
      // All of them: a busy authority makes more in a minute than one statement should remove.
      const before = addSeconds(at, -REQUEST_LIFE_SECONDS);
      await inBatches((most) => db.write((tx) => forgetRequests(tx, before, most), { audited: false }));
    },
  };
}
