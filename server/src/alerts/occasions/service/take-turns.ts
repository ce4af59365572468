/** Whose facts are taken next: one batch of one project of each organisation in turn, and a rest after much work. */
import { UPKEEP_TURN } from "../../../platform/db/index.ts";
import { createFactReader } from "./take-facts.ts";
import { groupBy, UPKEEP, type OccasionNeeds } from "./ready.ts";
import * as store from "../store.ts";
import type { WaitingProject } from "../store.ts";

/**
 * What one message or occasion has its organisation wait, and when that begins to count. A hundred alerts that wait for
 * every certificate speak every three seconds then, of all certificates since; and issuing does not feel it.
 */
const REST_MS = 30;
const FREE = 20;
const LONGEST_REST_MS = 600_000;

export interface Taken {
  readonly taken: number;
  /** When the first of those who rest has its turn, from now; undefined if nobody waits. */
  readonly nextMs: number | undefined;
}

const ownerOf = ({ orgId, projectId }: WaitingProject): string => orgId ?? projectId;

export function createFactTurns(needs: OccasionNeeds) {
  const { db, clock } = needs;
  const takeSome = createFactReader(needs);
  const restsUntil = new Map<string, number>();
  /** By organisation, so that its projects take turns, too. */
  const lastProject = new Map<string, string>();

  const note = (owner: string, written: number): void => {
    if (written <= FREE) return;
    restsUntil.set(owner, clock.elapsed() + Math.min(LONGEST_REST_MS, written * REST_MS));
  };

  /** One project of each, the next one after its last. */
  const round = (waiting: readonly WaitingProject[]): WaitingProject[] =>
    [...groupBy(waiting, ownerOf)].flatMap(([owner, projects]) => {
      const last = lastProject.get(owner) ?? "";
      return projects.find(({ projectId }) => projectId > last) ?? projects[0] ?? [];
    });

  /** Takes in waiting facts until there are none, or only of those who rest; `isPatient: false` lets nobody rest. */
  return async ({ isPatient = true } = {}): Promise<Taken> => {
    for (let taken = 0; ;) {
      const now = clock.elapsed();
      for (const [owner, until] of restsUntil) if (until <= now) restsUntil.delete(owner);
      const waiting = await db.read(store.readWaitingProjects, UPKEEP_TURN);
      const owners = new Set(waiting.map(ownerOf));
      for (const owner of lastProject.keys()) if (!owners.has(owner)) lastProject.delete(owner);
      const ready = isPatient ? waiting.filter((one) => !restsUntil.has(ownerOf(one))) : waiting;
      let nowTaken = 0;
      for (const one of round(ready)) {
        lastProject.set(ownerOf(one), one.projectId);
        const some = await db.write((tx) => takeSome(tx, one.projectId), UPKEEP);
        nowTaken += some.taken;
        note(ownerOf(one), some.written);
      }
      taken += nowTaken;
      // Nothing: all is taken, or others are at it.
      if (nowTaken > 0) continue;
      const rests = waiting.flatMap((one) => restsUntil.get(ownerOf(one)) ?? []);
      return {
        taken,
        nextMs: rests.length === 0 ? undefined : Math.max(0, Math.min(...rests) - clock.elapsed()),
      };
    }
  };
}
