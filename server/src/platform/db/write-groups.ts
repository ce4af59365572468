/**
 * Group commit: many callers' writes in few transactions. Writes that come during a group wait, and those are written
 * together: one BEGIN, one COMMIT and one round trip for all of them. A single caller waits for nobody.
 *
 * If a group fails for a reason that lies in one of its members (a name that is taken), all of it is rolled back and each
 * is written by itself, so that only the failing one gets the error.
 */
import { Problem } from "../problem.ts";

interface WriteGroupsNeeds<Item, Result> {
  /** Groups under way at once: while one waits for the database, the next one can be made ready. */
  readonly atOnce: number;
  /** How many from the front of the queue form a group. */
  readonly take: (waiting: readonly { readonly item: Item }[]) => number;
  readonly alone: (item: Item) => Promise<Result>;
  /** One outcome for each, in their order. */
  readonly together: (items: readonly Item[]) => Promise<readonly PromiseSettledResult<Result>[]>;
  /** A group that takes longer waits for somebody's lock; other groups go on without it. */
  readonly stuck?: { readonly afterMs: number; readonly mostAtOnce: number };
  /** Nobody waits and nothing is under way. */
  readonly onIdle?: () => void;
}

interface Waiting<Item, Result> {
  readonly item: Item;
  resolve(result: Result): void;
  reject(reason: unknown): void;
}

export function createWriteGroups<Item, Result>(needs: WriteGroupsNeeds<Item, Result>) {
  const { atOnce, take, alone, together, stuck } = needs;
  const waiting: Waiting<Item, Result>[] = [];
  let underWay = 0;
  let held = 0;

  const writeAlone = ({ item, resolve, reject }: Waiting<Item, Result>): Promise<void> =>
    alone(item).then(resolve, reject);

  const write = async (group: readonly Waiting<Item, Result>[]): Promise<void> => {
    const [only] = group;
    if (only && group.length === 1) return writeAlone(only);
    try {
      const outcomes = await together(group.map(({ item }) => item));
      for (const [n, { resolve, reject }] of group.entries()) {
        const outcome = outcomes[n] as PromiseSettledResult<Result>;
        if (outcome.status === "fulfilled") resolve(outcome.value);
        else reject(outcome.reason);
      }
    } catch (error) {
      // The database is unreachable, or its answer to the commit is unknown: a retry could write it twice.
      if (error instanceof Problem) for (const { reject } of group) reject(error);
      else for (const one of group) await writeAlone(one);
    }
  };

  /** Lets others past if this takes too long. */
  const watch = (): (() => void) => {
    if (stuck === undefined) return () => undefined;
    let isHeld = false;
    const timer = setTimeout(() => {
      isHeld = true;
      held += 1;
      start();
    }, stuck.afterMs);
    return () => {
      clearTimeout(timer);
      if (isHeld) held -= 1;
    };
  };

  const serve = async (): Promise<void> => {
    while (waiting.length > 0) {
      const unwatch = watch();
      await write(waiting.splice(0, take(waiting)));
      unwatch();
    }
    underWay -= 1;
    if (underWay === 0) needs.onIdle?.();
  };

  const start = (): void => {
    if (waiting.length === 0 || underWay - held >= atOnce || underWay >= (stuck?.mostAtOnce ?? atOnce))
      return;
    underWay += 1;
    void serve();
  };

  return (item: Item): Promise<Result> =>
    new Promise((resolve, reject) => {
      waiting.push({ item, resolve, reject });
      start();
    });
}
