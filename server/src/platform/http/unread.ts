/**
 * Large answers that were made and not sent yet, by caller: a client that asks for much and reads nothing, or very
 * slowly, must not fill the memory. A client that reads nothing at all for a while is disconnected.
 */
import type { ServerResponse } from "node:http";
import { tooManyRequests } from "../problem.ts";

const LARGE = 256 * 1024;
const MOST_UNREAD = 64 * 1024 * 1024;
const STALLED_MS = 30_000;

interface Unread {
  /** Counts an answer until it is sent or dropped; throws if too much of this caller's is waiting already. */
  hold(whose: string, bytes: number, response: ServerResponse): void;
}

export function createUnread(): Unread {
  const held = new Map<string, number>();
  return {
    hold(whose, bytes, response) {
      if (bytes < LARGE) return;
      const before = held.get(whose) ?? 0;
      // One is always allowed, however large.
      if (before > 0 && before + bytes > MOST_UNREAD)
        throw tooManyRequests(10, "Large answers that were asked for before have not been read yet.");
      if (response.destroyed) return;
      held.set(whose, before + bytes);
      response.setTimeout(STALLED_MS, () => response.destroy());
      response.once("close", () => {
        const left = (held.get(whose) ?? 0) - bytes;
        if (left > 0) held.set(whose, left);
        else held.delete(whose);
      });
    },
  };
}
