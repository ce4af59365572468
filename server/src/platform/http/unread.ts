/**
 * Large answers that were made and not sent yet, by caller: a client that asks for much and reads nothing, or very
 * slowly, must not fill the memory. A client that reads nothing at all for a while is disconnected.
 */
import type { ServerResponse } from "node:http";
import { tooManyRequests } from "../problem.ts";

const LARGE = 256 * 1024;
const MOST_UNREAD = 64 * 1024 * 1024;
const STALLED_MS = 30_000;

/** Bytes that wait for whoever asked for them. */
export class UnreadBytes {
  readonly #most: number;
  readonly #what: string;
  readonly #held = new Map<string, number>();

  /** `what` fits "… that were asked for before have not been read yet." */
  constructor(most: number, what: string) {
    this.#most = most;
    this.#what = what;
  }

  of(whose: string): number {
    return this.#held.get(whose) ?? 0;
  }

  /** One answer is always let through, however large. */
  requireRoom(whose: string, more = 1): void {
    const before = this.of(whose);
    if (before > 0 && before + more > this.#most)
      throw tooManyRequests(10, `${this.#what} that were asked for before have not been read yet.`);
  }

  /** Less than nothing is what was sent or given up. */
  add(whose: string, bytes: number): void {
    const now = this.of(whose) + bytes;
    if (now > 0) this.#held.set(whose, now);
    else this.#held.delete(whose);
  }
}

interface Unread {
  /** Counts an answer until it is sent or dropped; throws if too much of this caller's is waiting already. */
  hold(whose: string, bytes: number, response: ServerResponse): void;
}

export function createUnread(): Unread {
  const held = new UnreadBytes(MOST_UNREAD, "Large answers");
  return {
    hold(whose, bytes, response) {
      if (bytes < LARGE) return;
      held.requireRoom(whose, bytes);
      if (response.destroyed) return;
      held.add(whose, bytes);
      response.setTimeout(STALLED_MS, () => response.destroy());
      response.once("close", () => held.add(whose, -bytes));
    },
  };
}
