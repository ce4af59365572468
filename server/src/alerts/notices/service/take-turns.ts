/** Whose facts are handled next: one batch of one project of each organisation in turn, and a pause after much work. */
import { MAINTENANCE_TURN } from "../../../platform/db/index.ts";
import { groupBy } from "../../../platform/group-by.ts";
import { createFactReader } from "./take-facts.ts";
import { MAINTENANCE, type NoticeNeeds } from "./ready.ts";
import * as store from "../store.ts";
import type { WaitingProject } from "../store.ts";

/**
 * A token bucket: messages and pending notices that an organisation may cause at once, and per second in the long run; after
 * more it pauses until that is made up for. Five hundred alerts for every certificate then send every ten seconds, about
 * all certificates since, and issuing does not feel it.
 */
const AT_ONCE = 1000;
const PER_SECOND = 50;

export interface Taken {
  readonly taken: number;
  /** When the first paused organisation has its turn, from now; undefined if none waits. */
  readonly nextMs: number | undefined;
}

const ownerOf = ({ orgId, projectId }: WaitingProject): string => orgId ?? projectId;

export function createFactTurns(needs: NoticeNeeds) {
  const { db, clock } = needs;
  const takeSome = createFactReader(needs);
  const restsUntil = new Map<string, number>();
  /** What each has caused and not made up for, as of when. Removed once it is zero. */
  const caused = new Map<string, { readonly count: number; readonly at: number }>();
  /** By organisation, so that its projects take turns, too. */
  const lastProject = new Map<string, string>();

  const note = (owner: string, written: number): void => {
    const now = clock.elapsed();
    const { count, at } = caused.get(owner) ?? { count: 0, at: now };
    const left = Math.max(0, count - ((now - at) / 1000) * PER_SECOND) + written;
    if (left > 0) caused.set(owner, { count: left, at: now });
    if (left > AT_ONCE) restsUntil.set(owner, now + ((left - AT_ONCE) / PER_SECOND) * 1000);
  };

  /** One project of each, the next one after its last. */
  const round = (waiting: readonly WaitingProject[]): WaitingProject[] =>
    [...groupBy(waiting, ownerOf)].flatMap(([owner, projects]) => {
      const last = lastProject.get(owner) ?? "";
      return projects.find(({ projectId }) => projectId > last) ?? projects[0] ?? [];
    });

  /** Handles waiting facts until there are none, or only of paused organisations; `isPatient: false` pauses nobody. */
  return async ({ isPatient = true } = {}): Promise<Taken> => {
    for (let taken = 0; ;) {
      const now = clock.elapsed();
      for (const [owner, until] of restsUntil) if (until <= now) restsUntil.delete(owner);
      for (const [owner, { count, at }] of caused)
        if (count <= ((now - at) / 1000) * PER_SECOND) caused.delete(owner);
      const waiting = await db.read(store.readWaitingProjects, MAINTENANCE_TURN);
      const owners = new Set(waiting.map(ownerOf));
      for (const owner of lastProject.keys()) if (!owners.has(owner)) lastProject.delete(owner);
      const ready = isPatient ? waiting.filter((one) => !restsUntil.has(ownerOf(one))) : waiting;
      let nowTaken = 0;
      for (const one of round(ready)) {
        lastProject.set(ownerOf(one), one.projectId);
        const some = await db.write((tx) => takeSome(tx, one.projectId), MAINTENANCE);
        nowTaken += some.taken;
        note(ownerOf(one), some.written);
      }
      taken += nowTaken;
      // Nothing: all is handled, or other nodes are at it.
      if (nowTaken > 0) continue;
      const rests = waiting.flatMap((one) => restsUntil.get(ownerOf(one)) ?? []);
      return {
        taken,
        nextMs: rests.length === 0 ? undefined : Math.max(0, Math.min(...rests) - clock.elapsed()),
      };
    }
  };
}
