/**
 * Long work on the event loop, in chunks. A long loop checks after each step whether its chunk is over and, if
 * so, yields until it is resumed. Of all that wait one is resumed per round of the event loop, however many there
 * are: other requests wait for one chunk per round, not for one of each.
 */
const CHUNK_MS = 1;

const resting: (() => void)[] = [];
let isScheduled = false;

function callNext(): void {
  isScheduled = false;
  resting.shift()?.();
  schedule();
}

function schedule(): void {
  if (isScheduled || resting.length === 0) return;
  isScheduled = true;
  setImmediate(callNext);
}

export class Pace {
  #began = performance.now();

  isDue(): boolean {
    return performance.now() - this.#began >= CHUNK_MS;
  }

  /** For loops whose steps are short: nothing at all while the chunk lasts. */
  giveWay(): Promise<void> | undefined {
    return this.isDue() ? this.rest() : undefined;
  }

  async rest(): Promise<void> {
    await new Promise<void>((resolve) => {
      resting.push(resolve);
      schedule();
    });
    this.#began = performance.now();
  }
}

async function oneByOne<T>(first: T, rest: IteratorResult<T>, list: Iterator<T>, work: (item: T) => void) {
  const pace = new Pace();
  work(first);
  for (let next = rest; !next.done; next = list.next()) {
    if (pace.isDue()) await pace.rest();
    work(next.value);
  }
}

/** Each item in turn, in chunks. Most lists hold one item or none: those need neither a timer nor a yield. */
export function inChunks<T>(items: Iterable<T>, work: (item: T) => void): Promise<void> | undefined {
  const list = items[Symbol.iterator]();
  const first = list.next();
  if (first.done) return undefined;
  const second = list.next();
  if (!second.done) return oneByOne(first.value, second, list, work);
  work(first.value);
  return undefined;
}

/** Array.map, in chunks. */
export async function mapInChunks<T, R>(items: Iterable<T>, work: (item: T) => R): Promise<R[]> {
  const results: R[] = [];
  await inChunks(items, (item) => void results.push(work(item)));
  return results;
}

/** Buffer.concat, in chunks: fifty megabytes in one go take as many milliseconds. */
export async function concatInChunks(chunks: readonly Buffer[]): Promise<Buffer> {
  const whole = Buffer.allocUnsafeSlow(chunks.reduce((sum, chunk) => sum + chunk.length, 0));
  let at = 0;
  await inChunks(chunks, (chunk) => {
    at += chunk.copy(whole, at);
  });
  return whole;
}
