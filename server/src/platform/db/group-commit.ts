/**
 * New rows of many callers in one transaction. Whoever comes while one is under way waits for the next and shares it:
 * one BEGIN, one COMMIT and one round trip for all of them. A single caller waits for nobody.
 *
 * If such a transaction fails for a reason that lies in one caller's rows (a name that is taken), all of it is rolled
 * back and each caller's part is written by itself, so that only the one who is to blame hears of it.
 */
import { Problem } from "../problem.ts";
import type { Db, WriteTx, WriteOptions } from "./handles.ts";

interface Part {
  readonly change: (pen: WriteTx) => void;
  readonly options: WriteOptions | undefined;
  resolve(): void;
  reject(reason: unknown): void;
}

/** A part that was refused before anything was written, whatever it refused with: the others must not hear of it. */
class Refused extends Error {}

/** While one waits for the database, the next one can be sent. */
const AT_ONCE = 2;
const MOST_TOGETHER = 64;
/** One that takes longer waits for somebody's lock. It is nobody else's business: others go on without it. */
const STUCK_MS = 100;
const MOST_AT_ONCE = 8;

export function createGroupCommit(write: Db["write"]): Db["groupCommit"] {
  const waiting: Part[] = [];
  let underWay = 0;
  let stuck = 0;

  const alone = ({ change, options, resolve, reject }: Part): Promise<void> =>
    write(async (tx) => change(tx), options).then(resolve, reject);

  const together = async (parts: readonly Part[]): Promise<void> => {
    const [only] = parts;
    if (only && parts.length === 1) return alone(only);
    try {
      await write(
        async (tx) => {
          for (const { change, options } of parts) {
            let hasAudited = false;
            const audit: WriteTx["audit"] = (...args) => {
              hasAudited = true;
              tx.audit(...args);
            };
            try {
              change({ defer: tx.defer, emit: tx.emit, audit });
            } catch (cause) {
              throw new Refused("a part of a shared write was refused", { cause });
            }
            if (!hasAudited && options?.audited !== false) throw new Refused("a write left no audit row");
          }
        },
        { audited: false },
      );
      for (const { resolve } of parts) resolve();
    } catch (error) {
      // The database is away, or its answer to the commit is unknown: writing it again could write it twice.
      if (error instanceof Problem) for (const { reject } of parts) reject(error);
      else for (const part of parts) await alone(part);
    }
  };

  const serve = async (): Promise<void> => {
    while (waiting.length > 0) {
      let isStuck = false;
      const timer = setTimeout(() => {
        isStuck = true;
        stuck += 1;
        start();
      }, STUCK_MS);
      await together(waiting.splice(0, MOST_TOGETHER));
      clearTimeout(timer);
      if (isStuck) stuck -= 1;
    }
    underWay -= 1;
  };

  const start = (): void => {
    if (waiting.length === 0 || underWay - stuck >= AT_ONCE || underWay >= MOST_AT_ONCE) return;
    underWay += 1;
    void serve();
  };

  return (change, options) =>
    new Promise((resolve, reject) => {
      waiting.push({ change, options, resolve, reject });
      start();
    });
}
