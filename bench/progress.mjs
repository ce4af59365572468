// One line that says how far a run is and how long it still takes; silent where nobody watches. Told beforehand how many
// seconds the whole should take: what is left is scaled by how the part that is done kept to it.
export function progress(plannedSeconds) {
  const startedAt = performance.now();
  let done = 0;
  const isWatched = process.stderr.isTTY;
  return {
    /** `seconds` of the plan are over; `what` comes next or was just done. */
    step(what, seconds) {
      done += seconds;
      const elapsed = (performance.now() - startedAt) / 1000;
      const share = Math.min(1, done / plannedSeconds);
      const left = Math.max(0, plannedSeconds - done) * (done > 0 ? elapsed / done : 1);
      const bar = "█".repeat(Math.round(share * 20)).padEnd(20, "·");
      if (isWatched) process.stderr.write(`\r\x1b[K${bar} about ${Math.ceil(left)} s left · ${what}`);
    },
    done() {
      if (isWatched) process.stderr.write("\r\x1b[K");
    },
  };
}
