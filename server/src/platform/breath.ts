import { setImmediate } from "node:timers/promises";

const BITE_MS = 10;

/** For long loops: called in each round, it lets others have their turn once this one has lasted long enough. */
export function createBreath(): () => Promise<void> | undefined {
  let since = performance.now();
  return () => {
    if (performance.now() - since < BITE_MS) return undefined;
    return setImmediate().then(() => {
      since = performance.now();
    });
  };
}
