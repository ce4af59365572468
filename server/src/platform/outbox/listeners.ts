import type { Log } from "../log.ts";

/** A list of listeners. If one of them throws, the others are still called. */
export class Listeners<Said> {
  readonly #log: Pick<Log, "error">;
  readonly #listeners: ((said: Said) => void)[] = [];

  constructor(log: Pick<Log, "error">) {
    this.#log = log;
  }

  add(listener: (said: Said) => void): void {
    this.#listeners.push(listener);
  }

  /** Answers whether none of them threw. */
  tell(said: Said): boolean {
    let isWell = true;
    for (const listener of this.#listeners) {
      try {
        listener(said);
      } catch (error) {
        isWell = false;
        this.#log.error({ err: error }, "a listener to the outbox failed; this is a bug");
      }
    }
    return isWell;
  }
}
