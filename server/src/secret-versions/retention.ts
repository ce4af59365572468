/**
 * A project may limit how many versions of each secret it keeps. Older ones are deleted in the background, never
 * while somebody waits for a write: the oldest first and in small chunks, so that at any moment (also after a kill in
 * the middle) the versions that are left follow each other without a gap.
 *
 * Versions are numbered without gaps, so a version may go exactly if the one `limit` numbers above it exists. That
 * is one probe of the primary key, and what is gone is not found again: the run after an interrupted one simply goes on.
 *
 * With each version the knowledge is lost how things were while it was the newest. The folder records from when on
 * its history is complete, and a rollback to an earlier moment is refused instead of guessed.
 */
import type { Clock } from "../platform/clock.ts";
import { type Db, MAINTENANCE_TURN } from "../platform/db/index.ts";
import { takingTurns, type Job } from "../platform/jobs/index.ts";
import {
  dueSweeps,
  foldersWrittenSince,
  forgetVersions,
  noteSweep,
  versionsBeyond,
  type DueSweep,
  type Forgettable,
} from "./retention.store.ts";
import { touchProject } from "../secrets/index.ts";

interface ForgetNeeds {
  readonly db: Db;
  readonly clock: Clock;
}

const CHUNK = 2000;
/** A run ends after this many, so that other jobs get their turn; the next one goes on. */
const MAX_PER_RUN = 100_000;
/** A writer's clock may run behind ours, and its transaction may commit later than it was stamped. */
const LATENESS_MS = 600_000;
const EVER = new Date(0);

/** Of several versions of one secret that may go, the newest says how far. */
function furthest(rows: readonly Forgettable[]): Map<string, number> {
  const upTo = new Map<string, number>();
  for (const row of rows) upTo.set(row.id, Math.max(upTo.get(row.id) ?? 0, row.upTo));
  return upTo;
}

export function createForgetting({ db, clock }: ForgetNeeds) {
  const forget = async (projectId: string, upTo: ReadonlyMap<string, number>): Promise<number> => {
    let gone = 0;
    for (;;) {
      const chunk = await db.write(
        async (tx) => {
          const count = await forgetVersions(tx, projectId, upTo, CHUNK);
          // A version that was asked for by its number is answered differently now.
          if (count > 0) touchProject(tx, projectId);
          return count;
        },
        { audited: false },
      );
      gone += chunk;
      if (chunk < CHUNK) return gone;
    }
  };

  async function* sweepFolder(sweep: DueSweep, folderId: string, since: Date): AsyncGenerator<number> {
    for (let from = since; ;) {
      const rows = await db.read(
        (q) => versionsBeyond(q, folderId, { limit: sweep.limit, from, most: CHUNK }),
        MAINTENANCE_TURN,
      );
      const last = rows.at(-1);
      if (!last) return;
      yield await forget(sweep.projectId, furthest(rows));
      from = last.createdAt;
    }
  }

  async function* sweepProject(sweep: DueSweep, count: (gone: number) => void): AsyncGenerator<void> {
    const startedAt = clock.millis();
    // Under a smaller limit than last time, or for the first time, everything has to be looked at.
    const isFresh = sweep.sweptLimit !== null && sweep.sweptTo !== null && sweep.sweptLimit <= sweep.limit;
    const since = isFresh && sweep.sweptTo ? sweep.sweptTo : EVER;
    const folders = await db.read((q) => foldersWrittenSince(q, sweep.projectId, since), MAINTENANCE_TURN);
    for (const folderId of folders)
      for await (const gone of sweepFolder(sweep, folderId, since)) {
        count(gone);
        yield;
      }
    const sweptTo = new Date(startedAt - LATENESS_MS);
    await db.write((tx) => noteSweep(tx, sweep, sweptTo), { audited: false });
  }

  const work = async (): Promise<void> => {
    let left = MAX_PER_RUN;
    const count = (gone: number): void => {
      left -= gone;
    };
    const sweeps = await db.read(dueSweeps, MAINTENANCE_TURN);
    await takingTurns(
      sweeps.map((sweep) => sweepProject(sweep, count)),
      () => left <= 0,
    );
  };

  const job: Job = { name: "secrets.version-sweep", everySeconds: 60, leaseSeconds: 300, run: work };
  return { job };
}
