/**
 * For loops over what tenants made: nobody has the event loop for longer than a moment, however long the list is and
 * whatever its parts cost.
 */
import { setImmediate } from "node:timers/promises";

const SLICE_MS = 10;

export class Pace {
  #since = performance.now();

  /** To be asked after each part: has this loop had its moment? */
  isDue(): boolean {
    return performance.now() - this.#since >= SLICE_MS;
  }

  /** Lets everybody else have their turn. */
  async giveWay(): Promise<void> {
    await setImmediate();
    this.#since = performance.now();
  }
}
