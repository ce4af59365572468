/**
 * A cache of recent answers. Clients poll: the same reader (or one with the same rules)
 * asks for the same folder or secret again and again. An answer is cached under its ETag and sent again
 * only after the database has said that this ETag is still current, so it can never be stale. It is dropped
 * within a minute: plaintext should not stay in memory for longer than it is of use.
 */
import { LRUCache } from "lru-cache";

interface KeptAnswer {
  readonly etag: string;
  readonly body: Buffer;
  /** The audit row for reading it; undefined where no value is shown. */
  readonly noted: Readonly<Record<string, unknown>> | undefined;
}

interface Answers {
  find(key: string): KeptAnswer | undefined;
  keep(key: string, answer: KeptAnswer): void;
}

const MAX_BYTES = 32 * 1024 * 1024;
const MAX_ANSWER_BYTES = 512 * 1024;
const KEPT_MS = 60_000;

export function createAnswers(): Answers {
  const kept = new LRUCache<string, KeptAnswer>({
    maxSize: MAX_BYTES,
    maxEntrySize: MAX_ANSWER_BYTES,
    ttl: KEPT_MS,
    sizeCalculation: ({ body }) => body.length + 256,
  });
  return {
    find: (key) => kept.get(key),
    keep: (key, answer) => void kept.set(key, answer),
  };
}
