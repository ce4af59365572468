/** Logs what a long start is waiting for. */
import type { Log } from "./log.ts";

const TELL_MS = 3000;

export async function telling<T>(log: Log, what: string, work: () => Promise<T>): Promise<T> {
  const from = performance.now();
  const timer = setInterval(() => {
    const seconds = Math.round((performance.now() - from) / 1000);
    log.warn({ seconds }, `the start waits for ${what}`);
  }, TELL_MS);
  try {
    return await work();
  } finally {
    clearInterval(timer);
  }
}
