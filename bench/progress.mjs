// One line that says how far a run is and how long it still takes; silent where nobody watches.
export function progress(total) {
  const startedAt = performance.now();
  let done = 0;
  const isWatched = process.stderr.isTTY;
  return {
    step(what) {
      done += 1;
      // Suites have different numbers of cases; the guess grows rather than lie below zero.
      const all = Math.max(total, done);
      const left = ((performance.now() - startedAt) / done) * (all - done);
      const bar = "█".repeat(Math.round((done / all) * 20)).padEnd(20, "·");
      if (isWatched) process.stderr.write(`\r\x1b[K${bar} about ${Math.ceil(left / 1000)} s left · ${what}`);
    },
    done() {
      if (isWatched) process.stderr.write("\r\x1b[K");
    },
  };
}
