import { inspect } from "node:util";

const SHOWN = "[sealed]";

/**
 * Plaintext in memory. A redacted value cannot be logged, serialised or joined into a
 * string by accident; `open()` is the one word to look for in a review.
 */
export class Redacted<T> {
  readonly #plain: T;

  constructor(plain: T) {
    this.#plain = plain;
  }

  open(): T {
    return this.#plain;
  }

  toString(): string {
    return SHOWN;
  }

  toJSON(): string {
    return SHOWN;
  }

  [inspect.custom](): string {
    return SHOWN;
  }
}

export const redact = <T>(plain: T): Redacted<T> => new Redacted(plain);
